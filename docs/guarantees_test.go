package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store/sqlite"
)

// deliveryTable is section 7 of the specification, as the rules have it.
func deliveryTable(testing.TB) string {
	var rows [][]string
	for _, d := range decider.Deliveries {
		kind := code(string(d.Kind))
		if d.Mode != "" {
			kind += ", " + code(string(d.Mode))
		}
		order := map[events.Order]string{events.PublishFirst: "publish, then mark", events.MarkFirst: "mark, then publish"}[d.Order]
		again := map[bool]string{true: "yes", false: "**never**"}[d.Rearm]
		if d.ByRedrive {
			again = "by redrive only"
		}
		rows = append(rows, []string{kind, d.Guarantee, order, again, d.ArmedBy, d.Harmless})
	}
	return table([]string{"kind", "guarantee", "order", "armed again", "armed by", "what makes duplicates harmless"}, rows)
}

// defaults are the knobs in force in an engine that sets none.
func defaults(t testing.TB) towline.Knobs {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "knobs.db"), sqlite.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	e, err := towline.Open(t.Context(), s, towline.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return e.Knobs()
}

// window is one place between two durable boundaries in which a process can die.
type window struct {
	name, boundary, disk string
	lost, twice          string
	rows                 string // of the crash table of the specification
	restart              string // exclusive store: when the next start is ready
	otherwise            func(towline.Knobs) []bound
}

// bound is how long recovery takes at most where no restart tells it more.
type bound struct {
	of  string
	max time.Duration
}

func onePass(k towline.Knobs) []bound { return []bound{{"pass", k.ReconcileInterval}} }

func oneClaim(k towline.Knobs) []bound {
	longest := k.BackoffBase + k.BackoffBase/10 // with its jitter (O-13)
	return []bound{{"claim + backoff + pass", k.ClaimTTL + longest + k.ReconcileInterval}}
}

func oneLease(k towline.Knobs) []bound {
	return []bound{{"lease + pass", k.Lease + k.ReconcileInterval}}
}

var windows = []window{
	{
		name: "W0", boundary: "request accepted", disk: "job, run, units and first wakeup, or nothing", lost: "no", twice: "no",
		rows: "C-1, C-2", restart: "at once",
		otherwise: onePass,
	},
	{
		name: "W1", boundary: "wakeup armed", disk: "a pending register", lost: "no", twice: "no",
		rows: "C-2, C-7, C-10, C-16, C-20", restart: "at once",
		otherwise: onePass,
	},
	{
		name: "W2", boundary: "wakeup claimed", disk: "a claimed register", lost: "no", twice: "no",
		rows: "C-3, C-21", restart: "at once",
		otherwise: oneClaim,
	},
	{
		name: "W3", boundary: "broker has the message", disk: "a claimed register", lost: "no",
		twice: "the message, under the same id; the second finds its work taken",
		rows:  "C-4, C-8", restart: "at once",
		otherwise: oneClaim,
	},
	{
		name: "W4", boundary: "wakeup marked", disk: "a closed register, work still owed", lost: "no", twice: "no",
		rows: "C-5, C-6, C-9, C-11, C-19, C-25, C-26", restart: "at once",
		otherwise: func(k towline.Knobs) []bound {
			return []bound{
				{"redrive + pass", k.RedriveAfter + k.ReconcileInterval}, {"a unit's message: stale + pass", k.Stale + k.ReconcileInterval},
				{"an exactly_once effect: its redrive + pass", k.PostSyncRedriveAfter + k.ReconcileInterval},
			}
		},
	},
	{
		name: "W5", boundary: "unit claimed", disk: "a running unit with a lease",
		lost: "no; without a retry policy the unit ends, visibly, as `worker_lost`", twice: "with one, the provider's work",
		rows: "C-12, C-13, C-14, C-17", restart: "at once, a retry after its backoff",
		otherwise: oneLease,
	},
	{
		name: "W6", boundary: "sink committed", disk: "rows, state and fence in the sink; a running unit with a lease",
		lost:  "no; without a retry policy the rows stay and the unit ends as `worker_lost`",
		twice: "with one, the write: it replaces the same window, and the fence refuses an older attempt",
		rows:  "C-15", restart: "at once, a retry after its backoff",
		otherwise: oneLease,
	},
	{
		name: "W7", boundary: "result recorded", disk: "the result; with the last unit, a pending finalize", lost: "no", twice: "no",
		rows: "C-16, C-19", restart: "at once",
		otherwise: onePass,
	},
	{
		name: "W8", boundary: "post_sync marked", disk: "a marked register without an outcome",
		lost: "**possibly, by contract**: it is never sent again", twice: "no",
		rows: "C-22, C-23, C-24, C-46", restart: "shown at once, as `unknown` or as never begun",
		otherwise: func(k towline.Knobs) []bound {
			return []bound{{"shown after claim + pass", k.ClaimTTL + k.ReconcileInterval}}
		},
	},
}

func windowTable(t testing.TB) string {
	k := defaults(t)
	var rows [][]string
	for _, w := range windows {
		var bounds []string
		for _, b := range w.otherwise(k) {
			bounds = append(bounds, b.of+" = "+seconds(b.max))
		}
		rows = append(rows, []string{w.name, w.boundary, w.disk, w.lost, w.twice, w.rows, w.restart, strings.Join(bounds, "; ")})
	}
	return table([]string{
		"", "last boundary passed", "on disk", "lost", "twice", "crash rows", "after a restart", "at the latest, without one",
	}, rows)
}

// recoveryTable is the short form for the README.
func recoveryTable(t testing.TB) string {
	k := defaults(t)
	var rows [][]string
	for _, w := range windows {
		longest := time.Duration(0)
		for _, b := range w.otherwise(k) {
			longest = max(longest, b.max)
		}
		rows = append(rows, []string{w.name, w.boundary, w.lost, w.restart, seconds(longest)})
	}
	return table([]string{"", "last boundary passed", "lost", "after a restart", "at the latest, without one"}, rows)
}

// The rows that a window names are rows of the crash table.
func TestWindowsNameRowsOfTheCrashTable(t *testing.T) {
	spec, err := os.ReadFile("SPEC.md")
	require.NoError(t, err)
	for _, w := range windows {
		for _, row := range strings.Split(w.rows, ", ") {
			require.Contains(t, string(spec), "\n| "+row+" |", w.name)
		}
	}
}

func policyTable(t testing.TB) string {
	k := defaults(t)
	p := decider.Linear(k.ExpiredLeaseMaxRetries, events.SpanOf(k.ExpiredLeaseRetryBackoff))
	rows := [][]string{
		{"none", "every dataset that sets no `Retry`", "–", "0", "–", "the unit ends as " + code(string(events.WorkerLost))},
		{
			code(p.Name), "provider " + code(p.Provider) + ", mode " + codes(p.Modes) + ", datasets " + codes(p.Family),
			retriesOn(p), strconv.Itoa(p.MaxRetries), seconds(p.Backoff.Std()), "then " + code(string(events.WorkerLostExhausted)),
		},
		{
			"of a dataset", "`Dataset.Retry`; its author declares every surface safe to write again",
			"a lost worker; beside it the failures whose categories `Retry.On` lists, and never `rate_limit`", "`Retry.Max`", "`Retry.Backoff`, else `ExpiredLeaseRetryBackoff`, " + seconds(time.Minute),
			"then " + code(string(events.WorkerLostExhausted)) + ", or the category",
		},
	}
	return table([]string{"policy", "covers", "tries again after", "at most", "backoff", "spent"}, rows)
}

func retriesOn(p events.RetryPolicy) string {
	if len(p.RetryOn) == 0 {
		return "a lost worker"
	}
	return codes(p.RetryOn)
}

// categoryTable joins section 19 of the specification with what the rules make of a category that a worker reports.
func categoryTable(t testing.TB) string {
	spec := specCategories(t)
	var rows [][]string
	for _, c := range constants(t, "../events/vocabulary.go", "Category") {
		category := events.Category(c)
		if category == events.ExpiredLease || category == events.HandedBack {
			continue // causes of a retry, never the category of a failure
		}
		row, ok := spec[c]
		require.True(t, ok, "section 19 of SPEC.md has no category %s", c)
		reports := "yes"
		if got := reported(t, category); got != category {
			reports = "no: stored as " + code(string(got))
		}
		rows = append(rows, []string{code(c), row[0], reports, row[1]})
	}
	return table([]string{"category", "set by", "a provider may report it", "meaning"}, rows)
}

// reported is what a failure of a category is stored as.
func reported(t testing.TB, c events.Category) events.Category {
	t.Helper()
	unit := decider.Unit{
		Status: events.UnitIsRunning, Attempt: 1, Lease: decider.Lease{Token: "t", ExpiresAt: 2, EndsAt: 2},
	}
	evs, rejection := decider.Decide(unit, decider.FailUnit{At: 1, RunOpen: true, Attempt: 1, Token: "t", Category: c,
		Limit: decider.RateLimit{MaxDeferrals: 1, MaxWait: 1, Default: 1}})
	require.Nil(t, rejection)
	require.Len(t, evs, 1)
	if retry, deferred := evs[0].(events.UnitRetryScheduled); deferred {
		return retry.Cause
	}
	failed, ok := evs[0].(events.UnitFailed)
	require.True(t, ok)
	return failed.Category
}

// specCategories reads the table of section 19: who sets a category, and what it means.
func specCategories(t testing.TB) map[string][2]string {
	t.Helper()
	spec, err := os.ReadFile("SPEC.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(spec), "\n## 19. ")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	row := regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+`(?:, )?)+) \\| (.+?) \\| (.+?) \\|$")
	out := map[string][2]string{}
	for _, m := range row.FindAllStringSubmatch(section, -1) {
		for _, name := range strings.Split(m[1], ", ") {
			out[strings.Trim(name, "`")] = [2]string{m[2], m[3]}
		}
	}
	require.NotEmpty(t, out)
	return out
}

// constants are the values of the constants of a string type, in the order of the source.
func constants(t testing.TB, file, kind string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var out []string
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			if id, ok := v.Type.(*ast.Ident); !ok || id.Name != kind {
				continue
			}
			value, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			out = append(out, value)
		}
	}
	require.NotEmpty(t, out)
	return out
}

// knob is one value of section 20.
type knob struct{ field, key, bounds, meaning string }

// unchecked are the knobs that Knobs.check does not bound by a row of its own.
var unchecked = map[string]knob{
	"CapBuckets":               {key: "cap.bucket.PROVIDER/COST", bounds: "at least 1"},
	"NeverStartedAfter":        {key: "dispatch.never_started_after", bounds: "negative: never"},
	"HeavyWindow":              {key: "plan.heavy_window", bounds: "more than plan.watermark_overlap, if a dataset is heavy"},
	"ExpiredLeaseMaxRetries":   {key: "unit.expired_lease_max_retries", bounds: "negative: none"},
	"RateLimitMaxDeferrals":    {key: "rate_limit.max_deferrals", bounds: "negative: none"},
	"ExpiredLeaseRetryBackoff": {key: "unit.expired_lease_retry_backoff", bounds: "negative: at once"},
	"RateLimitMaxWait":         {key: "rate_limit.max_wait", bounds: "negative: not at all"},
	"ShutdownGrace":            {key: "shutdown.grace", bounds: "negative: none"},
}

// knobTable prints the fields of Knobs with their comments, the bounds that Knobs.check names, and the values in force.
func knobTable(t testing.TB) string {
	values := reflect.ValueOf(defaults(t))
	var rows [][]string
	for _, k := range knobs(t) {
		v := values.FieldByName(k.field)
		var def string
		switch x := v.Interface().(type) {
		case time.Duration:
			def = seconds(x)
		case int:
			def = strconv.Itoa(x)
		default:
			def = "that of cap.bucket"
		}
		rows = append(rows, []string{code(k.key), code(k.field), def, k.bounds, k.meaning})
	}
	return table([]string{"key", "field of `Knobs`", "default", "bounds", "meaning"}, rows)
}

func knobs(t testing.TB) []knob {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../knobs.go", nil, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	bounds := map[string]knob{}
	var out []knob
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok && n.Name.Name == "Knobs" {
				for _, field := range s.Fields.List {
					key, text, _ := strings.Cut(strings.TrimSpace(field.Comment.Text()), ": ")
					meaning, _, _ := strings.Cut(text, ";")
					out = append(out, knob{field: field.Names[0].Name, key: key, meaning: meaning})
				}
			}
		case *ast.CompositeLit: // {"relay.batch", condition, k.RelayBatch, "1 to 1000"}
			if len(n.Elts) != 4 {
				break
			}
			key, isKey := n.Elts[0].(*ast.BasicLit)
			field, isField := n.Elts[2].(*ast.SelectorExpr)
			want, isWant := n.Elts[3].(*ast.BasicLit)
			if isKey && isField && isWant {
				bounds[field.Sel.Name] = knob{key: strings.Trim(key.Value, `"`), bounds: strings.Trim(want.Value, `"`)}
			}
		}
		return true
	})
	require.NotEmpty(t, out)
	for i, k := range out {
		b, ok := bounds[k.field]
		if !ok {
			b, ok = unchecked[k.field]
		}
		require.True(t, ok, "knob %s has no key: name it in Knobs.check, or in this test", k.field)
		require.Equal(t, b.key, k.key, "the comment of knob %s begins with its key", k.field)
		out[i].bounds = b.bounds
	}
	return out
}

// layerTable is the first sentence of every package.
func layerTable(t testing.TB) string {
	var rows [][]string
	for _, dir := range packageDirs(t) {
		doc := packageDoc(t, dir)
		if doc == "" {
			continue
		}
		name, ok := strings.CutPrefix(filepath.ToSlash(dir), "../")
		if !ok {
			name = "towline" // the root
		}
		rows = append(rows, []string{name, firstSentence(doc)})
	}
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	for _, r := range rows {
		r[0] = code(r[0])
	}
	return table([]string{"package", "what it is"}, rows)
}

var days = 24 * time.Hour

// seconds prints a length of time as people write it.
func seconds(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d%days == 0:
		return fmt.Sprintf("%d d", d/days)
	case d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d%time.Minute == 0 && d > 3*time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}
