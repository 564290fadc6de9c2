package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
)

// places is the folder of running attempts. Each has a folder there, with the files that its program reads, and a record of its
// process group. The engine holds a lock on the record for as long as it lives, so whoever gets the lock has found what a
// killed engine has left, whichever engine that was.
type places struct {
	dir    string
	shared bool // a folder below that for temporary files, which belongs to everybody
}

// The names in the folder.
const (
	gateFile   = ".lock" // held while a place is made, and while places are looked through
	groupFile  = "group"
	unitFile   = "unit.json"
	stateFile  = "state.json"
	privateDir = 0o700
	privateFor = 0o600
)

// record is a line of a group file. The first is written before the program starts, the second with its group.
type record struct {
	Unit    string `json:"unit"`
	Fence   string `json:"fence"`
	Group   int    `json:"group,omitempty"`   // zero: not known yet
	Started uint64 `json:"started,omitempty"` // of its first process, in ticks since the system started
	Boot    string `json:"boot,omitempty"`    // which start of the system that was
}

// attemptPlace is the place of one attempt.
type attemptPlace struct {
	dir    string
	record record
	group  *os.File // locked
}

func (p *attemptPlace) unitFile() string  { return filepath.Join(p.dir, unitFile) }
func (p *attemptPlace) stateFile() string { return filepath.Join(p.dir, stateFile) }

// prepare makes the folder. Errors: it cannot be made, or it is another user's.
func (p places) prepare() error {
	if err := os.MkdirAll(p.dir, privateDir); err != nil {
		return fmt.Errorf("folder of running attempts: %w: set folder to one that can be written", err)
	}
	if p.shared {
		return ownFolder(p.dir)
	}
	return nil
}

// open makes the place of an attempt, with what its program reads.
func (p places) open(u provider.Unit) (*attemptPlace, error) {
	input, err := document(u)
	if err != nil {
		return nil, err
	}
	state := u.State
	if len(state) == 0 {
		state = json.RawMessage("null")
	}
	unlock, err := lockFile(filepath.Join(p.dir, gateFile))
	if err != nil {
		return nil, err
	}
	defer unlock()
	at := &attemptPlace{record: record{Unit: u.ID.String(), Fence: string(u.Fence), Boot: bootID()}}
	if at.dir, err = os.MkdirTemp(p.dir, fmt.Sprintf("%s-%d-", u.ID, u.Attempt)); err != nil {
		return nil, err
	}
	if at.dir, err = filepath.Abs(at.dir); err == nil { // the program may have another working folder
		err = at.fill(input, state)
	}
	if err != nil {
		at.close()
		return nil, err
	}
	return at, nil
}

func (p *attemptPlace) fill(input, state []byte) (err error) {
	p.group, err = os.OpenFile(filepath.Join(p.dir, groupFile), os.O_CREATE|os.O_EXCL|os.O_RDWR, privateFor)
	if err != nil {
		return err
	}
	if locked, err := tryLock(p.group); !locked || err != nil {
		return errors.Join(errors.New("a new file is locked"), err)
	}
	return errors.Join(p.write(), os.WriteFile(p.unitFile(), input, privateFor), os.WriteFile(p.stateFile(), state, privateFor))
}

// started puts the group of the program on record.
func (p *attemptPlace) started(group int) error {
	p.record.Group, p.record.Started = group, startOf(group)
	return p.write()
}

func (p *attemptPlace) write() error { return json.NewEncoder(p.group).Encode(p.record) }

// close removes the place. What cannot be removed is found by the next sweep.
func (p *attemptPlace) close() {
	_ = os.RemoveAll(p.dir)
	if p.group != nil {
		_ = p.group.Close() // and with it the lock
	}
}

// sweep ends what killed engines have left and removes its places. left are the process groups that do not end, by unit.
func (p places) sweep(ctx context.Context, logger *slog.Logger) (left map[string]int, err error) {
	unlock, err := lockFile(filepath.Join(p.dir, gateFile))
	if err != nil {
		return nil, fmt.Errorf("folder of running attempts: %w", err)
	}
	defer unlock()
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, fmt.Errorf("folder of running attempts: %w", err)
	}
	var found []*attemptPlace
	defer func() {
		for _, at := range found {
			_ = at.group.Close()
		}
	}()
	for _, e := range entries {
		unit, _, ok := strings.Cut(e.Name(), "-")
		if _, err := events.ParseUnitID(unit); !e.IsDir() || !ok || err != nil {
			continue // it is not ours
		}
		if at := orphaned(filepath.Join(p.dir, e.Name())); at != nil {
			found = append(found, at)
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	left = endOrphans(ctx, found, logger)
	for _, at := range found {
		if _, stuck := left[at.record.Unit]; !stuck {
			_ = os.RemoveAll(at.dir) // the next sweep tries again
		}
	}
	return left, ctx.Err()
}

// orphaned is a place whose engine is gone; nil: it lives, or died before there was anything.
func orphaned(dir string) *attemptPlace {
	group, err := os.OpenFile(filepath.Join(dir, groupFile), os.O_RDWR, privateFor)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			_ = os.RemoveAll(dir) // places are made under the lock of the gate, so nobody is at it
		}
		return nil
	}
	if locked, err := tryLock(group); !locked || err != nil {
		_ = group.Close()
		return nil
	}
	at := &attemptPlace{dir: dir, group: group}
	lines := json.NewDecoder(group)
	for {
		var r record
		if lines.Decode(&r) != nil { // the end, also that of half a line
			return at
		}
		at.record = r
	}
}
