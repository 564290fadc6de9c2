package exec

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
)

// Document is what a program reads on its standard input. Its fields are a contract.
type Document struct {
	Towline     int             `json:"towline"` // version of the contract: 1
	Run         events.RunID    `json:"run"`
	Unit        events.UnitID   `json:"unit"`
	Alias       string          `json:"alias"`
	Attempt     int             `json:"attempt"`
	Fence       events.Fence    `json:"fence"`
	Sync        string          `json:"sync"`
	Source      string          `json:"source"`
	Dataset     string          `json:"dataset"`
	Members     []string        `json:"members,omitempty"` // of a family
	Surfaces    []string        `json:"surfaces"`          // that rows may name as their stream
	Mode        events.Mode     `json:"mode"`
	Window      Window          `json:"window"`
	Fingerprint string          `json:"fingerprint,omitempty"` // as planned
	State       json.RawMessage `json:"state"`                 // null: none
	Config      json.RawMessage `json:"config"`                // {}: none
}

// Window has RFC 3339 times in UTC. A null From is an open start.
type Window struct {
	From *time.Time `json:"from"`
	To   *time.Time `json:"to"`
}

// version of the contract.
const version = 1

func document(u provider.Unit) ([]byte, error) {
	d := Document{
		Towline: version, Run: u.Run, Unit: u.ID, Alias: u.Alias, Attempt: u.Attempt, Fence: u.Fence, Sync: u.Sync, Source: u.Source,
		Dataset: u.Dataset, Members: u.Members, Surfaces: u.Surfaces, Mode: u.Mode, Fingerprint: u.Fingerprint,
		Window: Window{From: timeOrNull(u.Window.From), To: timeOrNull(u.Window.To)}, State: u.State, Config: u.Config,
	}
	if d.Surfaces == nil {
		d.Surfaces = []string{}
	}
	if len(d.Config) == 0 {
		d.Config = json.RawMessage(`{}`)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // people read it, and grep in it
	if err := e.Encode(d); err != nil {
		return nil, fmt.Errorf("encode the unit: %w", err)
	}
	return b.Bytes(), nil
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// instant is a time as variables and arguments have it; of an open start it is empty.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// The variables by which a process of an attempt is known again.
const (
	unitVariable  = "TOWLINE_UNIT_ID="
	fenceVariable = "TOWLINE_FENCE="
)

func variables(u provider.Unit, p *attemptPlace) []string {
	return []string{
		"TOWLINE_RUN_ID=" + u.Run.String(), unitVariable + u.ID.String(), "TOWLINE_UNIT_ALIAS=" + u.Alias,
		"TOWLINE_ATTEMPT=" + strconv.Itoa(u.Attempt), fenceVariable + string(u.Fence), "TOWLINE_SYNC=" + u.Sync,
		"TOWLINE_SOURCE=" + u.Source, "TOWLINE_DATASET=" + u.Dataset,
		"TOWLINE_WINDOW_FROM=" + instant(u.Window.From), "TOWLINE_WINDOW_TO=" + instant(u.Window.To),
		"TOWLINE_UNIT_FILE=" + p.unitFile(), "TOWLINE_STATE_FILE=" + p.stateFile(), "TRACEPARENT=" + traceparent(u),
	}
}

// traceparent makes the units of a run one trace: its id is that of the run, the parent is the attempt.
func traceparent(u provider.Unit) string {
	var parent [8]byte
	copy(parent[:], u.ID[8:]) // the random part of a ULID
	binary.BigEndian.PutUint64(parent[:], binary.BigEndian.Uint64(parent[:])^uint64(max(u.Attempt, 0)))
	return "00-" + hex.EncodeToString(u.Run[:]) + "-" + hex.EncodeToString(parent[:]) + "-01"
}

// private are variables of this process that mean nothing, or too much, to a program: our own, and those of the service manager.
var private = regexp.MustCompile(`^(TOWLINE_.*|TRACEPARENT|TRACESTATE|NOTIFY_SOCKET|WATCHDOG_PID|WATCHDOG_USEC|LISTEN_PID|LISTEN_FDS|LISTEN_FDNAMES|CREDENTIALS_DIRECTORY)=`)

func inherited() []string {
	return slices.DeleteFunc(os.Environ(), private.MatchString)
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func checkEnvironment(env, secrets map[string]string) error {
	for field, of := range map[string]map[string]string{"env": env, "secrets": secrets} {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			switch {
			case !variableName.MatchString(name):
				return fmt.Errorf("%s: %q is no name of a variable", field, name)
			case strings.HasPrefix(name, "TOWLINE_"), name == "TRACEPARENT":
				return fmt.Errorf("%s: %s is set by Towline: use another name", field, name)
			case strings.ContainsRune(of[name], 0):
				return fmt.Errorf("%s: %s holds a NUL byte", field, name)
			}
		}
	}
	for name := range secrets {
		if _, twice := env[name]; twice {
			return fmt.Errorf("env and secrets both set %s: leave one out", name)
		}
	}
	return nil
}

// environment of the program. Ours come last and win.
func (p *Provider) environment(u provider.Unit, at *attemptPlace) []string {
	env := slices.Clone(p.inherit)
	for _, of := range []map[string]string{p.o.Env, p.o.Secrets} {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			env = append(env, name+"="+of[name])
		}
	}
	return append(env, variables(u, at)...)
}
