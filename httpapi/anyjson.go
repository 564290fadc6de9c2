package httpapi

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline/wire"
)

// anyJSON says of wire.AnyJSON, which does not know the library of the document, that it may be anything, and null.
type anyJSON struct{}

// Schema is that of wire.AnyJSON.
func (anyJSON) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{{}, {Type: "null"}}}
}

// schemas are those of the forms of the API.
func schemas() huma.Registry {
	r := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	r.RegisterTypeAlias(reflect.TypeFor[wire.AnyJSON](), reflect.TypeFor[anyJSON]())
	return r
}
