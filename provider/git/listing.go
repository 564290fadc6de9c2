package git

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/towline-dev/towline/provider"
)

// listing is every commit that the ref selection reaches from one set of tips, with its committer date.
//
// It answers for each window which commits git log --since-as-filter=FROM --until=TO-1s would show; that command walks
// the whole history for every window of it. The listing is one walk, in a file without a name, so that memory is flat.
// A commit never changes, so it is true for as long as the tips are the same, and is shared by the plan and all units.
type listing struct {
	tips   [sha256.Size]byte
	file   *os.File // records of 8 bytes of seconds and the id, in the order of rev-list
	idSize int
	count  int64
}

// place keeps the newest listing of a source.
type place struct {
	turn chan struct{} // held by the one that lists; the others wait for its result
	l    *listing      // guarded by turn
}

// maxListings bounds the open files. The sources beyond are listed again.
const maxListings = 64

// list is the listing of what the refs reach now.
func (p *Provider) list(ctx context.Context, r *repository, source string) (*listing, error) {
	at := p.place(source)
	select {
	case at.turn <- struct{}{}:
		defer func() { <-at.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// The commits at which a walk would start: of refs, HEAD, and the HEADs of linked worktrees.
	tips, err := r.output(ctx, append([]string{"rev-list", "--no-walk=unsorted"}, p.refs...)...)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(tips))
	if at.l != nil && at.l.tips == sum {
		return at.l, nil
	}
	l, err := r.walk(ctx, tips)
	if err != nil {
		return nil, err
	}
	l.tips = sum
	at.l = l // the old one is closed when its last reader lets go of it
	return l, nil
}

func (p *Provider) place(source string) *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.places[source]
	if at == nil {
		for other := range p.places {
			if len(p.places) < maxListings {
				break
			}
			delete(p.places, other)
		}
		at = &place{turn: make(chan struct{}, 1)}
		p.places[source] = at
	}
	return at
}

// walk makes a listing. It starts at the tips that were read, not at the refs, which may move meanwhile.
func (r *repository) walk(ctx context.Context, tips string) (*listing, error) {
	file, err := os.CreateTemp("", "towline-git-*")
	if err != nil {
		return nil, fmt.Errorf("list commits: %w", err)
	}
	// Without its name it is gone with this process, however that ends. Where this is refused, the file stays behind.
	_ = os.Remove(file.Name())
	l := &listing{file: file}
	if tips == "" {
		return l, nil
	}
	out := bufio.NewWriterSize(file, 64<<10)
	err = r.run(ctx, command{args: []string{"rev-list", "--timestamp", "--stdin"}, stdin: strings.NewReader(tips)}, func(rd io.Reader) error {
		return eachStamp(rd, func(second int64, id []byte) error { return l.add(out, second, id) })
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

// eachStamp reads the output of rev-list --timestamp: lines of a number and an id, with no free text that could break
// them. The number is the very one that --since-as-filter compares. %ct would be what the commit says, which is
// another when that is out of range.
func eachStamp(r io.Reader, f func(second int64, id []byte) error) error {
	return eachRecord(r, '\n', func(line []byte) error {
		stamp, id, _ := bytes.Cut(line, []byte(" "))
		second, err := strconv.ParseUint(string(stamp), 10, 64)
		if err != nil {
			return provider.Fail(provider.OtherError, fmt.Errorf("git rev-list wrote %.80q", line))
		}
		return f(int64(min(second, lastSecond)), id)
	})
}

func (l *listing) add(w io.Writer, second int64, id []byte) error {
	size := hex.DecodedLen(len(id))
	if size != 20 && size != 32 || l.count > 0 && size != l.idSize {
		return provider.Fail(provider.OtherError, fmt.Errorf("git rev-list wrote %.80q as a commit id", id))
	}
	l.idSize = size
	var record [8 + 32]byte
	binary.BigEndian.PutUint64(record[:], uint64(second))
	if _, err := hex.Decode(record[8:], id); err != nil {
		return provider.Fail(provider.OtherError, fmt.Errorf("git rev-list wrote %.80q as a commit id: %w", id, err))
	}
	l.count++
	_, err := w.Write(record[:8+size])
	return err
}

// each calls f for every commit. id is valid until f returns.
func (l *listing) each(f func(second int64, id []byte) error) error {
	size := int64(8 + l.idSize)
	r := bufio.NewReaderSize(io.NewSectionReader(l.file, 0, l.count*size), 64<<10)
	record := make([]byte, size)
	for range l.count {
		if _, err := io.ReadFull(r, record); err != nil {
			return fmt.Errorf("read the listing: %w", err)
		}
		if err := f(int64(binary.BigEndian.Uint64(record)), record[8:]); err != nil {
			return err
		}
	}
	return nil
}

// within is the digest of the commits from one second to another, both included.
func (l *listing) within(from, to int64) (Digest, error) {
	var d Digest
	err := l.each(func(second int64, id []byte) error {
		if from <= second && second <= to {
			d.add(id)
		}
		return nil
	})
	return d, err
}

// ids is the input of git log --stdin: the commits from one second to another, a line each.
func (l *listing) ids(from, to int64) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		lines := bufio.NewWriter(w)
		line := make([]byte, 2*l.idSize+1)
		line[len(line)-1] = '\n'
		err := l.each(func(second int64, id []byte) error {
			if second < from || second > to {
				return nil
			}
			hex.Encode(line, id)
			_, err := lines.Write(line)
			return err
		})
		_ = w.CloseWithError(errors.Join(err, lines.Flush()))
	}()
	return r
}
