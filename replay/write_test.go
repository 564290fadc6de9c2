package replay

import (
	"bufio"
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Decision 0023: every piece of a page has as many values as holes. Here is every part of it with all that it can have.
func TestEveryPieceHasAValueForEachHole(t *testing.T) {
	const text = `<i> "'&`
	var out bytes.Buffer
	p := &page{w: bufio.NewWriter(&out)}
	form := drawn{Class: "running", Href: "#p1", Title: text, Text: text, Path: "M0 0"}
	p.writeHead(heading{
		Sync: text, Facts: []fact{{text, "bad"}}, Subjects: []subject{{"u1", text}},
		Story: story{Entries: []entry{{Text: text, Subject: text, Href: "#p1"}, {Text: text}}, More: 2},
		Picture: picture{
			About: text, Axis2: 1, Ticks: []drawn{form}, Cuts: []drawn{form}, Ends: []drawn{form}, Labels: []drawn{form}, Area: []drawn{form},
			AreaY: form, Rest: text, Legend: []string{"running"},
			Lanes: []drawnLane{{Label: text, Title: text, Class: "odd", Href: "#p1", Bars: []drawn{form, {Title: text}}, Marks: []drawn{form, {Class: "good"}}}},
		},
	})
	p.writeTransaction(transaction{Command: text, Actor: text, By: text, Opener: linked{text, "#p1"}})
	row := toldRow{Table: "units", Owner: "u1", Name: text, Op: "gone", Shared: true, Own: true, Columns: []toldColumn{{Name: text, Was: text, WasNone: true, IsNot: true, Above: true}}}
	long := toldRow{Name: text, Op: "new", Columns: make([]toldColumn, 9)}
	step := toldStep{
		Subject: text, Was: "a", Is: "b", Type: text, Fields: text, Because: []linked{{text, "#p1"}, {Text: text}}, Rows: []toldRow{row, long},
		Shift: "1", Since: "1", Until: "2", Parts: []string{text},
	}
	p.writeStep(step)
	p.writeStep(toldStep{Is: "b"})
	p.writeFold(step)
	p.writeDeath("d1", Died, []string{text})
	p.writeTail(text, 1, text)
	require.NoError(t, p.err)
	require.NoError(t, p.w.Flush())
	require.Equal(t, 0, bytes.Count(out.Bytes(), []byte("<i>")))
	require.Less(t, 20, bytes.Count(out.Bytes(), []byte("&lt;i&gt; &#34;&#39;&amp;")))
}
