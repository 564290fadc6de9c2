package script

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// Draw makes a schedule: a world of one to three nodes with two syncs and an application, then so many things that happen to
// it, then calm, in which everything must end, and a check of all invariants. The same seed and number give the same commands on every machine, for as long as
// this function stays what it is. A thing may make no sense where it stands, as the end of a node that does not live: Play says
// so, and whoever plays goes on without it.
func Draw(seed uint64, ops int) []Command {
	d := drawing{rand.New(rand.NewPCG(seed, 0))}
	world := d.world(seed)
	out := append(world, Steps{N: 1 + d.IntN(40)})
	for range ops {
		c := d.happening(world[0].(World).Nodes)
		if _, goesOn := c.(Steps); goesOn && d.IntN(4) < 3 { // mostly somebody starts what has died
			out = append(out, Boot{})
		}
		out = append(out, c)
	}
	return append(out, Calm{}, Run{}, Check{})
}

type drawing struct{ *rand.Rand }

func oneOf[T any](d drawing, of ...T) T { return of[d.IntN(len(of))] }

func (d drawing) world(seed uint64) []Command {
	mode := func() events.DeliveryMode { return oneOf(d, events.AtMostOnce, events.ExactlyOnce) }
	return []Command{
		World{
			Nodes: 1 + d.IntN(3), Broker: d.IntN(2) == 0, Workers: 1 + d.IntN(3), Seed: max(seed, 1), Order: "seed",
			Settings: []Setting{
				{Key: "cap.bucket", Value: fmt.Sprint(1 + d.IntN(3))},
				{Key: "relay.max_attempts", Value: oneOf(d, "20", "3")},
				{Key: "relay.batch", Value: oneOf(d, "50", "1", "3")},
			},
		},
		Sync{Name: "weather", Sources: []string{"harbour", "ridge"}, PostSync: []string{"mart", "search"}, Mode: mode()},
		Dataset{Sync: "weather", Name: "places", Tier: events.TierReference, Cost: events.CostLight, Snapshot: true},
		Dataset{
			Sync: "weather", Name: "readings", Window: events.Day, Retries: 1 + d.IntN(2), Backoff: 30 * time.Second,
			RetryOn: []events.Category{events.Network},
		},
		Sync{Name: "traffic", Sources: []string{"pier"}, PostSync: []string{"mart"}, Mode: mode()},
		Dataset{Sync: "traffic", Name: "counts"},
		Consume{Topic: "orders"},
		Request{Sync: "weather", Key: "w1", Mode: events.Backfill, Since: "-3d", Before: "-1d"},
		Request{Sync: "traffic", Key: "t1"},
		Submit{Topic: "orders", Key: "a", Payload: "{}"},
	}
}

// happening is one thing: mostly some steps, often something that breaks, sometimes somebody who acts.
func (d drawing) happening(nodes int) Command {
	const steps, breaks = 35, 45
	switch kind := d.IntN(100); {
	case kind < steps:
		return Steps{N: 1 + d.IntN(60)}
	case kind < steps+breaks:
		return d.breaking(nodes)
	}
	return d.acting()
}

func (d drawing) span() time.Duration {
	return oneOf(d, time.Second, 2*time.Second, 10*time.Second, 45*time.Second, 70*time.Second, 6*time.Minute, 20*time.Minute, 2*time.Hour)
}

func (d drawing) breaking(nodes int) Command {
	node := func() int { return 1 + d.IntN(nodes) }
	switch d.IntN(14) {
	case 0, 1, 2:
		return d.fault()
	case 3, 4:
		return Kill{Node: node()}
	case 5, 6:
		return Advance{For: d.span()}
	case 7:
		return Boot{}
	case 8:
		return Hold{Task: oneOf(d, "1/", "1/relay", "2/", "2/relay", "1/weather", "1/heartbeat"), For: d.span()}
	case 9:
		return Hold{Node: node(), For: d.span()}
	case 10:
		return Stop{Node: node()}
	case 11:
		return Clock{By: oneOf(d, "+10s", "-10s", "+10m", "-10m", "+1h", "-1h", "+14d", "-14d")}
	case 12:
		return oneOf[Command](d, Purge{}, Pass{}, Rebuild{}, Archive{For: time.Second})
	}
	return d.foreign()
}

func (d drawing) fault() Command {
	f := Fault{Port: oneOf(d, sim.PortPublish, sim.PortCommit, sim.PortProvider, sim.PortSink, sim.PortEffect, sim.PortApplication)}
	f.How = oneOf(d, sim.FaultKinds(f.Port)...)
	f.Times, f.Skip = oneOf(d, 0, 0, 0, 2, 4, 25), d.IntN(4)
	if f.How == sim.Delay {
		f.By = d.span()
	}
	return f
}

// foreign is code of somebody else that goes wrong.
func (d drawing) foreign() Command {
	switch d.IntN(4) {
	case 0:
		return Effect{Sync: "weather", Target: "mart", Does: "fails", Times: 1 + d.IntN(3)}
	case 1:
		return Consume{Topic: "orders", Does: oneOf(d, "fails", "rejects"), Times: 1 + d.IntN(8)}
	}
	p := oneOf(d,
		Provider{Does: "fails", What: "network"}, Provider{Does: "fails", What: "auth"}, Provider{Does: "rate_limited", What: "30s"},
		Provider{Does: "rate_limited"}, Provider{Does: "takes", What: "50s"}, Provider{Does: "hangs"}, Provider{Does: "deaf"},
		Provider{Does: "panics"}, Provider{Does: "stops"}, Provider{Does: "strays"}, Provider{Does: "works"})
	p.Sync, p.Attempt = "weather", d.IntN(3)
	return p
}

// acting is a client or an operator.
func (d drawing) acting() Command {
	run, unit, source := oneOf(d, "weather", "traffic", "weather#2"), 1+d.IntN(6), oneOf(d, "", "ridge")
	kind := string(oneOf(d, events.KindDispatch, events.KindUnit, events.KindFinalize, events.KindPostSync))
	switch d.IntN(13) {
	case 0:
		return Request{Sync: "weather", Key: oneOf(d, "w1", "w2"), Mode: events.Backfill, Since: "-3d", Before: "-1d"}
	case 1:
		return Submit{Topic: oneOf(d, "orders", "letters"), Key: oneOf(d, "a", "b"), Payload: "{}"}
	case 2:
		return CancelRun{Run: run}
	case 3:
		return CancelUnit{Run: run, Unit: unit}
	case 4:
		return Release{Run: run, Unit: unit}
	case 5:
		return Retry{Run: run, Cancelled: d.IntN(2) == 0}
	case 6:
		return Pause{Source: source}
	case 7:
		return Resume{Source: source}
	case 8:
		return Park{Owner: run, Kind: kind}
	case 9:
		return Redrive{Owner: run, Kind: kind}
	case 10:
		return Resolve{Run: run, Target: "mart", As: oneOf(d, events.ResolvedLost, events.ResolvedDelivered)}
	}
	w := Worker{Name: "w", Does: oneOf(d, "claims", "renews", "succeeds", "fails", "releases")}
	if w.Does == "claims" {
		w.Run, w.Unit = run, unit
	}
	return w
}
