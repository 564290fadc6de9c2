package sqlbus

import (
	"context"
	"log/slog"
	"sync"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/transport"
)

// Options of a bus. The zero value is ready to use. All processes of a bus should have the same.
type Options struct {
	Name          string        // recorded with every mark; empty: sqlbus
	MaxPayload    int           // bytes of one payload, a larger one is refused for ever; zero: 1 MiB
	MaxBytes      int64         // of the messages in the file, then publishes are refused until some are settled; zero: 256 MiB, negative: no bound
	Lease         time.Duration // of a message at a consumer, renewed every third of it while its process lives; zero: 30 s
	RetryDelay    time.Duration // before a refused message comes again, doubling to MaxRetryDelay; zero: 1 s
	MaxRetryDelay time.Duration // zero: 1 min
	MaxDeliveries int           // of one message to one group, then it is parked; zero: 20, negative: no bound
	KeepParked    time.Duration // then a parked message is deleted; zero: 7 days
	CloseTimeout  time.Duration // for which a subscription that ends waits for its handlers; zero: 20 s
	Poll          time.Duration // between two looks for what other processes have published; zero: 50 ms
	Logger        *slog.Logger  // nil: slog.Default()
}

func (o Options) withDefaults() Options {
	o.Name = orDefault(o.Name, "sqlbus")
	o.MaxPayload = orDefault(o.MaxPayload, 1<<20)
	o.MaxBytes = orDefault(o.MaxBytes, 256<<20)
	o.Lease = orDefault(o.Lease, 30*time.Second)
	o.RetryDelay = orDefault(o.RetryDelay, time.Second)
	o.MaxRetryDelay = orDefault(o.MaxRetryDelay, time.Minute)
	o.MaxDeliveries = orDefault(o.MaxDeliveries, 20)
	o.KeepParked = orDefault(o.KeepParked, 7*24*time.Hour)
	o.CloseTimeout = orDefault(o.CloseTimeout, 20*time.Second)
	o.Poll = orDefault(o.Poll, 50*time.Millisecond)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Bus is one file as one process uses it. It is a transport.Publisher; Publisher and Subscriber are Watermill's.
type Bus struct {
	path string
	o    Options
	w    *writer
	pub  *wsql.Publisher
	bell *bell

	mu     sync.Mutex
	ending bool
	closed chan struct{}
	subs   sync.WaitGroup // subscriptions, and the watch
	watch  sync.Once
	reader *session // of the looks; nil: not open
}

// New makes a bus that opens its file when it is first used. It starts no goroutine.
func New(path string, o Options) *Bus {
	b := &Bus{path: path, o: o.withDefaults(), bell: newBell(), closed: make(chan struct{})}
	b.w = newWriter(path, b.bell)
	b.pub = newPublisher(b)
	return b
}

// Open is New for those who want to know at once whether the file can be used. Errors: that it belongs to another program
// or a newer release; those of the file system.
func Open(ctx context.Context, path string, o Options) (*Bus, error) {
	b := New(path, o)
	if err := b.w.run(ctx, func(*session) error { return nil }); err != nil {
		_ = b.Close() // nothing is open
		return nil, err
	}
	return b, nil
}

// Name is recorded with every mark.
func (b *Bus) Name() string { return b.o.Name }

// Path is that of the file.
func (b *Bus) Path() string { return b.path }

// Send commits one message. The outcome is unknown only when the commit itself failed, or the deadline came while it ran.
func (b *Bus) Send(ctx context.Context, topic string, m *message.Message) transport.Receipt {
	if ctx.Err() != nil {
		return transport.NotBegun(context.Cause(ctx))
	}
	return receipt(b.publish(ctx, topic, m))
}

// Close ends the subscriptions as Subscriber.Close does, and then the use of the file.
func (b *Bus) Close() error {
	b.mu.Lock()
	if !b.ending {
		b.ending = true
		close(b.closed)
	}
	b.mu.Unlock()
	b.subs.Wait()
	err := b.w.close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reader != nil {
		_ = b.reader.close() // it has only read
		b.reader = nil
	}
	return err
}

// began is false when nothing may begin any more; else ended must be called.
func (b *Bus) began() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ending {
		b.subs.Add(1)
	}
	return !b.ending
}

// read runs fn on the connection of the looks, which can write nothing.
func (b *Bus) read(fn func(*session) error) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w.gone.Load() {
		return ErrMoved
	}
	if b.reader == nil {
		if b.reader, err = connect(b.path, "rw"); err == nil {
			err = b.reader.plain("PRAGMA query_only = 1")
		}
	}
	if err == nil {
		err = fn(b.reader)
	}
	if err != nil && b.reader != nil {
		_ = b.reader.close() // it has only read
		b.reader = nil
	}
	return err
}

// watchOthers rings for what other processes have committed. SQLite says in a number that somebody has.
func (b *Bus) watchOthers() {
	b.watch.Do(func() {
		if !b.began() {
			return
		}
		go func() {
			defer b.subs.Done()
			tick := time.NewTicker(b.o.Poll)
			defer tick.Stop()
			var last int64
			for {
				select {
				case <-tick.C:
				case <-b.closed:
					return
				}
				version := last
				err := b.read(func(s *session) error { return s.row([]any{&version}, "PRAGMA data_version") })
				if err != nil || version != last {
					b.bell.ring() // after an error the subscriptions look for themselves, and say what is wrong
				}
				last = version
			}
		}()
	})
}
