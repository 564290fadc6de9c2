package script

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// said is a command about calls that are still to come. One that is misspelled would be met by none, and change nothing.
type said struct {
	at  string // of its line; empty: it stands in no file
	of  Command
	met bool
	// known are the words of the calls that it might have meant.
	known map[string]bool
}

// says takes note of a command that waits for calls.
func (p *Player) says(of Command) *said {
	s := &said{at: p.at, of: of, known: map[string]bool{}}
	p.waits = append(p.waits, s)
	return s
}

// sees takes note of a call of the kind that the command is about; meets: it is one of those.
func (s *said) sees(call string, meets bool) {
	if s.met = s.met || meets; s.met {
		return
	}
	for _, w := range strings.Fields(strings.NewReplacer(",", " ", "(", " ", ")", " ").Replace(call)) {
		s.known[w] = true
		for _, part := range strings.Split(w, "/") {
			s.known[part] = true
		}
	}
}

// unmet are the errors of the commands that no call has met.
func (p *Player) unmet() error {
	var errs []error
	for _, s := range p.waits {
		if !s.met {
			errs = append(errs, fmt.Errorf("%s%s: no call has met it%s", standing(s.at), s.of, s.meant()))
		}
	}
	return errors.Join(errs...)
}

// meant says which word of a command no call has.
func (s *said) meant() string {
	var of string
	switch c := s.of.(type) {
	case Provider:
		of = c.Of
	case Fault:
		of = c.Of
	case Consume:
		of = c.Key
	}
	known := make([]string, 0, len(s.known))
	for w := range s.known {
		known = append(known, w)
	}
	slices.Sort(known)
	for _, w := range strings.Fields(of) {
		if near := nearest(w, known); !s.known[w] && near != "" && !strings.HasPrefix(near, w) {
			return fmt.Sprintf(": did you mean %s?", near)
		}
	}
	return ""
}

// standing is what an error begins with, of a command that stands somewhere.
func standing(at string) string {
	if at == "" {
		return ""
	}
	return at + ": "
}
