package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/towline-dev/towline/events"
)

// HashLog is the hash of every event of a log, with its place and time: equal for two worlds in which the same has happened. It
// stands in case files: a file format.
func HashLog(log []events.Envelope) string {
	sum := sha256.New()
	for _, env := range log {
		record, err := events.Encode(env.Event)
		if err != nil {
			panic(fmt.Sprintf("sim: an event of a log cannot be encoded: %v", err))
		}
		stream := env.Stream.String()
		if schedule, civil, ok := env.Stream.Occurrence(); ok { // two streams may print alike
			stream = "occurrence/" + schedule + "/" + civil
		}
		fmt.Fprintf(sum, "%d %d %s %d %d %d %d %q %q %d %s %s\n", env.Position, env.Tx, stream, env.Version, env.At,
			record.Type, record.Schema, env.Actor, env.Command, env.Cause, env.Node, record.Data)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
