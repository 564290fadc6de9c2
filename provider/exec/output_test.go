//go:build unix

package exec_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/exec"
	"github.com/towline-dev/towline/provider/providertest"
	"github.com/towline-dev/towline/sink"
)

// says is a program that writes a text to its standard output.
func says(text string) exec.Options {
	o := sh(`printf '%s' "$TEXT"`)
	o.Env = map[string]string{"TEXT": text}
	return o
}

// EX-1, EX-2, HC-49: the native protocol: rows with keys of all kinds, state, progress, result, and no digit that changes.
func TestTheNativeProtocol(t *testing.T) {
	got := run(t, says(`starting up
{"towline":"record","stream":"commits","key":["a1"],"data":{"n":9223372036854775807,"big":18446744073709551616,"f":1.0,"s":"<é>"}}
{"towline":"record","key":"b2","data":{}}
{"towline":"record","key":[9007199254740993],"data":{}}

{"towline":"record","key":["a", 2],"data":{}}
{"towline":"record","key":["[x"],"data":{}}
{"towline":"record","data":{}}
{"towline":"progress","done":3,"total":10}
{"towline":"log","level":"warning","text":"slow today"}
{"towline":"state","state":{"old":1}}
{"towline":"state","state":{"next":9007199254740993}}
{"towline":"result","rows":6,"fingerprint":"6:abc"}
`))
	require.Equal(t, []string{
		`commits a1 {"n":9223372036854775807,"big":18446744073709551616,"f":1.0,"s":"\u003cé\u003e"}`, // by the encoder of the test's sink
		`commits b2 {}`, `commits 9007199254740993 {}`, `commits ["a",2] {}`, `commits ["[x"] {}`, `commits 2024-03-01 000000006 {}`,
	}, got.rows())
	require.Equal(t, `{"next":9007199254740993}`, string(got.sink.Left()))
	require.Contains(t, got.sink.Reports(), providertest.Progress{Done: 3, Total: 10})
	require.Equal(t, "6:abc", got.result.Fingerprint)
	require.Equal(t, "starting up\nslow today\n", got.detail().Log)
	require.Contains(t, got.log.String(), `level=WARN msg=program`)
	require.Contains(t, got.log.String(), `text="slow today"`)
}

// EX-2: the lines protocol: each object is a row, all else is for people; the last line needs no end.
func TestTheLinesProtocol(t *testing.T) {
	o := says("hello\n[1,2]\n42\n{\"id\":7,\"v\":\"a\"}\r\n{not json}\n  {\"id\":\"x\",\"v\":2} \n\n{\"id\":12345678901234567890}")
	require.Equal(t, []string{
		`commits 2024-03-01 000000001 {"id":7,"v":"a"}`, `commits 2024-03-01 000000002 {"id":"x","v":2}`,
		`commits 2024-03-01 000000003 {"id":12345678901234567890}`,
	}, run(t, o).rows())
	o.Key = []string{"id"}
	got := run(t, o)
	require.Equal(t, []string{`commits 7 {"id":7,"v":"a"}`, `commits x {"id":"x","v":2}`, `commits 12345678901234567890 {"id":12345678901234567890}`}, got.rows())
	require.Equal(t, "hello\n[1,2]\n42\n{not json}\n", got.detail().Log)

	o = says(`{"towline":"mine","a":1}`)
	o.Protocol = exec.Lines
	require.Equal(t, []string{`commits 2024-03-01 000000001 {"towline":"mine","a":1}`}, run(t, o).rows(), "it was said what it is")
}

// EX-2: a row is never skipped: what cannot be read fails the unit, with the line.
func TestOutputThatCannotBeRead(t *testing.T) {
	record := `{"towline":"record","key":"a","data":{}}` + "\n"
	for text, want := range map[string]string{
		record + "oops\n" + record:                                          "line 2 of its output: it is no JSON object",
		record + `{"towline":"record","key":"b","da`:                        "line 2 of its output: it is no JSON object",
		record + `{"a":1}`:                                                  "line 2 of its output: it has no field towline",
		`{"towline":"row","data":{}}`:                                       `towline is "row", which version 1 of the contract does not have`,
		`{"towline":"record","key":"a"}`:                                    "a record has no data",
		`{"towline":"record","key":"a","data":[1]}`:                         "a record has no data, or data that is no object",
		`{"towline":"record","key":[],"data":{}}`:                           "key is an empty list",
		`{"towline":"record","key":[null],"data":{}}`:                       "no list of them: [null]",
		`{"towline":"record","key":{"a":1},"data":{}}`:                      `no list of them: {"a":1}`,
		`{"towline":"state"}`:                                               "a state has no field state",
		`{"towline":"progress","done":"much"}`:                              "cannot unmarshal",
		`{"towline":"retry_after"}`:                                         "no seconds",
		`{"towline":"retry_after","seconds":-1}`:                            "negative",
		`{"towline":"result","rows":-1}`:                                    "rows is -1",
		record + `{"towline":"result","rows":2}`:                            "its result says 2 rows, and 1 have arrived: nothing is stored",
		"{\"towline\":\"record\",\"key\":\"a\",\"data\":{\"v\":\"\xff\"}}":  "line 1 of its output: it is not UTF-8",
		"{\"v\":\"\xff\xfe\"}\n":                                            "line 1 of its output: it is not UTF-8",
		`{"towline":"state","state":"` + strings.Repeat("x", 64<<10) + `"}`: "the state has 65538 bytes: keep it to 61440",
	} {
		run(t, says(text)).requireFailed(provider.OtherError, want)
	}
	run(t, says(`{"type":"SCHEMA","stream":"x"}`)).requireFailed(provider.Configuration, "Singer or Airbyte")
	o := says(`{"a":1}`)
	o.Key = []string{"id"}
	run(t, o).requireFailed(provider.OtherError, `the row has no field "id"`)
	u := unit()
	u.Surfaces = []string{"commits", "changes"}
	runUnit(t.Context(), t, says(`{"a":1}`), u).requireFailed(provider.Configuration, "a row names no stream")
}

// RW-6: a stream that the unit does not declare is refused by the sink, whose errors keep their category.
func TestTheSinkHasTheLastWord(t *testing.T) {
	run(t, says(`{"towline":"record","stream":"other","key":"a","data":{}}`)).requireFailed(events.UndeclaredSurface, `surface "other"`)

	p, _ := newProvider(t, sh(`while :; do echo '{"a":1}'; done`)) // it does not stop by itself
	s := providertest.NewSink(unit())
	s.Fail = func(providertest.Row) error { return fmt.Errorf("row: %w", sink.ErrFenced) }
	_, err := p.Sync(t.Context(), unit(), s)
	require.ErrorIs(t, err, sink.ErrFenced)
	s.Fail = func(providertest.Row) error { return provider.Fail(provider.SinkError, errors.New("disk full")) }
	_, err = p.Sync(t.Context(), unit(), s)
	require.Equal(t, provider.SinkError, provider.CategoryOf(err))
}

// EX-2: a line is bounded, whatever it is: a row of more fails, and what is for people is cut.
func TestHugeLines(t *testing.T) {
	row := `printf '{"v":"'; head -c %d /dev/zero | tr '\0' x; printf '"}\n'; echo '{"a":1}'`
	got := run(t, sh(fmt.Sprintf(row, 16<<20-8)))
	require.Len(t, got.rows(), 2)
	require.Len(t, got.sink.Rows()[0].JSON, 16<<20)
	run(t, sh(fmt.Sprintf(row, 16<<20-7))).requireFailed(provider.OtherError, `line 1 of its output: it has more than 16777216 bytes: {"v":"xxx`)
	run(t, sh(fmt.Sprintf(row, 200<<20))).requireFailed(provider.OtherError, "it has more than 16777216 bytes")
	got = run(t, sh(`head -c 60000000 /dev/zero | tr '\0' x; echo; echo '{"a":1}'`))
	require.Len(t, got.rows(), 1)
	require.Contains(t, got.detail().Log, "xxx…\n")
}

// EX-2, EX-5: a flood of log lines, of standard error and of noise on descriptor 3 costs bounded room, and hides no row.
func TestFloods(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 100_000
	}
	got := run(t, sh(fmt.Sprintf(`yes 'not a row' | head -n %d; yes error | head -n %[1]d >&2; yes noise | head -n %[1]d >&3; echo '{"a":1}'; echo the end >&2`, n)))
	require.Len(t, got.rows(), 1)
	require.LessOrEqual(t, len(got.result.Detail), 4<<10)
	require.True(t, strings.HasSuffix(got.detail().Stderr, "error\nthe end\n"))
	require.Less(t, strings.Count(got.log.String(), "\n"), 250)
	require.Contains(t, got.log.String(), "no more of it is logged")

	got = run(t, sh(`i=0; while [ $i -lt 5000 ]; do echo '{"towline":"record","data":{"v":"0123456789012345678901234567890123456789"}}'; i=$((i+1)); done`))
	require.Len(t, got.rows(), 5000)
}

// EX-8: descriptor 3 takes progress, state and all else but rows, in either protocol; what it cannot read there is a sign of life.
func TestDescriptor3(t *testing.T) {
	got := run(t, sh(`echo '{"a":1}'
		printf 'noise\n\0\377\376{"towline":\n{"towline":"progress","done":4,"total":8}\n' >&3
		head -c 200000 /dev/zero | tr '\0' '{' >&3; echo >&3
		echo '{"towline":"state","state":[1]}' >&3; echo '{"towline":"result","rows":1}' >&3; printf '{"towline":"log","text":"half' >&3`))
	require.Len(t, got.rows(), 1)
	require.Equal(t, `[1]`, string(got.sink.Left()))
	require.Contains(t, got.sink.Reports(), providertest.Progress{Done: 4, Total: 8})
	run(t, sh(`echo '{"towline":"record","data":{}}' >&3; exec sleep 60`)).requireFailed(provider.OtherError, "a row was written to descriptor 3")
	require.Empty(t, run(t, sh(`exec 3>&-`)).rows())
}

// EX-2: a program that writes by itself may say how much.
func TestRowsOfAProgramThatWritesByItself(t *testing.T) {
	got := run(t, says(`{"towline":"result","rows":12}`))
	require.Empty(t, got.rows())
	require.Equal(t, 12, got.result.Rows)
	require.Nil(t, got.result.Detail)
}
