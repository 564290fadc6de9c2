// Package query is the grammar in which people choose runs, units, outbox entries, jobs and events: the same in the command
// line (--where), the API (?where=) and the console.
//
//	sync:code source:orders state:retrying error:timeout window>=2025-01 age>10m -kind:message
//
// A blank between terms is and, a comma between values is or, and a minus in front of a term is not. A value with a blank, a
// comma or a quote stands in double quotes, within which a backslash takes the next character as it is. The words before the
// colon are those of Fields; an unknown one is an *Error that names those that are known. An empty text chooses everything.
//
// Periods are windows in UTC: 2025, 2025-01, 2025-01-31, w2025-01-27 (a week by its Monday) or FROM..TO. A unit is in a period
// if all of its window is; window>=2025-01 is what begins in that month or later, window<2025-01 what ends before it. Ages
// are as Go writes durations, and 7d for days: age>10m is what began to be so longer than ten minutes ago.
package query
