package exec

import (
	"os"
	osexec "os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// process is a started program in a process group of its own.
//
//	running ──it ends, or stop──► ended ──its pipes are read──► reaped
//
// Between ended and reaped the number of the group cannot become that of another, so signals reach nobody else.
type process struct {
	cmd     *osexec.Cmd
	pid     int // and number of its group
	stdout  *pipe
	stderr  *pipe
	control *pipe // nil: there are no more descriptors here

	stopping sync.Once
	over     atomic.Int64  // when its grace is over, in nanoseconds since 1970; zero: nobody has stopped it
	signals  sync.Mutex    // held while it is signalled
	gone     bool          // its number may be another's; under signals
	ended    chan struct{} // closed: it has ended
	read     chan struct{} // closed: its pipes need no more
	reaped   chan struct{} // closed: it is gone, with its group
}

// holdTime is how long a pipe is waited for that somebody holds open when the program has ended.
const holdTime = 5 * time.Second

// start starts cmd. heard is called whenever it has written something.
func start(cmd *osexec.Cmd, stdin *os.File, heard func()) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{}), read: make(chan struct{}), reaped: make(chan struct{})}
	cmd.Stdin = stdin
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close() // it is the program's now, or nobody's
		}
	}()
	open := func(to **pipe) (*os.File, error) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		*to = &pipe{f: r, heard: heard}
		theirs = append(theirs, w)
		return w, nil
	}
	err := p.connect(open)
	if err == nil {
		err = p.launch()
	}
	if err != nil {
		p.closePipes()
		return nil, err
	}
	return p, nil
}

func (p *process) connect(open func(**pipe) (*os.File, error)) error {
	stdout, err := open(&p.stdout)
	if err != nil {
		return err
	}
	stderr, err := open(&p.stderr)
	if err != nil {
		return err
	}
	p.cmd.Stdout, p.cmd.Stderr = stdout, stderr
	if moreDescriptors {
		control, err := open(&p.control)
		if err != nil {
			return err
		}
		p.cmd.ExtraFiles = []*os.File{control} // the first of them is descriptor 3
	}
	return nil
}

// launch starts the program on a thread that lasts as long as the program does: the signal that ends it with the engine is
// sent by the kernel when the thread ends that has started it.
func (p *process) launch() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		ownGroup(p.cmd)
		err := p.cmd.Start()
		if err == nil {
			p.pid = p.cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		awaitEnd(p.cmd)
		close(p.ended)
		hold := holdTime
		if over := p.over.Load(); over != 0 {
			hold = min(hold, time.Until(time.Unix(0, over)))
		}
		for _, r := range p.pipes() {
			r.ownerGone(hold)
		}
		<-p.read
		p.signals.Lock()
		killGroup(p.cmd)
		p.gone = true
		p.signals.Unlock()
		_ = p.cmd.Wait() // how it has ended is in its state
		close(p.reaped)
	}()
	return <-started
}

func (p *process) pipes() []*pipe {
	var all []*pipe
	for _, r := range []*pipe{p.stdout, p.stderr, p.control} {
		if r != nil {
			all = append(all, r)
		}
	}
	return all
}

// stop asks the group to end, and makes it end behind the grace. What holds its pipes then is not waited for. It returns at
// once, and may be called at any time.
func (p *process) stop(grace time.Duration) {
	p.stopping.Do(func() {
		p.over.Store(time.Now().Add(grace).UnixNano())
		p.signal(terminateGroup)
		kill := time.AfterFunc(grace, func() {
			p.signal(killGroup)
			for _, r := range p.pipes() {
				r.ownerGone(0)
			}
		})
		go func() {
			<-p.reaped
			kill.Stop()
		}()
	})
}

// signal does so only while the number of the group is ours.
func (p *process) signal(send func(*osexec.Cmd)) {
	p.signals.Lock()
	defer p.signals.Unlock()
	if !p.gone {
		send(p.cmd)
	}
}

// stopped reports that we have asked it to end.
func (p *process) stopped() bool { return p.over.Load() != 0 }

// wait ends what is left of the group and returns how the program has ended. Nobody reads its pipes any more.
func (p *process) wait() *os.ProcessState {
	<-p.ended
	close(p.read)
	<-p.reaped
	p.closePipes()
	return p.cmd.ProcessState
}

func (p *process) closePipes() {
	for _, r := range p.pipes() {
		_ = r.f.Close()
	}
}
