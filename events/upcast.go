package events

import "fmt"

// upcast turns a payload of one schema into the next. It is a small pure function and stays for ever, as the logs do.
type upcast func(data []byte) ([]byte, error)

type upcastKey struct {
	Type Type
	From Schema // to From + 1
}

// upcasts holds one entry per step. All types are at schema 1 today.
var upcasts = map[upcastKey]upcast{}

func (c *codec) upcast(r Record, to Schema) ([]byte, error) {
	data := r.Data
	for s := r.Schema; s < to; s++ {
		step, ok := c.upcasts[upcastKey{r.Type, s}]
		if !ok {
			return nil, fmt.Errorf("no upcaster from schema %d", s)
		}
		var err error
		if data, err = step(data); err != nil {
			return nil, fmt.Errorf("upcast from schema %d: %w", s, err)
		}
	}
	return data, nil
}
