//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// socket is where the API of a script's engine is, unless the script says otherwise.
const socket = "api.sock"

// request asks the engine of a script over its socket.
func request(ts *testscript.TestScript, method, path string, body []byte) (status int, answer []byte, err error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", ts.MkAbs(socket))
	}}
	r, err := http.NewRequest(method, "http://towline"+path, bytes.NewReader(body))
	ts.Check(err)
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	got, err := (&http.Client{Transport: transport, Timeout: patience}).Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer got.Body.Close()
	answer, err = io.ReadAll(got.Body)
	return got.StatusCode, answer, err
}

// ask STATUS METHOD PATH [FILE] sends a request, with the body in FILE, wants the status, and writes the answer to the file
// "answer".
func ask(ts *testscript.TestScript, _ bool, args []string) {
	var body []byte
	if len(args) > 3 {
		body = []byte(ts.ReadFile(args[3]))
	}
	status, answer, err := request(ts, args[1], args[2], body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("answer"), answer, 0o600))
	if fmt.Sprint(status) != args[0] {
		ts.Fatalf("%s %s answers %d, want %s: %s", args[1], args[2], status, args[0], answer)
	}
}

// until PATH PATTERN asks until the answer fits. Nothing tells from outside when a process has come so far.
func until(ts *testscript.TestScript, _ bool, args []string) {
	pattern, over := regexp.MustCompile(args[1]), time.After(patience)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		_, answer, err := request(ts, http.MethodGet, args[0], nil)
		if err == nil && pattern.Match(answer) {
			return
		}
		select {
		case <-again.C:
		case <-over:
			ts.Fatalf("GET %s does not say %q: %v %s", args[0], args[1], err, answer)
		}
	}
}

// worker NAME FILE starts clients/python on the socket, with the function of FILE. What it claims is on its standard error.
func pythonWorker(ts *testscript.TestScript, _ bool, args []string) {
	client, err := filepath.Abs(filepath.Join("..", "..", "clients", "python", "towline_worker.py"))
	ts.Check(err)
	python, err := exec.LookPath("python3")
	ts.Check(err)
	cmd := exec.Command(python, "-B", client, "--url", "unix:"+ts.MkAbs(socket), "--name", args[0], ts.MkAbs(args[1]))
	cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1")
	begin(ts, args[0], cmd)
}
