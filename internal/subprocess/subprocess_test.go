package subprocess_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/internal/subprocess"
)

// E-3: what is kept of an output is its end, in one line, from the beginning of a word on: half a secret is not known as one.
func TestTheEndOfAnOutputIsKept(t *testing.T) {
	write := func(limit int, parts ...string) string {
		tail := &subprocess.Tail{Limit: limit}
		for _, p := range parts {
			n, err := fmt.Fprint(tail, p)
			require.NoError(t, err)
			require.Equal(t, len(p), n)
		}
		return tail.String()
	}
	require.Empty(t, write(10))
	require.Equal(t, "all of it", write(100, "all\n", "of\r\n it \n"))
	require.Equal(t, "is the end", write(14, "password=hunter2 ", "is the end"))
	require.Equal(t, "the end", write(13, strings.Repeat("x", 1<<20), " the", " end"))
	require.Equal(t, "0123456789", write(10, "word without end 0123456789"), "where there is no word, nothing is lost")
	require.Len(t, write(10, strings.Repeat("x", 100)), 10)
}

// E-3: as text its lines stay, and it says whether there was more. What comes in many pieces is kept like what comes in one.
func TestTheEndOfAnOutputHasItsLines(t *testing.T) {
	tail := &subprocess.Tail{Limit: 12}
	require.Empty(t, tail.Text())
	fmt.Fprint(tail, "one\ntwo\n")
	require.Equal(t, "one\ntwo\n", tail.Text())
	require.False(t, tail.Cut())
	fmt.Fprint(tail, "three\nfour\n")
	require.Equal(t, "three\nfour\n", tail.Text())
	require.True(t, tail.Cut())

	whole, pieces := &subprocess.Tail{Limit: 100}, &subprocess.Tail{Limit: 100}
	text := strings.Repeat("0123456789 abc\n", 1000)
	fmt.Fprint(whole, text)
	for i := range text {
		fmt.Fprint(pieces, text[i:i+1])
	}
	require.Equal(t, whole.Text(), pieces.Text())
	require.True(t, strings.HasSuffix(text, whole.Text()))
	require.Greater(t, len(whole.Text()), 80)

	flood := &subprocess.Tail{Limit: 10}
	fmt.Fprint(flood, strings.Repeat("x", 1<<20)+"\n")
	require.Equal(t, "xxxxxxxxx\n", flood.Text(), "a word without end is better than nothing")
}
