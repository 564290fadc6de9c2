package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/store"
)

// as runs fn as a release with other format levels would.
func as(t *testing.T, l levels, fn func()) {
	t.Helper()
	before := ours
	defer func() { ours = before }()
	ours = l
	fn()
}

// DUR-7, SC-361: the next release opens a store and leaves its level, so the previous one opens it again, with all that was
// written meanwhile. An upgrade raises the level by one step, behind a copy. From then on a release that cannot read the level
// refuses the store and leaves it as it is; one that reads it already goes on; and the copy is the way back.
func TestAnUpgradeRaisesTheLevelByOneStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	previous, reading, next := levels{1, 1}, levels{2, 1}, levels{3, 3}
	as(t, previous, func() { storeOf(t, path, 3) })
	as(t, next, func() {
		storeOf(t, path, 1)
		c := start(t, "open", path)
		require.Equal(t, "ready", c.line(t))
		_, err := Upgrade(context.Background(), path)
		require.ErrorIs(t, err, store.ErrLocked, "it is in use")
		_, ok := c.end(t)
		require.True(t, ok)
	})
	as(t, reading, func() {
		u, err := Upgrade(context.Background(), path)
		require.NoError(t, err)
		require.Equal(t, Upgraded{From: 1, To: 1}, u, "what it reads it does not write yet")
	})
	as(t, previous, func() { require.Len(t, logOf(t, path), 4) })
	as(t, next, func() {
		u, err := Upgrade(context.Background(), path)
		require.NoError(t, err)
		require.Equal(t, Upgraded{From: 1, To: 2, Copy: path + "-level-1"}, u)
		require.Len(t, logOf(t, path), 4)
	})
	as(t, previous, func() {
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		_, err = Open(context.Background(), path, Options{})
		require.ErrorIs(t, err, store.ErrFormat)
		require.ErrorContains(t, err, "has format level 2, and this release reads levels 1 to 1")
		_, err = Look(context.Background(), path)
		require.ErrorIs(t, err, store.ErrFormat)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, before, after)
		require.Len(t, logOf(t, path+"-level-1"), 4)
	})
	as(t, reading, func() { storeOf(t, path, 1) })
	as(t, next, func() {
		require.Len(t, logOf(t, path), 5)
		u, err := Upgrade(context.Background(), path)
		require.NoError(t, err)
		require.Equal(t, 3, u.To)
	})
}

// DUR-7: the copy of an upgrade is the whole store, so somebody who reads, and keeps a part of it in the WAL, is waited out first.
func TestAnUpgradeIsRefusedWhileSomebodyReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	as(t, levels{1, 1}, func() { storeOf(t, path, 3) })
	done := readerOf(t, path)
	as(t, levels{1, 1}, func() { storeOf(t, path, 1) })
	as(t, levels{2, 2}, func() {
		_, err := Upgrade(context.Background(), path)
		require.ErrorIs(t, err, store.ErrLocked)
		done()
		u, err := Upgrade(context.Background(), path)
		require.NoError(t, err)
		require.Len(t, logOf(t, u.Copy), 5)
	})
}

// DUR-7: this release reads no level that it does not know, and the level of a new store is one that it reads.
func TestTheLevelsOfThisRelease(t *testing.T) {
	newest, written := Levels()
	require.LessOrEqual(t, written, newest)
	path := filepath.Join(t.TempDir(), "towline.db")
	storeOf(t, path, 2)
	u, err := Upgrade(context.Background(), path)
	require.NoError(t, err)
	require.Equal(t, Upgraded{From: written, To: written}, u)
	i, err := Look(context.Background(), path)
	require.NoError(t, err)
	require.Equal(t, written, i.Level)
	require.EqualValues(t, 2, i.Head)
	require.Equal(t, 1, i.Epoch)
	var total int64
	for _, table := range i.Tables {
		total += table.Bytes
	}
	require.Positive(t, total)
	require.LessOrEqual(t, total, i.Bytes)
}

// HC-56: looking at a store writes nothing, whether it is at rest or in use.
func TestALookChangesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "towline.db")
	c := start(t, "write", path)
	for range 20 {
		c.line(t)
	}
	i, err := Look(context.Background(), path)
	require.NoError(t, err)
	require.Positive(t, i.WAL)
	require.Greater(t, i.Used, i.Bytes, "the newest pages are in the WAL only")
	require.GreaterOrEqual(t, int(i.Head), 20)
	c.kill(t)
	c.drain(t, 0)
	before := folder(t, dir)
	_, err = Look(context.Background(), path)
	require.NoError(t, err)
	after := folder(t, dir)
	for _, name := range []string{"towline.db", "towline.db-wal"} {
		require.Equal(t, before[name], after[name], name)
	}
}

// HC-56: whoever looks at a store at rest keeps no engine from starting: not even the name in its lock changes.
func TestALookTakesNoLock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "towline.db")
	storeOf(t, path, 3)
	require.NoError(t, os.WriteFile(path+"-lock", []byte("the last one\n"), 0o600))
	before := folder(t, dir)
	i, err := Look(context.Background(), path)
	require.NoError(t, err)
	require.EqualValues(t, 3, i.Head)
	after := folder(t, dir)
	require.Equal(t, before["towline.db-lock"], after["towline.db-lock"])
	require.Len(t, after, len(before))
	require.Equal(t, before["towline.db"], after["towline.db"])
}
