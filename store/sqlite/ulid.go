package sqlite

import "fmt"

// ULIDText is an SQL expression for the ULID in a column of 16 bytes, as 26 characters. It is for the readable views;
// the table ulid_digits, on which it rests, is part of the log's schema. Null stays null. column is SQL, also an
// expression, and is trusted.
func ULIDText(column string) string {
	const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	nibble := func(place string) string {
		return fmt.Sprintf("(instr('0123456789ABCDEF', substr(h.hex, u.%s, 1)) - 1)", place)
	}
	return fmt.Sprintf("CASE WHEN (%s) IS NOT NULL THEN ("+
		"SELECT group_concat(substr('%s', 1 + (((%s << 4 | %s) >> u.shift) & 31), 1), '') "+
		"FROM (SELECT hex(%s) AS hex) AS h CROSS JOIN ulid_digits AS u) END",
		column, crockford, nibble("hi"), nibble("lo"), column)
}
