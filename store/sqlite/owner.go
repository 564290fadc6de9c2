package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// owner is the user and the group of a file.
type owner struct{ user, group int }

// rightful is whose the store at path is to be: that of the store that stands there, else that of its folder. An engine that runs
// as a user of its own could not open what another has restored for it.
type rightful struct {
	owner
	known bool
	chown func(string, int, int) error
}

func rightfulOf(path string, chown func(string, int, int) error) (r rightful, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		info, err = os.Stat(filepath.Dir(path))
	}
	if err != nil {
		return r, err
	}
	r.chown = chown
	if chown == nil {
		r.chown = os.Chown
	}
	r.owner, r.known = ownerOf(info)
	return r, nil
}

// take gives files to the owner, as far as this process may. Errors: the first that it may not give, which names it.
func (r rightful) take(files ...string) error {
	for _, name := range files {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if has, known := ownerOf(info); !known || !r.known || has == r.owner {
			continue
		}
		if err := r.chown(name, r.user, r.group); err != nil {
			return fmt.Errorf("it was user %d, group %d: %w", r.user, r.group, err)
		}
	}
	return nil
}
