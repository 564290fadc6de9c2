package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// process is a child, seen from the parent.
type process struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	started time.Time
	words   <-chan word   // closed when the child is dead
	gone    chan struct{} // closed when it was waited for; then waitErr counts
	waitErr error

	sent     []word // messages that it gave to the bus
	absorbed int64
	failure  string // its last word
}

// start starts this very program again.
func start(o order) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("write the order of the child: %w", err)
	}
	log, err := os.OpenFile(childLogPath(o.Dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	listen, speak, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer speak.Close()
	p := &process{cmd: exec.Command(self), gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	p.cmd.Stderr = log
	p.cmd.ExtraFiles = []*os.File{speak}
	groupOfItsOwn(p.cmd)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, listen.Close())
	}
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the child: %w", err), listen.Close())
	}
	words := make(chan word, 64)
	p.words = words
	go hear(listen, words)
	go func() {
		p.waitErr = p.cmd.Wait()
		close(p.gone)
	}()
	return p, nil
}

// childLogPath is where the children complain.
func childLogPath(dir string) string { return filepath.Join(dir, "engine.log") }

// hear passes on the words of a child until its end of the pipe is closed, by itself or by its death.
func hear(pipe *os.File, words chan<- word) {
	defer close(words)
	defer pipe.Close()
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		var w word
		if err := json.Unmarshal(lines.Bytes(), &w); err == nil {
			words <- w
		}
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// note keeps what a word says, and reports that it is the one for which everybody waits.
func (p *process) note(w word) (atWindow bool) {
	switch w.Word {
	case wordSent:
		p.sent = append(p.sent, w)
	case wordAbsorbed:
		p.absorbed = w.Count
	case wordFailed:
		p.failure = w.Error
	}
	return w.Word == wordWindow
}

// kill ends the child with SIGKILL and proves that this is what it died of.
func (p *process) kill() error {
	if err := kill(p.cmd.Process); err != nil {
		return fmt.Errorf("kill process %d: %w", p.pid(), err)
	}
	for range p.words { // what it said last is still in the pipe, and nobody may be left writing to a full channel
	}
	<-p.gone
	if !killed(p.cmd.ProcessState) {
		return fmt.Errorf("process %d was not killed by SIGKILL: %s", p.pid(), p.cmd.ProcessState)
	}
	return nil
}

// stop asks for a clean end and waits for it.
func (p *process) stop(ctx context.Context) error {
	_ = p.stdin.Close() // the signal to stop; it cannot fail in a way that matters
	for {
		select {
		case w, ok := <-p.words:
			if ok {
				p.note(w)
				continue
			}
			<-p.gone
			if p.waitErr != nil {
				return p.death()
			}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// death says why a child is dead that nobody has killed.
func (p *process) death() error {
	for w := range p.words {
		p.note(w)
	}
	<-p.gone
	if p.failure != "" {
		return fmt.Errorf("the child, process %d, ended by itself: %s", p.pid(), p.failure)
	}
	return fmt.Errorf("the child, process %d, ended by itself: %s", p.pid(), p.cmd.ProcessState)
}

// end makes sure that no child is left, whatever happened.
func (p *process) end() {
	if p == nil {
		return
	}
	_ = kill(p.cmd.Process) // it may be dead already
	for range p.words {
	}
	<-p.gone
}

// lastLine is the newest complaint of the children, for an error text; empty: there is none.
func lastLine(dir string) string {
	b, err := os.ReadFile(childLogPath(dir))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}
