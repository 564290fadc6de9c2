// Package schedule says when a schedule is due: it reads cron expressions and time zones, walks the due times with the
// rule for clock changes (S-1, S-3), and previews them. It is pure: the same expression, zone and zone data give the same
// times, and no clock is read. What has been decided of a due time is in the log, and no business of this package.
//
// A due time is an instant and a civil time. They are two things because of clock changes: a civil time may exist twice, and
// one that does not exist is due at the instant at which the clock jumps over it. The key of an occurrence is the civil time
// with its UTC offset, which names either.
//
// The parser is netresearch/go-cron's; the walk is not, because no library's walk is that of S-3. Zone data is embedded, for
// machines that have none.
package schedule
