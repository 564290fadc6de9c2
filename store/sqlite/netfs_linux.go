package sqlite

import "syscall"

// networkFS names the network or virtual file system of a directory, "" for a local one. Locks and shared memory of
// SQLite cannot be relied upon there, whatever the server says (HC-36).
func networkFS(dir string) (string, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "", err
	}
	return networkMagic[uint32(st.Type)], nil
}

// From linux/magic.h and the file systems' own headers. FUSE stands for all that a user-space server may do behind
// it, virtiofs and sshfs among them.
var networkMagic = map[uint32]string{
	0x00006969: "nfs",
	0x0000517b: "smb",
	0xfe534d42: "smb2",
	0xff534d42: "cifs",
	0x01021997: "9p",
	0x65735546: "fuse",
	0x00c36400: "ceph",
	0x5346414f: "afs",
	0x6b414653: "afs",
	0x73757245: "coda",
	0x0bd00bd0: "lustre",
	0x47504653: "gpfs",
	0x01161970: "gfs2",
	0x7461636f: "ocfs2",
	0x786f4256: "vboxsf",
	0x7c7c6673: "prl_fs",
}
