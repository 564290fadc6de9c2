package projections

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// The queries by which a name that a person types is looked up: the end of a ULID, or what stands behind the colon of a
// unit's alias. None of them is asked by a rule.

// namesPerQuery bounds how many things of one name are read.
const namesPerQuery = 100

// RunsEnding, UnitsEnding, JobsEnding and MessagesEnding list what has a ULID that ends in a text of at least six of its
// digits, in upper case; oldest first. The runs have an index of it, the others are walked.
func (v View) RunsEnding(digits string) ([]events.RunID, error) {
	return ending[events.RunID](v, digits, `SELECT run_id FROM runs WHERE substr(run_id, 13) IN ($1, $2, $3, $4) LIMIT $5`)
}

// UnitsEnding is RunsEnding of units.
func (v View) UnitsEnding(digits string) ([]events.UnitID, error) {
	return ending[events.UnitID](v, digits, `SELECT unit_id FROM units WHERE substr(unit_id, 13) IN ($1, $2, $3, $4) LIMIT $5`)
}

// JobsEnding is RunsEnding of jobs.
func (v View) JobsEnding(digits string) ([]events.JobID, error) {
	return ending[events.JobID](v, digits, `SELECT job_id FROM jobs WHERE substr(job_id, 13) IN ($1, $2, $3, $4) LIMIT $5`)
}

// MessagesEnding is RunsEnding of application messages.
func (v View) MessagesEnding(digits string) ([]events.MessageID, error) {
	return ending[events.MessageID](v, digits, `SELECT message_id FROM messages WHERE substr(message_id, 13) IN ($1, $2, $3, $4) LIMIT $5`)
}

func ending[K interface {
	~[16]byte
	String() string
}](v View, digits, query string) ([]K, error) {
	ends, err := lastBytes(digits)
	if err != nil {
		return nil, err
	}
	var out []K
	err = v.tx.Query(func(r store.Row) error {
		var id K
		if err := scanID(r, &id); err != nil {
			return err
		}
		if strings.HasSuffix(id.String(), digits) {
			out = append(out, id)
		}
		return nil
	}, query, ends[0], ends[1], ends[2], ends[3], namesPerQuery)
	if err != nil {
		return nil, fmt.Errorf("look for what ends in %s: %w", digits, err)
	}
	slices.SortFunc(out, func(a, b K) int { return strings.Compare(a.String(), b.String()) })
	return out, nil
}

// lastBytes are the four last bytes that a ULID may have which ends in these digits. Six digits are 30 bits, so there are
// four of them; of more digits all four are the same.
func lastBytes(digits string) (ends [4][]byte, err error) {
	const crockford, bits, known = "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 5, 6
	if len(digits) < known {
		return ends, fmt.Errorf("%q has fewer than %d digits", digits, known)
	}
	var low uint64 // of the last seven digits, or six
	for _, d := range digits[max(0, len(digits)-known-1):] {
		value := strings.IndexRune(crockford, d)
		if value < 0 {
			return ends, fmt.Errorf("%q is no digit of a ULID", d)
		}
		low = low<<bits | uint64(value)
	}
	for i := range ends {
		end := uint32(low) // of seven digits, whose bits are more than 32: the last 32
		if len(digits) == known {
			end |= uint32(i) << (known * bits)
		}
		ends[i] = binary.BigEndian.AppendUint32(nil, end)
	}
	return ends, nil
}

// UnitsNamed lists the units of a run with a name as an alias has it, source/dataset/window. It is one, or none; only where
// the names of sources and datasets hold a slash can two units be called the same.
func (v View) UnitsNamed(run events.RunID, name string) (found []events.UnitID, err error) {
	err = v.of(unitRows(run)).tx.Query(func(r store.Row) error {
		var unit []byte
		var lane string
		var from *int64
		var to int64
		if err := r.Scan(&unit, &lane, &from, &to); err != nil {
			return err
		}
		if lane+windowOf(from, to).Name() == name {
			found = append(found, events.UnitID(unit))
		}
		return nil
	}, `SELECT unit_id, source || '/' || dataset || '/', window_from, window_to FROM units WHERE run_id = $1
		AND substr($2, 1, length(source) + length(dataset) + 2) = source || '/' || dataset || '/' ORDER BY ordinal`, run[:], name)
	if err != nil {
		return nil, fmt.Errorf("look for unit %s of run %s: %w", name, run, err)
	}
	return found, nil
}
