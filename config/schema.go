package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Schema is the JSON Schema of towline.yaml (draft 2020-12), for editors. It says form, words and defaults; the bounds
// of durations and sizes, and what holds between two keys, are held by Load alone.
func Schema() []byte {
	top := schemaOf(table().root)
	top["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	top["title"] = FileName
	top["required"] = []string{"version"}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(top); err != nil {
		panic(fmt.Sprintf("config: encode schema: %v", err)) // it is made of maps and texts
	}
	return out.Bytes()
}

func schemaOf(b *branch) map[string]any {
	if !b.mapping() {
		return b.key.schema()
	}
	out := map[string]any{"type": []string{"object", "null"}, "additionalProperties": false}
	if b.key != nil {
		out["description"] = b.key.Doc
	}
	properties := map[string]any{}
	for _, part := range b.names {
		if part == name {
			out["additionalProperties"] = schemaOf(b.next[part])
			continue
		}
		properties[part] = schemaOf(b.next[part])
	}
	if len(properties) > 0 {
		out["properties"] = properties
	}
	return out
}

// patterns are how texts of a form look.
var patterns = map[Form]string{
	Duration: `^(0|([0-9]+(w|d|h|m|s|ms))+)$`,
	Bytes:    `^(0|([0-9]+(GiB|MiB|KiB|GB|MB|kB|B))+)$`,
	Rate:     `^[0-9]+/s$`,
	Ref:      `^(file|env|cred):.+$`,
}

func (k Key) schema() map[string]any {
	out := map[string]any{"description": k.Doc}
	if k.Provider != "" {
		out["description"] = fmt.Sprintf("%s Of the provider %s.", k.Doc, k.Provider)
	}
	switch k.Form {
	case Any:
		return out
	case Count:
		out["type"] = "integer"
		for word, bound := range map[string]string{"minimum": k.Min, "maximum": k.Max} {
			if bound != "" {
				out[word] = json.RawMessage(bound)
			}
		}
	case Bool:
		out["type"] = "boolean"
	case Listing:
		item := map[string]any{"type": "string"}
		if k.Choices != nil {
			item["enum"] = k.Choices
		}
		out["anyOf"] = []any{map[string]any{"type": "array", "items": item}, item}
	default:
		out["type"] = "string"
		if p := patterns[k.Form]; p != "" {
			out["pattern"] = p
		}
		k.schemaOfWords(out)
	}
	if k.Default != "" {
		out["default"] = k.schemaDefault()
	}
	return out
}

// schemaOfWords: a word with a number is a pattern, for no list could hold all of them.
func (k Key) schemaOfWords(out map[string]any) {
	if k.Choices == nil {
		return
	}
	var words []string
	open := false
	for _, c := range k.Choices {
		prefix, numbered := strings.CutSuffix(c, "(N)")
		if numbered {
			c, open = prefix+`\([0-9]+\)`, true
		}
		words = append(words, c)
	}
	if open {
		out["pattern"] = "^(" + strings.Join(words, "|") + ")$"
		return
	}
	out["enum"] = k.Choices
}

func (k Key) schemaDefault() any {
	switch k.Form {
	case Count, Bool:
		return json.RawMessage(k.Default)
	case Listing:
		return k.defaultValue().list
	}
	return k.Default
}
