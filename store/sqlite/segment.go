package sqlite

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/towline-dev/towline/events"
)

// The plain form of a segment is text: a line for each stream, an empty line, and for each event, by position, a line of
// numbers with its three texts behind it. A position, a tx and a time are written as the distance to the one before, for
// that is what compresses. `gunzip` shows it to a person. It is a file format: a segment is never written again.

// sealed is a stream in a segment.
type sealed struct {
	stream  []byte
	version events.Version // its last one here
	hash    [sha256.Size]byte
}

// segment is a sealed segment, as it is stored.
type segment struct {
	streams []sealed // by key
	events  int
	plain   int
	hash    [sha256.Size]byte
	data    []byte
}

// errSegment: what a segment holds is not what was sealed.
var errSegment = errors.New("the segment is damaged")

// seal compresses the events of some streams, whose rows come in the order of their positions.
func seal(rows []stored) (segment, error) {
	streams, places := streamsOf(rows)
	var plain bytes.Buffer
	for _, s := range streams {
		fmt.Fprintf(&plain, "%x\n", s.stream)
	}
	plain.WriteByte('\n')
	var before stored
	for i := range rows {
		e := &rows[i]
		fmt.Fprintf(&plain, "%d %d %d %d %d %d %d %d %d %d %d %d ", e.position-before.position, e.position-e.tx, places[string(e.stream)], e.version,
			e.at-before.at, e.kind, e.schema, e.meta.Cause, e.node, len(e.meta.Actor), len(e.meta.Command), len(e.data))
		plain.WriteString(e.meta.Actor)
		plain.WriteString(e.meta.Command)
		plain.WriteString(e.data)
		plain.WriteByte('\n')
		before = *e
	}
	var data bytes.Buffer
	z, err := gzip.NewWriterLevel(&data, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(plain.Bytes())
	}
	if err == nil {
		err = z.Close()
	}
	return segment{streams: streams, events: len(rows), plain: plain.Len(), hash: hashOf(streams), data: data.Bytes()}, err
}

// streamsOf are the streams of some rows by key, with their hashes, and the place of each.
func streamsOf(rows []stored) (streams []sealed, places map[string]int) {
	hashes := map[string]*bytes.Buffer{}
	for i := range rows {
		e := &rows[i]
		b := hashes[string(e.stream)]
		if b == nil {
			b = &bytes.Buffer{}
			hashes[string(e.stream)] = b
			streams = append(streams, sealed{stream: e.stream})
		}
		fmt.Fprintf(b, "%d %d %d %d %d %d %d %d %q %q %q\n", e.position, e.tx, e.version, e.at, e.kind, e.schema, e.meta.Cause, e.node,
			e.meta.Actor, e.meta.Command, e.data)
	}
	slices.SortFunc(streams, func(a, b sealed) int { return bytes.Compare(a.stream, b.stream) })
	places = map[string]int{}
	for i := range streams {
		s := &streams[i]
		s.hash = sha256.Sum256(hashes[string(s.stream)].Bytes())
		places[string(s.stream)] = i
	}
	for i := range rows {
		s := &streams[places[string(rows[i].stream)]]
		s.version = max(s.version, rows[i].version)
	}
	return streams, places
}

// hashOf is the hash of a segment: over its streams, each with its key, its last version and its hash.
func hashOf(streams []sealed) [sha256.Size]byte {
	h := sha256.New()
	for _, s := range streams {
		fmt.Fprintf(h, "%x %d %x\n", s.stream, s.version, s.hash)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// maxPlain bounds what a segment may become in memory. Sealed ones are far smaller, so a larger one is damaged.
const maxPlain = 256 << 20

// unseal reads the events of a segment, in the order of their positions, and proves that they are those that were sealed.
func unseal(data []byte, hash []byte) ([]stored, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSegment, err)
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxPlain))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSegment, err)
	}
	rows, err := parseSegment(bufio.NewReader(bytes.NewReader(plain)), len(plain))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSegment, err)
	}
	streams, _ := streamsOf(rows)
	if found := hashOf(streams); !bytes.Equal(found[:], hash) {
		return nil, fmt.Errorf("%w: its hash is %x, and it was sealed with %x", errSegment, found, hash)
	}
	return rows, nil
}

func parseSegment(r *bufio.Reader, size int) (rows []stored, err error) {
	var streams [][]byte
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if line == "\n" {
			break
		}
		key, err := hex.DecodeString(line[:len(line)-1])
		if err != nil {
			return nil, err
		}
		streams = append(streams, key)
	}
	var before stored
	for {
		if _, err := r.Peek(1); errors.Is(err, io.EOF) {
			return rows, nil
		}
		var n [12]int64
		for i := range n {
			if n[i], err = readNumber(r); err != nil {
				return nil, err
			}
		}
		if n[2] < 0 || n[2] >= int64(len(streams)) || min(n[9], n[10], n[11]) < 0 || max(n[9], n[10], n[11]) > int64(size) {
			return nil, errors.New("a line of it is no event")
		}
		text := make([]byte, n[9]+n[10]+n[11]+1)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		e := stored{
			position: before.position + events.Position(n[0]), stream: streams[n[2]], version: events.Version(n[3]),
			at: before.at + events.Micros(n[4]), kind: events.Type(n[5]), schema: events.Schema(n[6]), node: events.Position(n[8]),
		}
		e.tx = e.position - events.Position(n[1])
		e.meta.Cause = events.Position(n[7])
		e.meta.Actor, e.meta.Command = string(text[:n[9]]), string(text[n[9]:n[9]+n[10]])
		e.data = string(text[n[9]+n[10] : len(text)-1])
		rows, before = append(rows, e), e
	}
}

// readNumber reads a number and the space behind it.
func readNumber(r *bufio.Reader) (n int64, err error) {
	minus, digits := false, 0
	for {
		b, err := r.ReadByte()
		switch {
		case err != nil:
			return 0, err
		case b == ' ' && digits > 0:
			if minus {
				n = -n
			}
			return n, nil
		case b == '-' && digits == 0 && !minus:
			minus = true
		case b >= '0' && b <= '9' && digits < 19:
			n, digits = n*10+int64(b-'0'), digits+1
		default:
			return 0, errors.New("a line of it is no event")
		}
	}
}
