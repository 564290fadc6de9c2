package sqlbus_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func mountSmall(dir string) error { return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=12m") }

func unmount(t *testing.T, dir string) { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) }
