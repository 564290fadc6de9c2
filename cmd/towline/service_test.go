package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/handlers"
)

var serviceFile = filepath.Join("..", "..", "packaging", "systemd", "towline.service")

// N-7: what the unit file of systemd promises of the engine, the engine does.
func TestTheServiceFitsTheEngine(t *testing.T) {
	text, err := os.ReadFile(serviceFile)
	require.NoError(t, err)
	value := func(key string) string {
		found := regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllStringSubmatch(string(text), -1)
		require.Len(t, found, 1, key)
		return found[0][1]
	}
	span := func(key string) time.Duration {
		d, err := time.ParseDuration(value(key))
		require.NoError(t, err, key)
		return d
	}
	require.Equal(t, "notify", value("Type"))
	require.Equal(t, "mixed", value("KillMode"))
	const settle = 20 * time.Second // what a stop takes behind the grace and the last word to a provider
	require.Greater(t, span("TimeoutStopSec"), config.Default().Knobs.ShutdownGrace+handlers.ObeyTimeout+settle)
	require.GreaterOrEqual(t, span("WatchdogSec"), 30*time.Second, "a writer may wait 5 s for the lock of another program")
	require.Equal(t, "towline", value("StateDirectory"), "$STATE_DIRECTORY, where the store lies")
	require.Equal(t, "towline", value("RuntimeDirectory"), "$RUNTIME_DIRECTORY, where the socket lies")
	for _, code := range []exitCode{exitUsage, exitFormat} {
		require.Contains(t, strings.Fields(value("RestartPreventExitStatus")), fmt.Sprint(int(code)), "another start would say the same")
	}
	p := &program{}
	cmd, rest, err := p.root().Find(strings.Fields(value("ExecStart"))[1:])
	require.NoError(t, err)
	require.Equal(t, "towline up", cmd.CommandPath())
	require.NoError(t, cmd.ParseFlags(rest))
}

// systemd itself reads the unit file, and finds nothing wrong in it and nothing open that need not be.
func TestSystemdReadsTheService(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed: nobody here can check the unit file as systemd does")
	}
	text, err := os.ReadFile(serviceFile)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	// The program need not be installed where the test runs; any that is there will do.
	there := strings.Replace(string(text), "ExecStart=/usr/bin/towline", "ExecStart="+self, 1)
	require.NotEqual(t, string(text), there)
	dir := t.TempDir()
	service := filepath.Join(dir, "towline.service")
	require.NoError(t, os.WriteFile(service, []byte(there), 0o644))
	dropIn, err := os.ReadFile(filepath.Join(filepath.Dir(serviceFile), "towline.service.d", "home.conf"))
	require.NoError(t, err)
	for _, with := range []string{"", string(dropIn)} {
		if with != "" {
			require.NoError(t, os.Mkdir(service+".d", 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(service+".d", "home.conf"), []byte(with), 0o644))
		}
		out, err := exec.Command(analyze, "verify", "--man=no", service).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.NotContains(t, string(out), "towline.service", "a warning")
	}
	require.NoError(t, os.RemoveAll(service+".d"))
	// 1.4 of 10 with systemd 252: what is left is the network, which providers need.
	out, err := exec.Command(analyze, "security", "--no-pager", "--offline=true", "--threshold=20", service).CombinedOutput()
	if strings.Contains(string(out), "unrecognized option") {
		t.Skip("this systemd-analyze cannot weigh a file: it came with systemd 250")
	}
	require.NoError(t, err, "%s", out)
}
