// Package ident reads and writes the names by which people call things: one rule for the command line, the API and the
// console.
//
//	run      01M8KSP2PGV3T0X6J2BD7Q4ZKD   run/01M8…   7Q4ZKD
//	unit     its ULID   unit/01M8…   7Q4ZKD:orders/commits/2024-03   the end of its ULID
//	job      its ULID   job/01M8…    the end of its ULID
//	message  its ULID   the end of its ULID
//	entry    7Q4ZKD/post_sync   7Q4ZKD/post_sync#1   <owner>.post_sync.1   outbox/<owner>/post_sync
//
// A ULID is read in either case. The end of one has at least six characters. What is called so must be one thing: with two
// of them it is an *Error that lists both.
package ident
