package script

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// vocabularies are the words that a field of a type may hold. The engine would refuse others when it is opened, and then the
// error would stand at the command that opens it; of a port nobody would.
var vocabularies = map[reflect.Type][]string{
	reflect.TypeFor[events.Mode]():         words(events.Incremental, events.Backfill, events.FullResync),
	reflect.TypeFor[events.DeliveryMode](): words(events.AtMostOnce, events.ExactlyOnce),
	reflect.TypeFor[events.Tier]():         words(events.TierReference, events.TierWorkItem),
	reflect.TypeFor[events.Cost]():         words(events.CostLight, events.CostMedium, events.CostHeavy),
	reflect.TypeFor[events.Calendar]():     words(events.Day, events.Week, events.Month, events.Year),
	reflect.TypeFor[events.CatchUp]():      words(events.CatchUpSkip, events.CatchUpOnce, events.CatchUpAll),
	reflect.TypeFor[events.Overlap]():      words(events.OverlapSkip, events.OverlapQueue),
	reflect.TypeFor[events.Resolution]():   words(events.ResolvedDelivered, events.ResolvedLost),
	reflect.TypeFor[events.Category](): words(slices.DeleteFunc(append(slices.Clone(events.Reported), events.ExpiredLease),
		func(c events.Category) bool { return c == events.RateLimit })...), // what retry_on may name: a rate limit always retries (E-2)
	reflect.TypeFor[sim.Port](): words(ports...),
}

// ports are those whose calls a fault can meet, and a place can name.
var ports = []sim.Port{sim.PortPublish, sim.PortCommit, sim.PortProvider, sim.PortSink, sim.PortEffect, sim.PortApplication}

func words[T ~string](of ...T) (out []string) {
	for _, w := range of {
		out = append(out, string(w))
	}
	return out
}

// inVocabulary refuses a word that a field of its type cannot hold.
func inVocabulary(t reflect.Type, word string) error {
	known, limited := vocabularies[t]
	if !limited || word == "" || slices.Contains(known, word) {
		return nil
	}
	return fmt.Errorf("%q is not known%s", word, instead(word, known))
}

// noSuch is the error of a name that nothing has.
func noSuch(what, name string, known []string) error {
	return fmt.Errorf("there is no %s %s%s", what, name, instead(name, known))
}

// instead says which word may have been meant, or which there are.
func instead(word string, known []string) string {
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	const many = 12
	switch near := nearest(word, known); {
	case near != "":
		return ": did you mean " + near + "?"
	case len(known) == 0:
		return ""
	case len(known) > many:
		return fmt.Sprintf(": there are %s and %d more", strings.Join(known[:many], ", "), len(known)-many)
	case len(known) == 1:
		return ": there is " + known[0]
	}
	return ": there are " + strings.Join(known, ", ")
}

// nearest is the word with the fewest letters to change, if they are few; empty: none is near.
func nearest(word string, known []string) (best string) {
	const oneIn = 3 // letters
	least := len(word)/oneIn + 2
	for _, w := range known {
		if d := distance(word, w); d < least {
			best, least = w, d
		}
	}
	return best
}

// distance counts the letters to insert, remove and replace, by rows of the usual table.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
