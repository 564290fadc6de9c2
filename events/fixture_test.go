package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rewrite makes fixtures that are missing and golden files that differ. A fixture that exists is never changed: it is a
// log that somebody may hold.
var rewrite = flag.Bool("rewrite", false, "write missing fixtures and differing golden files")

const fixtures = "../testfixtures/events"

func fixturePath(t Type, s Schema) string {
	return filepath.Join(fixtures, fmt.Sprintf("%s.v%d.json", t, s))
}

// L-7, SC-331: what any release wrote is read for ever, and today's schema is written as it was.
func TestStoredFixturesAreReadForEver(t *testing.T) {
	for _, typ := range Types() {
		for s := Schema(1); s <= SchemaOf(typ); s++ {
			t.Run(fmt.Sprintf("%s.v%d", typ, s), func(t *testing.T) {
				stored := fixture(t, typ, s)
				e, err := Decode(Record{Type: typ, Schema: s, Data: stored})
				require.NoError(t, err)
				if s < SchemaOf(typ) {
					return // upcast, so today it is written in another form
				}
				r, err := Encode(e)
				require.NoError(t, err)
				require.Equal(t, string(stored), string(r.Data))
			})
		}
	}
}

// fixture is the stored payload, without the white space that makes it readable.
func fixture(t testing.TB, typ Type, s Schema) []byte {
	t.Helper()
	path := fixturePath(typ, s)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && *rewrite && s == SchemaOf(typ) {
		data = createFixture(t, path, sampleOf(t, typ))
		err = nil
	}
	require.NoError(t, err, "every type has a fixture for every schema; -rewrite makes a missing one")
	var compact bytes.Buffer
	require.NoError(t, json.Compact(&compact, data))
	return compact.Bytes()
}

func createFixture(t testing.TB, path string, e Event) []byte {
	t.Helper()
	r, err := Encode(e)
	require.NoError(t, err)
	var readable bytes.Buffer
	require.NoError(t, json.Indent(&readable, r.Data, "", "  "))
	readable.WriteByte('\n')
	require.NoError(t, os.MkdirAll(fixtures, 0o755))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	require.NoError(t, err)
	_, err = f.Write(readable.Bytes())
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return readable.Bytes()
}

// L-7: a fixture whose type or schema is gone means that a name or a number was taken away from old logs.
func TestEveryFixtureBelongsToAType(t *testing.T) {
	known := map[string]bool{}
	for _, typ := range Types() {
		for s := Schema(1); s <= SchemaOf(typ); s++ {
			known[fixturePath(typ, s)] = true
		}
	}
	found, err := filepath.Glob(filepath.Join(fixtures, "*.json"))
	require.NoError(t, err)
	for _, path := range found {
		require.True(t, known[path], "%s belongs to no type", path)
	}
}

// L-7: numbers and names are a file format. The list only grows, and a schema only rises.
func TestTypeNumbersAndNamesAreFrozen(t *testing.T) {
	var now strings.Builder
	for _, typ := range Types() {
		fmt.Fprintf(&now, "%d %s %d\n", typ, typ, SchemaOf(typ))
	}
	before := golden(t, "types.txt", now.String())
	for line := range strings.Lines(before) {
		var number Type
		var name string
		var schema Schema
		_, err := fmt.Sscanf(line, "%d %s %d", &number, &name, &schema)
		require.NoError(t, err, line)
		require.Equal(t, name, number.String(), "number %d has another name", number)
		require.GreaterOrEqual(t, SchemaOf(number), schema, name)
	}
	if !*rewrite {
		require.Equal(t, before, now.String(), "-rewrite notes a new type or schema")
	}
}

// golden is what a golden file holds. With -rewrite the file becomes want; the answer is still what it held before.
func golden(t testing.TB, name, want string) string {
	t.Helper()
	path := filepath.Join(fixtures, name)
	held, err := os.ReadFile(path)
	if *rewrite {
		if err != nil {
			held = []byte(want)
		}
		require.NoError(t, os.MkdirAll(fixtures, 0o755))
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return string(held)
	}
	require.NoError(t, err)
	return string(held)
}
