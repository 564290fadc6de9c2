package sink

import "context"

// OnceScripter is a Scripter with a once-ledger, for the sql action of a post_sync in exactly_once mode (K-6).
type OnceScripter interface {
	Scripter
	// ScriptOnce runs the statements of a script, as Script does, unless a script has committed under the key before: then
	// it does nothing and first is false. The key commits with what the script has done, or not at all. After an error of
	// which nobody knows whether it has committed, the same call finds out.
	ScriptOnce(ctx context.Context, key, script string, args ...any) (first bool, err error)
}
