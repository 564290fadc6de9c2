package ident

import (
	"slices"
	"strconv"
	"strings"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// EntryID is an outbox entry as events and the API have it, and as message ids begin: OWNER.KIND.N. Without a wakeup, whose
// number is 0, it is the register: OWNER.KIND.
func EntryID(k projections.Key, n int) string {
	id := k.Owner.String() + "." + string(k.Kind)
	if n > 0 {
		id += "." + strconv.Itoa(n)
	}
	return id
}

// EntryAlias is the same for people: RUN/KIND#N, and ULID/message#N for an application message.
func EntryAlias(k projections.Key, n int) string {
	owner := k.Owner.Short()
	if k.Kind == events.KindMessage {
		owner = k.Owner.String()
	}
	alias := owner + "/" + string(k.Kind)
	if n > 0 {
		alias += "#" + strconv.Itoa(n)
	}
	return alias
}

// Entry is the register that a text calls, and the number of its wakeup; 0: the text has none. The rest is as of Run.
func Entry(v projections.View, text string) (k projections.Key, n int, err error) {
	owner, kind, number, ok := splitEntry(text)
	if !ok {
		return k, 0, malformed(NounEntry, text, "it does not name an owner and a kind")
	}
	if k.Kind = events.Kind(kind); !slices.Contains(events.Kinds[:], k.Kind) {
		return k, 0, malformed(NounEntry, text, strconv.Quote(kind)+" is no kind")
	}
	if number != "" {
		if n, err = strconv.Atoi(number); err != nil || n < 1 {
			return k, 0, malformed(NounEntry, text, strconv.Quote(number)+" is no number of a wakeup, which begin at 1")
		}
	}
	if k.Kind == events.KindMessage {
		id, err := Message(v, owner)
		k.Owner = events.RunID(id)
		return k, n, asEntry(err, text)
	}
	runs, err := runsCalled(v, text, owner, NounEntry)
	if err != nil {
		return k, 0, err
	}
	k.Owner, err = one(runs, NounRun, text)
	return k, n, asEntry(err, text)
}

// asEntry is the error of an owner as that of its entry.
func asEntry(err error, text string) error {
	if e, ok := err.(*Error); ok { //nolint:errorlint // it is our own, and was not wrapped
		e.Noun, e.Text = NounEntry, newError("", text, "", "", nil).Text
	}
	return err
}

// splitEntry takes a name apart: OWNER/KIND, OWNER/KIND#N, OWNER.KIND, OWNER.KIND.N, outbox/OWNER/KIND.
func splitEntry(text string) (owner, kind, number string, ok bool) {
	name, isStream := strings.CutPrefix(text, "outbox/")
	if owner, kind, ok = strings.Cut(name, "/"); ok {
		kind, number, _ = strings.Cut(kind, "#")
		return owner, kind, number, true
	}
	if isStream {
		return "", "", "", false
	}
	owner, kind, ok = strings.Cut(name, ".")
	kind, number, _ = strings.Cut(kind, ".")
	return owner, kind, number, ok
}

func kinds() string {
	names := make([]string, len(events.Kinds))
	for i, k := range events.Kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}
