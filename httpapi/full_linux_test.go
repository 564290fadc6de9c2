package httpapi_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/httpapi"
)

// smallDisk is a file system of its own with so many bytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
	if errors.Is(err, syscall.EPERM) && os.Getenv("TOWLINE_TEST_SERVICES") != "require" {
		t.Skip("a file system can be mounted by root only")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	return dir
}

// fillDisk takes all that is left, and gives back the file that has it.
func fillDisk(t *testing.T, dir string) string {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	require.NoError(t, err)
	page := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(page)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())
	return f.Name()
}

// N-8, C-44: a node whose disk is full is not ready from the first commit that the disk refuses, at once and without a pause,
// until the disk has room again; a few pages are none.
func TestAFullDiskIsNotReady(t *testing.T) {
	disk := smallDisk(t, "16m")
	w := start(t, func(s *setup) { s.node.Store = filepath.Join(disk, "towline.db") })
	t.Cleanup(w.end) // before the disk goes
	trigger := map[string]any{"sync": "days", "mode": "backfill", "since": "2026-01-01T00:00:00Z", "before": "2026-01-02T00:00:00Z"}
	w.send("GET", "/readyz", nil).is(http.StatusOK, nil)

	filler := fillDisk(t, disk)
	refused := 0
	for range 50 { // what the WAL has already is used first
		if w.send("POST", "/v1/runs", trigger).status == http.StatusServiceUnavailable {
			refused++
		}
		if refused == 0 {
			continue
		}
		var ready httpapi.Readiness
		w.send("GET", "/readyz", nil).is(http.StatusServiceUnavailable, &ready)
		require.Equal(t, "unavailable", ready.Status)
		require.Equal(t, "store_unavailable", ready.Reasons[0].What)
		require.Contains(t, ready.Reasons[0].Text, "no space left")
		if refused == 3 {
			break
		}
	}
	require.Equal(t, 3, refused)
	info, err := os.Stat(filler)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(filler, info.Size()-32<<10))
	w.send("GET", "/readyz", nil).is(http.StatusServiceUnavailable, nil)

	require.NoError(t, os.Remove(filler))
	w.send("GET", "/readyz", nil).is(http.StatusOK, nil)
	w.send("POST", "/v1/runs", trigger).is(http.StatusAccepted, nil)
}
