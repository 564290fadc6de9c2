package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// words are types whose values are of a closed vocabulary. A bucket is a provider and a cost.
var words = []string{
	"events.ArmCause", "events.Bucket", "events.Calendar", "events.CancelReason", "events.Category", "events.Cost",
	"events.DeliveryMode", "events.DispatchCause", "events.DropReason", "events.ExpiryCause", "events.Kind", "events.LateReason",
	"events.Mode", "events.Order", "events.Outcome", "events.ParkCause", "events.ReleaseCause", "events.Resolution",
	"events.RunStatus", "events.Settler", "events.StoreMode", "events.Tier", "events.Trigger", "sim.Port",
}

const (
	configured = "a name of what is configured"
	settings   = "settings: numbers, and names of buckets"
	anID       = "made of ids"
	aWord      = "a word of this release"
	aTime      = "a time"
	archive    = "no release has written it yet; names of files and streams"
)

// kept are the strings that a case holds as they were, and why. Whatever is not here must be gone.
var kept = map[string]string{
	"Meta.Command": "the name of a command",

	"RunPlanned.Sync":                  configured,
	"RunPlanned.Occurrence":            "a schedule and a time",
	"RunPlanned.Selection.Sources":     configured,
	"RunPlanned.Selection.Datasets":    configured,
	"RunPlanned.LeftOut.Source":        configured,
	"RunPlanned.LeftOut.Reason":        aWord,
	"RunPlanned.Policy.Retry.Name":     configured,
	"RunPlanned.Policy.Retry.Provider": configured,
	"RunPlanned.Policy.Retry.Family":   configured,
	"RunPlanned.Policy.Retry.Surfaces": configured,
	"RunPlanned.Policy.Targets":        configured,
	"RunPlanned.Policy.Sent":           configured,
	"RunFinalized.Reason":              aWord,
	"PostSyncStarted.Generation":       anID,
	"PostSyncStarted.Target":           configured,
	"PostSyncStarted.MessageID":        anID,
	"PostSyncCompleted.Generation":     anID,
	"PostSyncCompleted.Target":         configured,
	"PostSyncCompleted.MessageID":      anID,
	"PostSyncFailed.Generation":        anID,
	"PostSyncFailed.Target":            configured,
	"PostSyncFailed.MessageID":         anID,
	"UnitPlanned.Source":               configured,
	"UnitPlanned.Provider":             configured,
	"UnitPlanned.Dataset":              configured,
	"UnitPlanned.Members":              configured,
	"UnitPlanned.Surfaces":             configured,
	"UnitSucceeded.Watermarks.Source":  configured,
	"UnitSucceeded.Watermarks.Dataset": configured,
	"UnitLateResult.Outcome":           aWord,
	"OutboxDispatched.Transport":       configured,
	"OutboxReleased.Transport":         configured,
	"OutboxOutcome.Target":             configured,
	"OutboxResolved.Target":            configured,
	"JobOpened.Sync":                   configured,
	"ScheduleDefined.Cron":             settings,
	"ScheduleDefined.TimeZone":         settings,
	"ScheduleDefined.CatchUp":          aWord,
	"ScheduleDefined.Overlap":          aWord,
	"OccurrencesMissed.FromCivil":      aTime,
	"OccurrencesMissed.ToCivil":        aTime,
	"OccurrencesMissed.Reason":         aWord,
	"OccurrenceSkipped.Reason":         aWord,
	"NodeStarted.Version":              "the release of a program",
	"NodeStarted.Config":               settings,
	"NodeStarted.Syncs.Sync":           configured,
	"NodeStarted.Syncs.Provider":       configured,
	"NodeStarted.Syncs.Sources":        configured,
	"NodeStarted.Syncs.Datasets":       configured,
	"NodeConfigChanged.Changed":        settings,
	"BreakerOpened.Transport":          configured,
	"BreakerOpened.Only":               anID,
	"BreakerClosed.Transport":          configured,
	"RunsArchived.Segment":             archive,
	"RunsArchived.Hash":                archive,
	"RunsArchived.Streams":             archive,
	"SegmentPurged.Segment":            archive,
	"SegmentPurged.Hash":               archive,
	"MessageHandled.DeliveryMessageID": anID,

	"failure.Target":              configured,
	"call.Target":                 configured,
	"syncSetup.Name":              configured,
	"syncSetup.Provider":          configured,
	"syncSetup.Sources":           configured,
	"syncSetup.Targets":           configured,
	"syncSetup.Sent":              configured,
	"syncSetup.Datasets.Name":     configured,
	"syncSetup.Datasets.Members":  configured,
	"syncSetup.Datasets.Surfaces": configured,
}

// texts calls f for each place in v that can hold a text of somebody's, with a way to write one there. JSON counts as text:
// anything may stand in it.
func texts(v reflect.Value, path string, f func(path string, set func(string))) {
	t := v.Type()
	switch {
	case t == reflect.TypeFor[time.Time]():
	case t == reflect.TypeFor[json.RawMessage]():
		f(path, func(text string) { v.SetBytes(fmt.Appendf(nil, "%q", text)) })
	case t.Kind() == reflect.String:
		if !slices.Contains(words, t.String()) {
			f(path, v.SetString)
		}
	case t.Kind() == reflect.Map:
		f(path, func(text string) { v.Set(reflect.ValueOf(map[string]string{text: text})) })
	case t.Kind() == reflect.Slice:
		one := reflect.MakeSlice(t, 1, 1)
		texts(one.Index(0), path, func(path string, set func(string)) {
			f(path, func(text string) { set(text); v.Set(one) })
		})
	case t.Kind() == reflect.Struct:
		for field := range t.Fields() {
			if field.IsExported() {
				texts(v.FieldByIndex(field.Index), path+"."+field.Name, f)
			}
		}
	}
}

// E-4: whatever somebody can have written is not in a case, or is kept for a reason. A field that is new is in neither list.
func TestACaseKeepsOnlyWhatIsOnTheList(t *testing.T) {
	seen := map[string]bool{}
	law := func(path, text string) {
		t.Helper()
		const canary = "canary"
		seen[path] = true
		_, allowed := kept[path]
		require.Equal(t, allowed, strings.Contains(text, canary), "%s: redact it, or say in kept why it stays:\n%s", path, text)
	}
	stream := func(of events.Type) events.StreamID {
		if strings.HasPrefix(of.String(), "Unit") {
			return events.UnitStream(events.UnitID{1})
		}
		return events.EngineControlStream()
	}
	for _, of := range events.Types() {
		zero, err := events.Decode(events.Record{Type: of, Schema: events.SchemaOf(of), Data: []byte("{}")})
		require.NoError(t, err)
		v := reflect.New(reflect.TypeOf(zero)).Elem()
		texts(v, of.String(), func(path string, set func(string)) {
			v.SetZero()
			set("canary")
			env := events.Envelope{Position: 1, Tx: 1, At: 1, Stream: stream(of), Version: 1, Event: v.Interface().(events.Event)}
			law(path, written(t, redacted(scene{}, []events.Envelope{env})))
		})
	}
	meta := reflect.New(reflect.TypeFor[events.Meta]()).Elem()
	texts(meta, "Meta", func(path string, set func(string)) {
		meta.SetZero()
		set("canary")
		env := events.Envelope{Position: 1, Tx: 1, At: 1, Stream: events.EngineControlStream(), Event: events.EnginePaused{}}
		env.Meta = meta.Interface().(events.Meta)
		law(path, written(t, redacted(scene{}, []events.Envelope{env})))
	})
	for name, part := range map[string]struct {
		of reflect.Type
		in func(any) scene
	}{
		"answer":    {reflect.TypeFor[answer](), func(v any) scene { return scene{says: recording{events.UnitID{1}: {v.(answer)}}} }},
		"reply":     {reflect.TypeFor[reply](), func(v any) scene { return scene{replies: replies{events.MessageID{1}: {v.(reply)}}} }},
		"failure":   {reflect.TypeFor[failure](), func(v any) scene { return scene{failures: []failure{v.(failure)}} }},
		"syncSetup": {reflect.TypeFor[syncSetup](), func(v any) scene { return scene{syncs: []syncSetup{v.(syncSetup)}} }},
		"call":      {reflect.TypeFor[call](), func(v any) scene { return scene{calls: []call{v.(call)}} }},
	} {
		v := reflect.New(part.of).Elem()
		texts(v, name, func(path string, set func(string)) {
			v.SetZero()
			set("canary")
			law(path, written(t, redacted(part.in(v.Interface()), nil)))
		})
	}
	for path := range kept {
		require.True(t, seen[path], "%s is on the list, and no event has it", path)
	}
	require.True(t, seen["UnitClaimed.Token"] && seen["JobOpened.IdempotencyKey"] && seen["MessageSubmitted.Metadata"])
}

// A stand-in is equal where the text was, and nowhere else: rules look at that much. The log that was given stays as it was.
func TestStandInsAreEqualWhereTheTextsWere(t *testing.T) {
	unit := events.UnitStream(events.UnitID{1})
	limited := func(key string) events.Envelope {
		return events.Envelope{Stream: unit, Event: events.UnitRetryScheduled{Cause: events.RateLimit, CooldownKey: key}}
	}
	claimed := func(token events.Token) events.Envelope {
		return events.Envelope{Stream: unit, Event: events.UnitClaimed{Token: token}}
	}
	log := []events.Envelope{
		{Stream: unit, Event: events.UnitPlanned{Provider: "press", Source: "north"}},
		claimed("a"), claimed("b"), claimed("a"), claimed(""),
		limited("press/north"), limited("press/ada@example.org"), limited("press/bob"), limited("press/ada@example.org"),
		{Stream: events.JobStream(events.JobID{1}), Event: events.JobOpened{Actor: "ada", Reason: "it is late", IdempotencyKey: "monday"}},
		{Stream: events.EngineControlStream(), Meta: events.Meta{Actor: "ada"}, Event: events.EnginePaused{Actor: "ada", Reason: "it is late"}},
		{Stream: unit, Event: events.OutboxOutcome{Cause: events.OutcomeRelayDied}},
	}
	given := slices.Clone(log)
	says := recording{events.UnitID{1}: {{Account: "bob"}, {Account: "north"}, {Account: "carl"}}}
	c := redacted(scene{says: says}, log)
	var tokens, keys []string
	for _, env := range c.events {
		switch e := env.Event.(type) {
		case events.UnitClaimed:
			tokens = append(tokens, string(e.Token))
		case events.UnitRetryScheduled:
			keys = append(keys, e.CooldownKey)
		}
	}
	require.Equal(t, []string{"token-1", "token-2", "token-1", ""}, tokens)
	require.Equal(t, []string{"press/north", "press/account-1", "press/account-2", "press/account-1"}, keys)
	require.Equal(t, []answer{{Account: "account-2"}, {Account: "north"}, {Account: "account-3"}}, c.scene.says[events.UnitID{1}])
	require.Equal(t, events.JobOpened{Actor: "operator-1", Reason: "reason-1", IdempotencyKey: "key-1"}, c.events[9].Event)
	require.Equal(t, "operator-1", c.events[10].Actor)
	require.Equal(t, events.EnginePaused{Actor: "operator-1", Reason: "reason-1"}, c.events[10].Event)
	require.Equal(t, events.OutboxOutcome{Cause: events.OutcomeRelayDied}, c.events[11].Event)
	require.Equal(t, given, log)
	require.Equal(t, "bob", says[events.UnitID{1}][0].Account)
}

// E-4: nor does the case of a real run say it anywhere else, as in where it was found.
func TestACaseOfARunHoldsNothingOfIt(t *testing.T) {
	path := newspaper{kills: []int{40}}.print(t)
	c := caseOf(t, path, Options{Most: 40}, func(r Row) bool { return strings.Contains(r.What, "secret-key") })
	text := written(t, c)
	require.Contains(t, c.From, "mail key-")
	log, err := readLog(context.Background(), path, t.TempDir())
	require.NoError(t, err)
	for _, secret := range append(tokensOf(t, log), "secret-key", "nobody", "monday", "ada", "maintenance", "the line is down") {
		require.NotContains(t, text, secret)
	}
}

func tokensOf(t *testing.T, log []events.Envelope) (tokens []string) {
	t.Helper()
	for _, env := range log {
		record, err := events.Encode(env.Event)
		require.NoError(t, err)
		_, after, found := strings.Cut(string(record.Data), `"token":"`)
		if token, _, _ := strings.Cut(after, `"`); found && token != "" {
			tokens = append(tokens, token)
		}
	}
	require.NotEmpty(t, tokens)
	return tokens
}
