package httpapi

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Tokens are the two secrets of a store. An empty one is none, and allows nothing.
//
//	where a request comes from            without a token   with one
//	unix socket, or loopback by itself    everything        what the token allows; an unknown one is refused
//	anything else, also a proxy           nothing           the same
type Tokens struct {
	Full   string // every request
	Worker string // the worker protocol
}

// role is what a request may do.
type role int

const (
	nobody role = iota
	worker
	full
)

// Files of the tokens of a store at a path: PATH without its ending, and these.
const (
	fullEnding   = ".token"
	workerEnding = "-worker.token"
)

// TokenFiles are the paths of the two files of a store.
func TokenFiles(store string) (full, worker string) {
	base := strings.TrimSuffix(store, ".db")
	return base + fullEnding, base + workerEnding
}

// OpenTokens reads the tokens of a store, and makes those that are missing, in files of mode 0600. Errors: a file that others
// may read, that is empty, or that cannot be made.
func OpenTokens(store string) (t Tokens, err error) {
	fullFile, workerFile := TokenFiles(store)
	if t.Full, err = openToken(fullFile, "tlf_"); err != nil {
		return Tokens{}, err
	}
	if t.Worker, err = openToken(workerFile, "tlw_"); err != nil {
		return Tokens{}, err
	}
	return t, nil
}

const (
	tokenBytes   = 32
	tokenMode    = 0o600 // and no more
	minTokenText = 16    // of one that a person has written
)

func openToken(file, prefix string) (string, error) {
	token, err := readToken(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // it never fails
	token = prefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
	if err = placeToken(file, token); errors.Is(err, fs.ErrExist) {
		return readToken(file) // another process was faster
	}
	if err != nil {
		return "", fmt.Errorf("make a token: %w", err)
	}
	return token, nil
}

// placeToken makes the file whole or not at all: a crash leaves no part of a token. Errors: fs.ErrExist, if there is one.
func placeToken(file, token string) error {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // of mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // its other name stays
	_, err = f.WriteString(token + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), file) // a rename would take the place of one that another process has made
}

func readToken(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("read a token: %w", err)
	}
	if others := info.Mode().Perm() &^ tokenMode; others != 0 && !fileModesAreVague {
		return "", fmt.Errorf("the token file %s may be read by others (mode %04o): run chmod 600 %s, and make a new token if they have read it", file, info.Mode().Perm(), file)
	}
	data, err := os.ReadFile(file)
	token := strings.TrimSpace(string(data))
	if err == nil && len(token) < minTokenText {
		err = fmt.Errorf("the token file %s holds no token: delete it, and the next start makes a new one", file)
	}
	return token, err
}

// role is that of a token, and false for one that is none of the two. It takes the same time for every text.
func (t Tokens) role(given string) (role, bool) {
	switch {
	case same(given, t.Full):
		return full, true
	case same(given, t.Worker):
		return worker, true
	}
	return nobody, false
}

func same(given, token string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return token != "" && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
