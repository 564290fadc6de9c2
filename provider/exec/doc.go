// Package exec is the provider that runs any program: each attempt of a unit is one process. This is version 1 of its
// contract.
//
// # Input
//
// One JSON document on standard input, then its end; the same bytes are in the file that TOWLINE_UNIT_FILE names. Its fields
// are those of Document; there may be more in a later version. What is one value is in the environment, too:
//
//	TOWLINE_RUN_ID TOWLINE_UNIT_ID TOWLINE_UNIT_ALIAS TOWLINE_ATTEMPT TOWLINE_FENCE TOWLINE_SYNC TOWLINE_SOURCE
//	TOWLINE_DATASET TOWLINE_WINDOW_FROM (empty: an open start) TOWLINE_WINDOW_TO TOWLINE_UNIT_FILE
//	TOWLINE_STATE_FILE (the state that the last success has left, null if none; what is written there is not read)
//	TRACEPARENT (all units of a run are one trace)
//
// Arguments may hold {{window.from}}, {{window.to}}, {{source}}, {{dataset}} and {{attempt}}. No shell is involved unless the
// command is one. Of the environment of the engine all passes on but TOWLINE_ variables and those of the service manager.
//
// # Output
//
// Lines on standard output. Without Options.Protocol the first line that is a JSON object says which protocol they are:
//
//	native  {"towline":"record","stream":"commits","key":["a1"],"data":{…}}  a row; stream may be left out where the unit has one surface
//	        {"towline":"progress","done":3,"total":10}
//	        {"towline":"state","state":…}                        for the next unit of the source and dataset
//	        {"towline":"log","level":"info","text":"…"}
//	        {"towline":"result","rows":2,"fingerprint":"…"}      rows that are counted otherwise than they arrived fail the unit
//	        {"towline":"retry_after","seconds":30,"account":"…"} followed by exit code 75
//	lines   each line that is a JSON object is a row; each other line is for people
//
// From the first line of the native protocol on, every line must be one: a row that cannot be read fails the unit and is never
// skipped. A line has at most 16 MiB. The key of a row is its key; else the values of Options.Key in it; else its number in the
// unit, behind the name of the window. Rows must be UTF-8.
//
// Every native line but a row may also be written to file descriptor 3, in either protocol. Anything else there is a sign of
// life and no more, and so is all that is written anywhere.
//
// # End
//
// Exit code 0 is success: rows, state and fence are committed together. 69 is network, 75 rate_limit behind a retry_after line,
// else provider_error, 77 auth, 78 configuration, any other and a signal provider_error. The end of standard error is kept in
// the event, without secrets: 64 KiB of a failure, 4 KiB of a success.
//
// A stop is SIGTERM to the process group, then Options.Grace, then SIGKILL. When the program has ended, what it has left in its
// group is killed; if that holds standard output open, the rows may not be all, and the unit fails.
package exec
