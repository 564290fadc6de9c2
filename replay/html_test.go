package replay_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/replay"
)

func html(t *testing.T, h *replay.History, o replay.HTMLOptions) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, replay.HTML(context.Background(), &b, h, o))
	return b.String()
}

var (
	styles  = regexp.MustCompile(`(?s)<style>(.*?)</style>`)
	scripts = regexp.MustCompile(`(?s)<script>(.*?)</script>`)
)

// element is one of a page, as a browser would make it: what a text has smuggled in would be one, too.
type element struct {
	name     string
	attrs    map[string]string
	text     string // of itself and what is in it
	children []*element
}

func (e *element) class(name string) bool {
	return slices.Contains(strings.Fields(e.attrs["class"]), name)
}

// all lists the elements of some name within e.
func (e *element) all(name string) (out []*element) {
	for _, c := range e.children {
		if c.name == name {
			out = append(out, c)
		}
		out = append(out, c.all(name)...)
	}
	return out
}

// parse reads a page. Every element in it is closed, or has no content.
func parse(t *testing.T, page string) *element {
	t.Helper()
	page = styles.ReplaceAllString(scripts.ReplaceAllString(page, "<script></script>"), "<style></style>")
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, []string{"meta", "input"}, xml.HTMLEntity
	root := &element{}
	open := []*element{root}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			require.Len(t, open, 1)
			return root
		}
		require.NoError(t, err)
		last := open[len(open)-1]
		switch x := token.(type) {
		case xml.StartElement:
			e := &element{name: x.Name.Local, attrs: map[string]string{}}
			for _, a := range x.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			last.children = append(last.children, e)
			open = append(open, e)
		case xml.EndElement:
			require.Equal(t, last.name, x.Name.Local)
			open = open[:len(open)-1]
		case xml.CharData:
			for _, e := range open {
				e.text += string(x)
			}
		}
	}
}

func stepsOf(page *element) []*element {
	return slices.DeleteFunc(page.all("li"), func(e *element) bool { return !e.class("step") })
}

// AS-6, AS-7: the page of a run whose process died when its sink had committed, and again at once when it came back. What
// style and script are is in their own files.
func TestThePageOfACrash(t *testing.T) {
	s, run := only(t, world(t, behindSink, behindStart))
	h := history(t, s, 0, run)
	page := html(t, h, replay.HTMLOptions{})
	require.Equal(t, page, html(t, h, replay.HTMLOptions{}), "the same log gives the same page")
	page = styles.ReplaceAllString(scripts.ReplaceAllString(page, "<script></script>"), "<style></style>")
	golden(t, "crash.html", regexp.MustCompile(`sha256-[^ ;]*`).ReplaceAllString(page, "sha256-"))
}

// AS-6: whoever stops at an event of a page sees every row as the views had it there; also where what happened to other
// units is folded.
func TestStoppingOnAPage(t *testing.T) {
	s, run := only(t, world(t, behindSink, behindStart))
	whole := history(t, s, 0, run)
	for name, o := range map[string]replay.HTMLOptions{"all": {}, "renewals": {Renewals: true}, "one unit": {Units: 1, First: []int{3}}} {
		t.Run(name, func(t *testing.T) {
			r := reader{rows: map[string]map[string]string{}, names: map[string]string{}}
			all := stepsOf(parse(t, html(t, whole, o)))
			for i, step := range all {
				r.read(t, step)
				if i%7 > 0 && i < len(all)-1 {
					continue
				}
				r.compare(t, past(t, s, r.at), run)
			}
			require.Equal(t, whole.Position, r.at)
		})
	}
}

// reader follows a page as its script does.
type reader struct {
	at    events.Position
	rows  map[string]map[string]string // columns, by the number of the row
	names map[string]string            // of rows: the table, and the key of its subject
	sum   [7]int
}

func (r *reader) read(t *testing.T, step *element) {
	t.Helper()
	last := step.attrs["data-to"]
	if last == "" {
		last = strings.TrimPrefix(step.attrs["id"], "p")
	}
	p, err := strconv.Atoi(last)
	require.NoError(t, err)
	require.Greater(t, events.Position(p), r.at)
	r.at = events.Position(p)
	for i, n := range strings.Fields(step.attrs["data-shift"]) {
		d, err := strconv.Atoi(n)
		require.NoError(t, err)
		r.sum[i] += d
	}
	for _, table := range step.all("table") {
		n := table.attrs["data-r"]
		if r.rows[n] == nil {
			r.rows[n], r.names[n] = map[string]string{}, table.attrs["data-table"]+" "+table.attrs["data-of"]
		}
		for _, tr := range table.all("tr")[1:] {
			name, was, is := tr.all("th")[0].text, tr.all("td")[0], tr.all("td")[1]
			if before, ok := r.rows[n][name]; ok {
				require.Equal(t, before, was.text, "%s at %d", name, r.at)
			}
			if r.rows[n][name] = is.text; is.class("z") {
				r.rows[n][name] = "–"
			}
		}
	}
}

func (r *reader) row(name string) map[string]string {
	for n, row := range r.rows {
		if r.names[n] == name {
			return row
		}
	}
	return nil
}

func (r *reader) compare(t *testing.T, past *projections.Past, run events.RunID) {
	t.Helper()
	require.NoError(t, past.View(t.Context(), func(v projections.View) error {
		if row := r.row("runs run"); row != nil {
			want, _, err := v.Run(run)
			require.NoError(t, err)
			if want.Status != events.RunIsRunning { // which is counted, and in no row
				require.Equal(t, string(want.Status), row[`status`])
			}
		}
		units, err := v.Units(run, 0, 100)
		require.NoError(t, err)
		var sum [7]int
		for _, u := range units {
			sum[slices.Index([]events.UnitStatus{"succeeded", "failed", "cancelled", "running", "retrying", "dispatching", "planned"}, u.Status)]++
			row := r.row(fmt.Sprintf("units u%d", u.Ordinal))
			if row == nil {
				continue // it has no lane
			}
			require.Equal(t, string(u.Status), row["status"], "unit %d at %d", u.Ordinal, r.at)
			require.Equal(t, strconv.Itoa(u.Attempt), row["attempt"])
			require.Equal(t, strconv.Itoa(u.Dispatch), row["dispatch"])
		}
		require.Equal(t, sum, r.sum, "at %d", r.at)
		registers, err := v.RegistersOf(run)
		require.NoError(t, err)
		for _, g := range registers {
			require.Equal(t, string(g.Status), r.row("outbox " + string(g.Kind))["status"], "%s at %d", g.Kind, r.at)
		}
		return nil
	}))
}

// AS-6: a link of a page leads to something on it.
func TestLinksOfAPage(t *testing.T) {
	s, run := only(t, world(t, behindSink, behindStart))
	for _, o := range []replay.HTMLOptions{{}, {Units: 1}, {Steps: 1}} {
		page := parse(t, html(t, history(t, s, 0, run), o))
		ids := map[string]int{}
		var walk func(*element)
		walk = func(e *element) {
			if id := e.attrs["id"]; id != "" {
				ids[id]++
			}
			for _, c := range e.children {
				walk(c)
			}
		}
		walk(page)
		for id, n := range ids {
			require.Equal(t, 1, n, id)
		}
		links := append(page.all("a"), page.all("use")...)
		require.NotEmpty(t, links)
		for _, a := range links {
			require.Contains(t, ids, strings.TrimPrefix(a.attrs["href"], "#"))
		}
	}
}

// AS-7: the page of an open run tells a death that no step has followed, and names what is at work.
func TestThePageOfAnOpenRun(t *testing.T) {
	st := newStage(t)
	a := st.start()
	run := a.plan(0)
	a.dispatch(run)
	st.now.Step(time.Second)
	a.claim(run, 1)
	a.kill()
	st.now.Step(2 * time.Minute)
	b := st.start()
	require.NoError(t, b.e.Stop(context.Background(), "again"))
	b.kill()
	st.now.Step(time.Minute)
	c := st.start()
	defer c.kill()
	page := html(t, history(t, c.file, 0, run), replay.HTMLOptions{})
	require.Contains(t, page, "run is running, 0 of 2 units succeeded")
	root := parse(t, page)
	var ends []string
	for _, li := range root.all("li") {
		if li.class("death") {
			ends = append(ends, li.text)
		}
	}
	require.Len(t, ends, 2)
	require.Contains(t, ends[0], a.e.Node().String()+" died, its last sign of life is")
	require.Contains(t, ends[1], `stopped, +2m1s (again)`)
	require.Contains(t, root.all("section")[0].text, "lost its lease: incarnation gone; attempt 1 is tried again")
}

// E-4: no token is on a page.
func TestAPageHoldsNoSecret(t *testing.T) {
	s, run := only(t, world(t, behindSink))
	h := history(t, s, 0, run)
	page := html(t, h, replay.HTMLOptions{Renewals: true})
	tokens := 0
	for _, step := range steps(t, h) {
		for _, token := range regexp.MustCompile(`[Tt]oken:([^ }]+)`).FindAllStringSubmatch(fmt.Sprintf("%+v", step.Event.Event), -1) {
			if token[1] != "" && token[1] != "***" {
				require.NotContains(t, page, token[1])
				tokens++
			}
		}
		switch e := step.Event.Event.(type) {
		case events.UnitClaimed:
			require.NotContains(t, page, string(e.Token))
			tokens++
		case events.OutboxClaimed:
			require.NotContains(t, page, string(e.Token))
			tokens++
		}
	}
	require.Greater(t, tokens, 5)
	require.Contains(t, page, "token: ***")
}

// What providers, workers and people have written stays text, wherever it stands.
func TestTextIsInertOnAPage(t *testing.T) {
	const hostile = `</script></style></title><script>alert(1)</script>"'><img src=x onerror=alert(1)>` + "{{.Run}}<!--\u202e`${1}`"
	st := newStage(t)
	a := st.start()
	p, err := a.e.Plan(context.Background(), towline.RunSpec{Sync: "reports", By: towline.Actor{Name: hostile}})
	require.NoError(t, err)
	run := p.Run
	a.dispatch(run)
	l := a.claim(run, 1)
	require.NoError(t, a.e.Fail(context.Background(), l, events.Auth, hostile))
	var units []projections.SyncRunUnit
	require.NoError(t, a.e.View(context.Background(), func(v projections.View) (err error) {
		units, err = v.Units(run, 1, 1)
		return err
	}))
	l, err = a.e.Claim(context.Background(), units[0].Unit, towline.Worker{Name: hostile})
	require.NoError(t, err)
	require.NoError(t, a.e.Complete(context.Background(), l, events.Result{Rows: 1, Detail: []byte(strconv.Quote("</script><img>"))}))
	require.NoError(t, a.e.Stop(context.Background(), hostile))
	a.kill()
	b := st.start()
	defer b.kill()
	b.finalize(run)
	page := html(t, history(t, b.file, 0, run), replay.HTMLOptions{})
	root := parse(t, page)
	requireInert(t, root)
	require.GreaterOrEqual(t, strings.Count(root.text, "<img src=x onerror=alert(1)>"), 4, "it is there to be read")
	require.False(t, strings.Contains(page, "\u202e"), "a text would turn the line around")
	require.Len(t, scripts.FindAllString(page, -1), 1)
	require.Len(t, styles.FindAllString(page, -1), 1)
}

// requireInert knows every element that a page is made of, and that none of them fetches or runs anything.
func requireInert(t *testing.T, e *element) {
	t.Helper()
	for _, c := range e.children {
		require.Contains(t, strings.Fields(`html head meta title style body header h1 small span p dl div dt dd code time main section h2 ul
			li ol b a figure svg desc defs pattern rect symbol circle path g text use figcaption kbd form label select option button
			input output h3 details summary table caption thead tbody tr th td aside footer script`), c.name)
		for name, value := range c.attrs {
			require.False(t, strings.HasPrefix(name, "on"), name)
			require.NotContains(t, []string{"src", "style", "srcset", "action"}, name)
			if name == "href" {
				require.Regexp(t, `^#[a-z0-9]+$`, value)
			}
		}
		requireInert(t, c)
	}
}

// A page forbids itself everything but its own style and script, and asks for nothing.
func TestThePolicyOfAPage(t *testing.T) {
	s, run := only(t, world(t))
	page := html(t, history(t, s, 0, run), replay.HTMLOptions{})
	root := parse(t, page)
	requireInert(t, root)
	metas := root.all("meta")
	require.Equal(t, "utf-8", metas[0].attrs["charset"])
	require.Equal(t, "Content-Security-Policy", metas[1].attrs["http-equiv"])
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return base64.StdEncoding.EncodeToString(sum[:])
	}
	style, script := styles.FindStringSubmatch(page)[1], scripts.FindStringSubmatch(page)[1]
	require.Equal(t, fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; base-uri 'none'; form-action 'none'",
		hash(style), hash(script)), metas[1].attrs["content"])
	require.NotContains(t, style, "@import")
	require.Empty(t, regexp.MustCompile(`url\([^#]`).FindAllString(style, -1))
	require.NotRegexp(t, `fetch\(|XMLHttp|innerHTML|eval\(|import\(`, script)
	require.NotRegexp(t, `https?:`, page)
}

// The page of a run that is too wide has those units that were not as planned, however far behind, and some that were; it
// says what it leaves out.
func TestThePageOfAWideRun(t *testing.T) {
	st := newStage(t)
	a := st.start()
	defer a.kill()
	run := a.plan(25) // two sources
	a.dispatch(run)
	for n := 1; n <= 50; n++ {
		l := a.claim(run, n)
		st.now.Step(time.Second)
		if n == 45 {
			require.NoError(t, a.e.Fail(context.Background(), l, events.Auth, "the door is shut"))
			continue
		}
		a.complete(l)
	}
	a.finalize(run)
	h := history(t, a.file, 0, run)
	page := html(t, h, replay.HTMLOptions{})
	require.Equal(t, strings.Fields("u45 u1 u2 u3 u4 u5 u6 u7 u8"), lanes(t, page))
	require.Contains(t, page, "and 41 more units without a lane, of which this page has only the numbers: 41 succeeded.")
	require.Equal(t, strings.Fields("u30 u45 u1"), lanes(t, html(t, h, replay.HTMLOptions{Units: 3, First: []int{30}})))
	few := html(t, h, replay.HTMLOptions{Units: 60, Steps: 20})
	told := 0
	for _, step := range stepsOf(parse(t, few)) {
		if !step.class("fold") {
			told++
		}
	}
	require.LessOrEqual(t, told, 20)
	require.Less(t, len(few), len(page))
	require.Equal(t, "u45", lanes(t, few)[0])
}

func lanes(t *testing.T, page string) (out []string) {
	t.Helper()
	for _, g := range parse(t, page).all("g") {
		if key := g.attrs["data-key"]; strings.HasPrefix(key, "u") {
			out = append(out, key)
		}
	}
	return out
}

// HC-46: the page of the widest run is no larger than its options let it be.
func TestThePageOfTheWidestRun(t *testing.T) {
	st := newStage(t)
	a := st.start()
	defer a.kill()
	days := enginetest.Fewer(500)
	run := a.plan(days) // two sources
	a.dispatch(run)
	for n := 1; n <= 60; n++ {
		l := a.claim(run, n)
		st.now.Step(time.Second)
		a.complete(l)
	}
	h := history(t, a.file, 0, run)
	page := html(t, h, replay.HTMLOptions{})
	require.Contains(t, page, fmt.Sprintf("and %d more units without a lane", 2*days-40))
	require.Less(t, len(page), 512<<10)
}

// Renewals in a row are one step, and behind it the row is as the last of them left it.
func TestRenewalsAreFoldedOnAPage(t *testing.T) {
	st := newStage(t)
	a := st.start()
	defer a.kill()
	run := a.plan(0)
	a.dispatch(run)
	l := a.claim(run, 1)
	for range 10 {
		st.now.Step(20 * time.Second)
		var err error
		l, err = a.e.Renew(context.Background(), l)
		require.NoError(t, err)
	}
	a.complete(l)
	h := history(t, a.file, 0, run)
	folded := html(t, h, replay.HTMLOptions{})
	require.Contains(t, folded, "10 lease renewals: unit 1 north/articles")
	require.NotContains(t, folded, "UnitLeaseRenewed")
	require.Contains(t, folded, ">+4m20s<", "where the lease ended at last")
	require.Equal(t, 10, strings.Count(html(t, h, replay.HTMLOptions{Renewals: true}), "UnitLeaseRenewed"))
}

// Errors of the reader and of the writer come back, and nothing is written behind them.
func TestAPageMeetsErrors(t *testing.T) {
	s, run := only(t, world(t))
	h := history(t, s, 0, run)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, replay.HTML(ctx, io.Discard, h, replay.HTMLOptions{}), context.Canceled)
	require.ErrorIs(t, replay.HTML(t.Context(), broken{}, h, replay.HTMLOptions{}), errPlanted)
	late := &lateBroken{room: 50 << 10}
	require.ErrorIs(t, replay.HTML(t.Context(), late, h, replay.HTMLOptions{}), errPlanted)
	_, err := h.Outcome(t.Context())
	require.NoError(t, err, "the past goes on to answer")
}

// lateBroken breaks in the middle.
type lateBroken struct{ room int }

func (w *lateBroken) Write(p []byte) (int, error) {
	if w.room -= len(p); w.room < 0 {
		return 0, errPlanted
	}
	return len(p), nil
}
