package config

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/pull"
)

// Surfaces 5: the API is found where the configuration says, by the engine and by a client of the same configuration alike.
func TestAddresses(t *testing.T) {
	path := write(t, "version: 1\napi: {listen: [unix, 'unix:run/a.sock', 'unix:~/b.sock', 'unix:/c.sock', '[::1]:7480', ':80']}\n")
	dir := filepath.Dir(path)
	for name, c := range map[string]struct {
		env    []string
		socket string
	}{
		"a service":                {[]string{"RUNTIME_DIRECTORY=/run/towline:/run/more", "XDG_RUNTIME_DIR=/run/user/7", "HOME=/home/ada"}, "/run/towline/api.sock"},
		"a session":                {[]string{"XDG_RUNTIME_DIR=/run/user/7", "HOME=/home/ada"}, "/run/user/7/towline/api.sock"},
		"a system without session": {[]string{"HOME=/home/ada"}, "/home/ada/.cache/towline/api.sock"},
		"relative ones are none":   {[]string{"RUNTIME_DIRECTORY=a", "XDG_RUNTIME_DIR=b", "HOME=/home/ada"}, "/home/ada/.cache/towline/api.sock"},
	} {
		loaded, err := Load(Options{File: path, Dir: dir, Env: c.env})
		require.NoError(t, err)
		got, err := loaded.Addresses()
		require.NoError(t, err)
		require.Equal(t, []string{"unix:" + c.socket, "unix:" + dir + "/run/a.sock", "unix:/home/ada/b.sock", "unix:/c.sock", "[::1]:7480", ":80"}, got, name)
	}
	_, err := Default().Addresses()
	require.ErrorIs(t, err, ErrNoSocketFolder, "nobody's home")
	none, err := mustLoad(t, "version: 1\napi: {listen: []}\n").Addresses()
	require.NoError(t, err)
	require.Empty(t, none)
}

// Surfaces 5.4: without local workers the units of a store of one process wait for workers that ask, and the engine's own work
// is done here; those of a shared store are left to its other processes.
func TestWhoDoesTheUnits(t *testing.T) {
	asked := map[events.Kind]transport.Publisher{events.KindUnit: pull.Publisher{}}
	for text, want := range map[string]node.Config{
		"":                      {Workers: 4},
		"workers: {local: 2}":   {Workers: 2},
		"workers: {local: 0}":   {Workers: 1, Routes: asked},
		"store: {mode: shared}": {Workers: 4},
		"store: {mode: shared}\nworkers: {local: 0}": {Workers: -1},
	} {
		b := built(t, text, BuildOptions{})
		require.Equal(t, want.Workers, b.Workers, text)
		require.Equal(t, want.Routes, b.Routes, text)
	}
	b := built(t, "workers: {local: 2}", BuildOptions{NoWorkers: true})
	require.Equal(t, node.Config{Workers: 1, Routes: asked}, node.Config{Workers: b.Workers, Routes: b.Routes})
}

// built is what a configuration without syncs makes of a node.
func built(t *testing.T, text string, o BuildOptions) node.Config {
	t.Helper()
	b, err := Build(context.Background(), mustLoad(t, "version: 1\n"+text+"\n"), o)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	return b.Node
}
