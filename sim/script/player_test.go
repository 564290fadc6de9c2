package script_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/sim/script"
)

const setup = `
	sync weather sources=harbour post_sync=mart
	dataset weather readings window=day
	plan weather mode=backfill since=-2d before=0d`

// play plays lines in a world of its own, and returns what the last one has said.
func play(t *testing.T, lines string) (said string, err error) {
	t.Helper()
	p := script.New(t.TempDir())
	defer func() { require.NoError(t, p.Close()) }()
	commands, err := script.ParseAll(lines)
	require.NoError(t, err)
	for _, c := range commands {
		if said, err = p.Play(context.Background(), c); err != nil {
			return said, err
		}
	}
	return said, p.Finish(context.Background())
}

// G-18: the same file says the same, byte for byte, whoever moves next by its seed.
func TestTheSameFileSaysTheSame(t *testing.T) {
	file := "world nodes=2 broker=true order=seed seed=7" + setup + "\n steps 30\n kill 1\n run\n show log"
	first, err := play(t, file)
	require.NoError(t, err)
	again, err := play(t, file)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.NotContains(t, first, "(id)", "everything has a name")

	other, err := play(t, strings.Replace(file, "seed=7", "seed=8", 1))
	require.NoError(t, err)
	require.NotEqual(t, first, other, "the seed chooses")
}

// What is said of a source, or of a dataset, is said of its units.
func TestAProviderOfASource(t *testing.T) {
	const two = "sync weather sources=harbour,ridge\ndataset weather readings window=day\n"
	for of, succeeded := range map[string]string{"ridge": "1 succeeded", "readings": "2 failed", "ridge/readings": "1 succeeded", "weather 2": "1 succeeded"} {
		said, err := play(t, two+"provider weather fails not_found of "+of+"\nquietly plan weather mode=backfill since=-1d before=0d\nrun")
		require.NoError(t, err, of)
		require.Contains(t, said, succeeded, of)
	}
}

// What makes no sense where it stands ends a file, and says why.
func TestACommandThatMakesNoSenseEndsAFile(t *testing.T) {
	for last, says := range map[string]string{
		"cancel run tides":                     "there is no run tides",
		"release weather 9":                    "there is no unit weather 9",
		"step 1/dance":                         "it cannot happen now, but these can: 1/relay",
		"until before lunch":                   "is no place",
		"until before publish tides":           "no task comes there",
		"crash behind comit UnitClaimed":       "one of publish, commit",
		"kill 2":                               "there is no node 2",
		"stop 0":                               "there is no node 0",
		"crash behind commit UnitFailed":       "no node comes there",
		"hold for=1m 1/nobody":                 "there is no such task",
		"fault publish busy":                   "does not meet",
		"provider weather dances":              "does not do",
		"configure relay.colour=5":             "there is no such setting",
		"world nodes=2":                        "the world is there",
		"show horizon":                         "what is",
		"check expects=I-13":                   "I-13 holds, and was to be broken",
		"worker w1 renews":                     "has claimed nothing",
		"consume letters":                      "comes too late",
		"dataset tides counts":                 "there is no sync tides",
		"dataset weather readings backoff=1s":  "retries is missing",
		"quietly show horizon":                 "what is",
		"resolve weather mart lost colour=red": "what is colour=red?",
	} {
		t.Run(last, func(t *testing.T) {
			commands, err := script.ParseAll(last)
			if err == nil {
				_, err = play(t, setup+"\n"+commands[0].String())
			}
			require.ErrorContains(t, err, says)
		})
	}
}
