// Package sqlbus is a durable transport on one SQLite file: a message bus for the processes of one host that needs no
// service. Its file is not the store's.
//
// Several consumers of a group share its work: each message is claimed alone, under a lease. So there is no order between
// consumers, a slow message holds up no other, and a consumer that dies takes nothing with it.
//
//	confirms       Accepted: committed with synchronous=FULL. All messages of one Publish are stored, or none.
//	delivery       At least once to each group. A message is at one consumer of the group at a time; behind a lost lease
//	               two may work on it, and the acknowledgement of the first then changes nothing.
//	duplicates     A message that is published twice is delivered twice, under its one id.
//	order          That of the commits, to a group with one consumer of window 1, as long as it refuses none.
//	refused        A Nack makes the message wait 1 s, doubling to 1 min, in the file. Others go on. Behind 20 deliveries, those
//	               of consumers that died included, it is parked: kept for 7 days, then deleted; Requeue delivers it again.
//	slow           A lease is renewed as long as its process lives, however long the handler takes.
//	kill -9        Of a publisher: what was accepted is there, and no half of a Publish. Of a consumer: what it held is handed
//	               on within the lease, 30 s. A process that was stopped for longer finds its message's context ended.
//	power loss     Takes nothing that was accepted. What was acknowledged in the last moments may come again.
//	retention      A message is deleted when each group of its topic has acknowledged it. Without a group it waits for the first
//	               one. The cost of an operation does not grow with history, and free pages of the file are used again.
//	limits         A payload of 1 MiB, messages of 256 MiB in all. A full bus and a full disk refuse, and count no attempt. A full
//	               bus can be emptied; on a full disk consumers wait for room, too.
//	a locked file  Refuses at the deadline, or after 5 s, and counts no attempt.
//	the file       Processes of one host and one user; no network file system, and no copy of it while it is in use. One that
//	               is deleted or replaced under its users is refused by them until they start again.
//	clocks         Leases and waits go by the wall clock of the host. A step forward ends leases early, which doubles work; a
//	               step back makes a dead consumer's messages wait by as much longer.
package sqlbus
