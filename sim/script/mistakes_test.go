package script_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/sim/script"
)

// G-18: a file says what it shows, so a word that means nothing in it is an error, at the line on which it stands, with the word
// that is near. Each of these would else pass in silence, or end a file at another line: what was to be tested would not have
// happened.
func TestAMistakeIsAnErrorAtItsLine(t *testing.T) {
	const before = `# a comment

sync weather sources=harbour,ridge post_sync=mart
dataset weather readings window=day
consume orders
schedule nightly sync=weather cron="0 3 * * *"
quietly plan weather mode=backfill since=-2d before=0d
`
	const behind = "\nquietly run\n"
	for mistake, says := range map[string]string{
		// the command and its keys
		"calmm":                                "did you mean calm?",
		"fault publish refuse tims=3":          "did you mean times=",
		"provider weather fails network off 1": "did you mean of",
		"plan weather key=a key=b":             "key is said twice",
		"configure cap.run=3 cap.run=4":        "cap.run is said twice",
		"fault publish refuse times=-1":        "times: -1 is less than nothing",
		"hold for=-1m 1/relay":                 "for: -1m is less than nothing",
		"sync tides sources=pier,,quay":        "a word is missing beside a comma",
		"quietly advence 1m":                   "did you mean advance?",

		// vocabularies
		"sync tides sources=pier mode=exactly_one":                "did you mean exactly_once?",
		"dataset weather counts tier=referenc":                    "did you mean reference?",
		"dataset weather counts cost=hevy":                        "did you mean heavy?",
		"dataset weather counts window=days":                      "did you mean day?",
		"dataset weather counts retries=1 retry_on=netwrk":        "did you mean network?",
		"dataset weather counts retries=1 retry_on=rate_limit":    `"rate_limit" is not known`,
		"dataset weather counts retries=1 retry_modes=backfil":    "did you mean backfill?",
		"plan weather mode=incrementl":                            "did you mean incremental?",
		"request weather key=k mode=ful_resync":                   "did you mean full_resync?",
		`schedule n2 sync=weather cron="0 3 * * *" catch_up=onec`: "did you mean once?",
		`schedule n2 sync=weather cron="0 3 * * *" overlap=que`:   "did you mean queue?",
		"resolve weather mart delivred":                           "did you mean delivered?",
		"provider weather fails netwrk":                           "did you mean network?",
		"provider weather hang":                                   "did you mean hangs?",
		"effect weather mart fail":                                "an effect fails or works",
		"consume orders reject":                                   "a consumer fails or rejects",
		"worker w1 claim weather 1":                               "did you mean claims?",
		"fault publsh refuse":                                     "did you mean publish?",
		"fault publish refused":                                   "did you mean refuse?",
		"configure cap.buket=1":                                   "did you mean cap.bucket?",
		"configure cap.bucket.stations=1":                         "a bucket is a provider and a cost",
		"configure cap.bucket.stations/hevy=1":                    "a bucket is a provider and a cost",

		// names
		"dataset wether counts":                                    "did you mean weather?",
		"provider wether hangs":                                    "did you mean weather?",
		"effect wether mart fails":                                 "did you mean weather?",
		"effect weather mrat fails":                                "there is no target mrat: did you mean mart?",
		"request wether key=k":                                     "did you mean weather?",
		`schedule n2 sync=wether cron="0 3 * * *"`:                 "did you mean weather?",
		`schedule wether cron="0 3 * * *"`:                         "did you mean weather?",
		`schedule n2 sync=weather cron="0 3 * * *" sources=harbor`: "did you mean harbour?",
		"unschedule nighly":                                        "did you mean nightly?",
		"show occurrences nighly":                                  "did you mean nightly?",
		"pause harbor":                                             "did you mean harbour?",
		"resume harbor":                                            "did you mean harbour?",
		"cancel run wether":                                        "did you mean weather?",
		"cancel unit wether 1":                                     "did you mean weather?",
		"release weather 9":                                        "there is no unit weather 9",
		"park weather dispatch_sync_rum":                           "did you mean dispatch_sync_run?",
		"redrive orders a":                                         "there is no message orders a",
		"show why wether":                                          "did you mean weather?",
		"show log UnitFaild":                                       "did you mean UnitFailed?",
		"show run":                                                 "did you mean runs?",
		"kill 2":                                                   "there is no node 2",
		"crash node=2 behind commit UnitClaimed":                   "there is no node 2",
		"fault publish refuse node=2":                              "there is no node 2",
		"hold node=2 for=1m":                                       "there is no node 2",
		"until before publsh weather":                              "is no place",
		"until behind a transaction":                               "is no place",
		"plan weather since=monday":                                `since: "monday" is no time`,

		// what a command has no use for, or lacks
		"provider weather hangs 5s":                "did you mean of 5s?",
		"provider weather fails network account=a": "only a rate limit has an account",
		"provider weather works text=x":            "has no text",
		"provider weather takes soon":              "is no time",
		"consume orders times=2":                   "fails or rejects is missing",
		"crash 1/relay before publish weather":     "what is 1/relay?",
		"hold for=1m":                              "a task, as 1/relay, or node is missing",
		"hold 1/relay":                             "for is missing",
		"hold node=1 for=1m 1/relay":               "what is 1/relay?",
		"advance 0s":                               "it says to do nothing",
		"steps 0":                                  "it says to do nothing",
		"fault publish delay":                      "by is missing",
		"fault publish refuse by=1m":               "only a delay has a by",
		"fault commit full of UnitClaimed":         "leave of out",
		"show runs weather":                        "what is weather?",
		"show next":                                "it does not say of what",
		"worker w1 claims weather":                 "a run and a number are missing",
		"check expects=I-13":                       "I-13 holds, and was to be broken",

		// what no call meets
		"fault publish refuse of weather dispatch_sync_rum": "no call has met it: did you mean dispatch_sync_run.1?",
		"fault publish refuse skip=99":                      "no call has met it",
		"provider weather fails network of ridgge":          "no call has met it: did you mean ridge?",
		"provider weather fails network attempt=9":          "no call has met it",
		"consume orders fails key=a":                        "no call has met it",
	} {
		t.Run(mistake, func(t *testing.T) {
			err := playFile(t, before+mistake+behind)
			require.ErrorContains(t, err, says)
			require.Regexp(t, `^a\.txt:8: `, err.Error())
		})
	}
	require.NoError(t, playFile(t, before+behind), "without a mistake")
}

// playFile plays a file to its end.
func playFile(t *testing.T, text string) (err error) {
	t.Helper()
	lines, err := script.ParseFile("a.txt", 1, text)
	if err != nil {
		return err
	}
	p := script.New(t.TempDir())
	defer func() { err = errors.Join(err, p.Close()) }()
	for _, l := range lines {
		if _, err := p.Play(context.Background(), l); err != nil {
			return err
		}
	}
	return p.Finish(context.Background())
}
