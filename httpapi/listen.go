package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Listener is one address that the API is served on.
type Listener struct {
	net.Listener
	// Trusted: who reaches it is this machine's, by the file's permissions or by the loopback address, and needs no token.
	Trusted bool
}

// ErrTaken says that somebody else serves the address.
var ErrTaken = errors.New("another process serves it")

// Listen opens an address: unix:PATH, or HOST:PORT. A socket file of a process that has died is replaced; one that is served
// is refused. The file is for its owner only. Errors: ErrTaken, and those of the system.
func Listen(ctx context.Context, address string) (Listener, error) {
	if path, ok := cutUnix(address); ok {
		return listenUnix(ctx, path)
	}
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return Listener{}, fmt.Errorf("api.listen %s: %w: stop that one, or use another port", address, ErrTaken)
	}
	if err != nil {
		return Listener{}, fmt.Errorf("api.listen %s: %w", address, err)
	}
	return TrustedIfLocal(l), nil
}

// TrustedIfLocal is a listener that somebody else has opened, for example the init system.
func TrustedIfLocal(l net.Listener) Listener {
	switch a := l.Addr().(type) {
	case *net.UnixAddr:
		return Listener{l, true}
	case *net.TCPAddr:
		return Listener{l, a.IP.IsLoopback()}
	}
	return Listener{l, false}
}

func cutUnix(address string) (path string, ok bool) {
	const scheme = "unix:"
	if len(address) > len(scheme) && address[:len(scheme)] == scheme {
		return address[len(scheme):], true
	}
	return "", false
}

// maxSocketPath is what the systems take of it, less what some of them keep to themselves.
const maxSocketPath = 100

const socketMode = 0o600

func listenUnix(ctx context.Context, path string) (Listener, error) {
	if len(path) > maxSocketPath {
		return Listener{}, fmt.Errorf("api.listen unix:%s: the path has %d bytes, and a socket takes %d: use a shorter one", path, len(path), maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Listener{}, fmt.Errorf("api.listen unix:%s: %w", path, err)
	}
	if err := removeDead(ctx, path); err != nil {
		return Listener{}, err
	}
	c := net.ListenConfig{Control: ownersOnly}
	l, err := c.Listen(ctx, "unix", path)
	if errors.Is(err, syscall.EADDRINUSE) { // somebody was faster
		return Listener{}, fmt.Errorf("api.listen unix:%s: %w: stop that one, or use another path", path, ErrTaken)
	}
	if err != nil {
		return Listener{}, fmt.Errorf("api.listen unix:%s: %w", path, err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return Listener{}, errors.Join(fmt.Errorf("api.listen unix:%s: %w", path, err), l.Close())
	}
	return Listener{l, true}, nil
}

// removeDead removes the socket file of a process that is gone.
func removeDead(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("api.listen unix:%s: there is a file that is no socket: move it away, or use another path", path)
	}
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("api.listen unix:%s: %w: stop that one, or use another path", path, ErrTaken)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("api.listen unix:%s: %w", path, err)
	}
	return os.Remove(path)
}
