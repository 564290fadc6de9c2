package exec

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine bounds a line of standard output, maxControlLine one of descriptor 3.
const (
	maxLine        = 16 << 20
	maxControlLine = 64 << 10
)

// lineReader reads lines of any length in bounded memory.
type lineReader struct {
	r    *bufio.Reader
	max  int
	long []byte // of the present line, what did not fit into the buffer of r
	n    int    // lines so far
}

func newLineReader(r io.Reader, most int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), max: most}
}

// line is one line without its end; it is valid until the next call.
type line struct {
	text   []byte
	cut    bool // it was longer, and its end was dropped
	closed bool // a line break followed; false: the output ended within it
}

// next returns io.EOF behind the last line.
func (l *lineReader) next() (line, error) {
	l.long = l.long[:0]
	var out line
	for {
		part, err := l.r.ReadSlice('\n')
		out.closed = err == nil
		whole := out.closed && len(l.long) == 0
		if whole {
			out.text = part
		} else {
			room := l.max + len("\r\n") - len(l.long)
			out.cut = out.cut || len(part) > room
			l.long = append(l.long, part[:min(room, len(part))]...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && len(l.long) == 0:
			return line{}, err
		case err != nil && !errors.Is(err, io.EOF):
			return line{}, err
		}
		if !whole {
			out.text = l.long
		}
		out.text = bytes.TrimRight(out.text, "\r\n")
		if l.n == 0 {
			out.text = bytes.TrimPrefix(out.text, []byte("\xef\xbb\xbf")) // a byte order mark
		}
		if len(out.text) > l.max {
			out.text, out.cut = out.text[:l.max], true
		}
		l.n++
		return out, nil
	}
}
