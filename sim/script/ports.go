package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/handlers"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
)

func (c Provider) check() error {
	takesWord, takesText := false, false
	switch c.Does {
	case "fails":
		takesWord, takesText = true, true
		if !slices.Contains(events.Reported, events.Category(c.What)) {
			return fmt.Errorf("%q is no category that a provider reports%s", c.What, instead(c.What, words(events.Reported...)))
		}
	case "rate_limited", "takes":
		takesWord, takesText = true, c.Does == "rate_limited"
		if c.What == "" && c.Does == "rate_limited" {
			break
		}
		if d, err := parseDuration(c.What); err != nil || d <= 0 {
			return fmt.Errorf("%q is no time, as 30s is", c.What)
		}
	case "panics":
		takesText = true
	case "hangs", "deaf", "stops", "strays", "works":
	default:
		return fmt.Errorf("a provider does not do %q%s", c.Does, instead(c.Does, providerDoes))
	}
	switch {
	case c.What != "" && !takesWord:
		return fmt.Errorf("a provider that %s takes no %q: did you mean of %s?", c.Does, c.What, c.What)
	case c.Text != "" && !takesText:
		return fmt.Errorf("a provider that %s has no text", c.Does)
	case c.Account != "" && c.Does != "rate_limited":
		return fmt.Errorf("only a rate limit has an account, and not a provider that %s", c.Does)
	}
	return nil
}

var providerDoes = []string{"fails", "rate_limited", "takes", "hangs", "deaf", "panics", "stops", "strays", "works"}

// names of a unit reports that the words are among its name. Its source and its dataset are words, too.
func names(name, words string) bool {
	has := func(name string) bool { return strings.Contains(" "+name+" ", " "+words+" ") }
	return words == "" || has(name) || has(strings.Replace(name, "/", " ", 1))
}

// behaves is what the provider does with an attempt: how long it works, and then what.
func (p *Player) behaves(s *syncSetup, unit string, attempt int) (takes time.Duration, does Provider) {
	const usual = time.Second
	for _, c := range slices.Backward(s.provider) {
		meets := (c.Attempt == 0 || c.Attempt == attempt) && names(unit, c.Of)
		c.said.sees(unit, meets)
		if !meets {
			continue
		}
		switch {
		case c.Does == "takes":
			if takes == 0 {
				takes, _ = parseDuration(c.What)
			}
		case does.Does == "":
			does = c.Provider
		}
	}
	if takes == 0 {
		takes = usual
	}
	return takes, does
}

func (p *Player) takes(s *syncSetup) func(provider.Unit) time.Duration {
	return func(u provider.Unit) time.Duration {
		takes, _ := p.behaves(s, p.trace.unitName(u.ID), u.Attempt)
		return takes
	}
}

// provide is what a provider does behind its work.
func (p *Player) provide(s *syncSetup) provider.Func {
	return func(ctx context.Context, u provider.Unit, to sink.Sink) (provider.Result, error) {
		_, c := p.behaves(s, p.trace.unitName(u.ID), u.Attempt)
		text := c.Text
		if text == "" {
			text = "as the scenario has it"
		}
		switch c.Does {
		case "fails":
			return provider.Result{}, provider.Fail(events.Category(c.What), errors.New(text))
		case "rate_limited":
			after, _ := parseDuration(c.What)
			return provider.Result{}, &provider.Error{Category: events.RateLimit, After: after, Account: c.Account, Err: errors.New(text)}
		case "panics":
			panic(text)
		case "stops":
			return provider.Result{}, provider.ErrStopped
		case "strays":
			return provider.Result{}, to.Put(ctx, "elsewhere", "row", map[string]any{})
		}
		return provider.Result{}, to.Put(ctx, u.Surfaces[0], u.Source, map[string]any{"attempt": u.Attempt})
	}
}

// fault is what goes wrong with a call: what a fault command says, or a provider that does not return.
func (p *Player) fault(call sim.Call) sim.Fault {
	for _, f := range p.faults {
		meets := f.meets(call, p.elapsed())
		if call.Port == f.of.Port {
			f.times.said.sees(call.What, meets)
		}
		if meets {
			return sim.Fault{How: f.of.How, For: f.of.By}
		}
	}
	if call.Port != sim.PortProvider {
		return sim.Fault{}
	}
	unit, attempt, _ := strings.Cut(call.What, ", attempt ")
	for _, s := range p.syncs {
		if s.Name != strings.Fields(unit)[0] && !strings.HasPrefix(unit, s.Name+"#") {
			continue
		}
		number, err := strconv.Atoi(attempt)
		if err != nil {
			panic(fmt.Sprintf("script: the call of a provider is called %q", call.What))
		}
		_, c := p.behaves(s, p.trace.withWindow(unit), number)
		switch c.Does {
		case "hangs":
			return sim.Fault{How: sim.Hang}
		case "deaf":
			return sim.Fault{How: sim.Deaf}
		}
	}
	return sim.Fault{}
}

// destination is that of the world, with scripts that fail.
type destination struct {
	p *Player
	s *syncSetup
	*sim.Destination
}

var errEffect = errors.New("the script fails, as the scenario has it")

func (d destination) Script(ctx context.Context, script string, args ...any) error {
	if d.fails(script) {
		return errEffect
	}
	return d.Destination.Script(ctx, script, args...)
}

func (d destination) ScriptOnce(ctx context.Context, key, script string, args ...any) (first bool, err error) {
	if d.fails(script) {
		return false, errEffect
	}
	return d.Destination.ScriptOnce(ctx, key, script, args...)
}

func (d destination) fails(target string) bool {
	for _, e := range slices.Backward(d.p.effects) {
		if e.of.Sync == d.s.Name && e.of.Target == target && e.take() {
			e.said.sees(target, true)
			return e.of.Does == "fails"
		}
	}
	return false
}

// consume is what the application does with the messages of a topic.
func (p *Player) consume(topic string) sim.Handler {
	return func(_ context.Context, m *message.Message) error {
		for _, c := range slices.Backward(p.consumers) {
			if c.of.Topic == topic && c.of.Does != "" {
				c.said.sees(m.Metadata.Get(events.MetadataKey), false)
			}
			if c.of.Topic != topic || c.of.Key != "" && c.of.Key != m.Metadata.Get(events.MetadataKey) || c.of.Does == "" || !c.take() {
				continue
			}
			c.said.met = true
			if c.of.Does == "rejects" {
				return handlers.Invalid(errors.New("no such order"))
			}
			return errors.New("not now")
		}
		return nil
	}
}
