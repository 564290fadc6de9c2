package sqlite

import "syscall"

// networkFS names the network or virtual file system of a directory, "" for a local one (HC-36).
func networkFS(dir string) (string, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "", err
	}
	name := make([]byte, 0, len(st.Fstypename))
	for _, c := range st.Fstypename {
		if c == 0 {
			break
		}
		name = append(name, byte(c))
	}
	switch string(name) {
	case "nfs", "smbfs", "afpfs", "webdav", "macfuse", "osxfuse", "fusefs":
		return string(name), nil
	}
	return "", nil
}
