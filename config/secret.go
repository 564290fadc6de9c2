package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Secret is a reference to a secret. The secret itself is never in a Config, and the reference never in what is printed.
type Secret struct {
	scheme, where string
}

// masked is how a secret is printed, in every form.
const masked = "***"

// errInline never repeats the value: it may be the secret.
var errInline = errors.New("a secret is never written inline: put it into a file, a variable or a systemd credential, and write file:/path, env:NAME or cred:NAME")

// schemes are what a reference begins with.
var schemes = []string{"file", "env", "cred"}

func parseSecret(text string) (Secret, error) {
	scheme, where, ok := strings.Cut(text, ":")
	if !ok || where == "" {
		return Secret{}, errInline
	}
	switch scheme {
	case "file", "env":
	case "cred":
		if where != filepath.Base(where) || where == ".." {
			return Secret{}, fmt.Errorf("cred:%s: name a credential, without a folder", where)
		}
	default:
		return Secret{}, errInline
	}
	return Secret{scheme, where}, nil
}

// IsZero reports that nothing is referred to.
func (s Secret) IsZero() bool { return s == Secret{} }

func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return masked
}

// GoString keeps %#v from showing more than String does.
func (s Secret) GoString() string { return s.String() }

// MarshalText is for whoever encodes a Config.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// maxSecret bounds what is read of a file; a key with its certificates fits.
const maxSecret = 64 << 10

// Read is the secret, without the line end that an editor leaves. It is read anew each time, so a rotated one counts from
// the next use on. Errors name the reference, never the value: a file that cannot be read, is empty or longer than 64 KiB;
// a variable that is not set; a credential without $CREDENTIALS_DIRECTORY.
func (s Secret) Read(env func(string) (string, bool)) (string, error) {
	switch s.scheme {
	case "env":
		value, ok := env(s.where)
		if !ok || value == "" {
			return "", fmt.Errorf("secret env:%s: the variable is not set", s.where)
		}
		return value, nil
	case "cred":
		dir, ok := env("CREDENTIALS_DIRECTORY")
		if !ok {
			return "", fmt.Errorf("secret cred:%s: there is no $CREDENTIALS_DIRECTORY: add LoadCredential=%s to the systemd unit, or write file:/path or env:NAME", s.where, s.where)
		}
		return readSecret("cred:"+s.where, filepath.Join(dir, s.where))
	case "file":
		return readSecret("file:"+s.where, s.where)
	}
	return "", errors.New("no secret is configured")
}

func readSecret(name, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("secret %s: %w", name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch value := strings.TrimRight(string(b), "\r\n"); {
	case err != nil:
		return "", fmt.Errorf("secret %s: %w", name, err)
	case value == "":
		return "", fmt.Errorf("secret %s: the file is empty", name)
	case len(b) > maxSecret:
		return "", fmt.Errorf("secret %s: the file is longer than %d bytes", name, maxSecret)
	default:
		return value, nil
	}
}

// EnvValue is a variable of a command: a plain text, or a secret.
type EnvValue struct {
	Text   string // empty: Secret
	Secret Secret
}

// String masks both: nobody can tell a text that is a secret all the same.
func (v EnvValue) String() string { return masked }

// GoString keeps %#v from showing more than String does.
func (v EnvValue) GoString() string { return masked }

// MarshalText is for whoever encodes a Config.
func (v EnvValue) MarshalText() ([]byte, error) { return []byte(masked), nil }

// Read is the value for the environment of the command.
func (v EnvValue) Read(env func(string) (string, bool)) (string, error) {
	if v.Secret.IsZero() {
		return v.Text, nil
	}
	return v.Secret.Read(env)
}

// soundsSecret are names whose values are not accepted as plain texts.
var soundsSecret = regexp.MustCompile(`(?i)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|(^|_)(KEY|PWD|AUTH)(_|$)|APIKEY)`)
