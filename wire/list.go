package wire

// List is one page.
type List[T any] struct {
	Items []T    `json:"items" nullable:"false"`
	Next  string `json:"next,omitzero" doc:"after of the next page; not given: there is none. A page that is empty may have one"`
}
