package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNoSocketFolder says that no folder of this user's is known in which a socket could lie.
var ErrNoSocketFolder = errors.New("api.listen: unix: there is no folder for the socket: set XDG_RUNTIME_DIR, or write unix:/path")

const (
	unixWord   = "unix"
	unixScheme = "unix:"
	socketFile = "api.sock"
	ownFolder  = "towline" // ours, in a folder that programs of this user share
)

// Addresses are those of api.listen, each once, as unix:PATH with an absolute path, or host:port; none: nothing is served.
// A client of the same configuration finds the engine there. Errors: ErrNoSocketFolder.
func (c *Config) Addresses() ([]string, error) {
	out := make([]string, len(c.API.Listen))
	for i, at := range c.API.Listen {
		if out[i] = c.address(at); out[i] == "" {
			return nil, ErrNoSocketFolder
		}
	}
	return out, nil
}

// address is one of api.listen in full; empty: the socket of this user, for which there is no folder.
func (c *Config) address(at string) string {
	path, isPath := strings.CutPrefix(at, unixScheme)
	switch {
	case at == unixWord && c.socket == "":
		return ""
	case at == unixWord:
		return unixScheme + c.socket
	case isPath:
		return unixScheme + c.resolve(c.home, path)
	}
	return at
}

// placeSocket is where unix lies: in the folder that systemd has made for the service, else in that which the session of this
// user has for such things, else among the user's caches. A folder that others may write to is none: whoever is there first
// would be taken for the engine.
func (l *loading) placeSocket() {
	service, _, _ := strings.Cut(l.env["RUNTIME_DIRECTORY"], ":")
	l.c.home = l.home
	switch session := l.env["XDG_RUNTIME_DIR"]; {
	case filepath.IsAbs(service):
		l.c.socket = filepath.Join(service, socketFile)
	case filepath.IsAbs(session):
		l.c.socket = filepath.Join(session, ownFolder, socketFile)
	case filepath.IsAbs(l.home):
		l.c.socket = filepath.Join(l.home, ".cache", ownFolder, socketFile)
	}
}

// checkListen: an address that is none would end the start.
func (l *loading) checkListen() {
	var seen []string
	for _, at := range l.c.API.Listen {
		if err := checkAddress(at); err != nil {
			l.wrong("api.listen", err.Error())
			continue
		}
		full := l.c.address(at)
		if slices.Contains(seen, full) {
			l.wrong("api.listen", fmt.Sprintf("%q stands twice", at))
		}
		seen = append(seen, full)
	}
}

func checkAddress(at string) error {
	if path, ok := strings.CutPrefix(at, unixScheme); ok && path != "" || at == unixWord {
		return nil
	}
	_, port, err := net.SplitHostPort(at)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is no address: want unix, unix:/path or host:port", at)
	}
	return nil
}
