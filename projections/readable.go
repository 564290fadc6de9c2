package projections

// ulidText and timeText are SQL for the readable views (D-22): the tables hold bytes and integers, a person in a plain
// sqlite shell sees text. ulid_digits is a table of the store: for each of the 26 digits, which two hexadecimal digits
// hold its five bits, and how far to shift them. Null stays null.

func ulidText(column string) string {
	digit := func(at string) string {
		return `(instr('0123456789ABCDEF', substr(h.hex, u.` + at + `, 1)) - 1)`
	}
	return `CASE WHEN ` + column + ` IS NOT NULL THEN (
  SELECT group_concat(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', 1 + (((` + digit("hi") + ` << 4 | ` + digit("lo") + `) >> u.shift) & 31), 1), '')
  FROM (SELECT hex(` + column + `) AS hex) AS h CROSS JOIN ulid_digits AS u) END`
}

// SQLite divides towards zero, so the fraction is taken off first: it is positive before 1970, too.
func timeText(column string) string {
	fraction := `((` + column + ` % 1000000 + 1000000) % 1000000)`
	return `strftime('%Y-%m-%dT%H:%M:%S', (` + column + ` - ` + fraction + `) / 1000000, 'unixepoch') || printf('.%06dZ', ` + fraction + `)`
}
