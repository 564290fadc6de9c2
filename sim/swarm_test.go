package sim_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sim/script"
)

// G-1 to G-5, SC-353, I-1 to I-30: whatever happens to a world (calls of every port that fail in every way, deaths, zombies,
// clean stops, steps of the clock, a broker that loses everything, operators who act at any moment), no invariant breaks; and
// when the faults stop, every run ends. A schedule that fails shrinks, and is printed as a scenario file.
//
// The first schedules are the same in every run, so what they reach counts for the gate; the others are new each time.
func TestSwarm(t *testing.T) {
	const same = 60
	g := rapid.Custom(drawSchedule)
	enumerate(t, "swarm seeds", same, sample, func(v *verdict, i int) {
		played, err := playAll(v.dir, g.Example(i), true)
		v.ended(err, "schedule %d\n%s", i, file(played))
	})
	worlds := 0
	rapid.Check(t, func(rt *rapid.T) {
		worlds++
		if played, err := playAll(t.TempDir(), drawSchedule(rt), false); err != nil {
			rt.Fatalf("%v\n\nSave this as testfixtures/scenarios/swarm/NAME.txt, with what it protects in its first line:\n\n%s", err, file(played))
		}
	})
	t.Logf("swarm seeds that are new: %d", worlds)
}

// drawSchedule is a world, what happens to it, and the calm behind.
func drawSchedule(t *rapid.T) []script.Command {
	w := drawWorld(t)
	commands := append(w, script.Steps{N: rapid.IntRange(0, 40).Draw(t, "first")})
	for _, some := range rapid.SliceOfN(schedule(w[0].(script.World)), 0, 25).Draw(t, "schedule") {
		commands = append(commands, some...)
	}
	return append(commands, script.Calm{}, script.Run{})
}

// playAll plays commands, without those that make no sense where they stand, and says which were played. What they reach
// counts, or not.
func playAll(dir string, commands []script.Command, counts bool) (played []script.Command, err error) {
	ctx := context.Background()
	p := script.New(dir)
	if counts {
		p.Listen = reachEntry
	}
	defer func() {
		if closed := p.Close(); err == nil {
			err = closed
		}
	}()
	for i, c := range commands {
		_, err := p.Play(ctx, c)
		last := i == len(commands)-1
		if err != nil && (last || p.World() != nil && len(p.World().Broken()) > 0) {
			return append(played, c), err
		}
		if err == nil {
			played = append(played, c)
		}
	}
	if !counts {
		return played, nil
	}
	log, err := p.World().Log(ctx)
	reachLog(log)
	reachStates(log)
	return played, err
}

// file is a schedule as a scenario file.
func file(commands []script.Command) string {
	var b strings.Builder
	b.WriteString("# G-1: found by the swarm.\n\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "%s\n", c)
		if _, whole := c.(script.Run); whole {
			b.WriteString("----\n")
		}
	}
	return b.String()
}

// drawWorld is what there is before anything happens: one to three nodes, two syncs of which one has more than the caps let
// in, and an application.
func drawWorld(t *rapid.T) []script.Command {
	mode := rapid.SampledFrom([]events.DeliveryMode{events.AtMostOnce, events.ExactlyOnce})
	w := script.World{
		Nodes: rapid.IntRange(1, 3).Draw(t, "nodes"), Broker: rapid.Bool().Draw(t, "broker"), Workers: rapid.IntRange(1, 3).Draw(t, "workers"),
		Seed: rapid.Uint64Range(1, 1<<20).Draw(t, "seed"), Order: "seed",
		Settings: []script.Setting{
			{Key: "cap.bucket", Value: fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "cap"))},
			{Key: "relay.max_attempts", Value: fmt.Sprint(rapid.SampledFrom([]int{20, 3}).Draw(t, "attempts"))},
			{Key: "relay.batch", Value: fmt.Sprint(rapid.SampledFrom([]int{50, 1, 3}).Draw(t, "batch"))},
		},
	}
	return []script.Command{
		w,
		script.Sync{Name: "weather", Sources: []string{"harbour", "ridge"}, PostSync: []string{"mart", "search"}, Mode: mode.Draw(t, "mode")},
		script.Dataset{Sync: "weather", Name: "places", Tier: events.TierReference, Cost: events.CostLight, Snapshot: true},
		script.Dataset{
			Sync: "weather", Name: "readings", Window: events.Day, Retries: rapid.IntRange(1, 2).Draw(t, "retries"),
			Backoff: 30 * time.Second, RetryOn: []events.Category{events.Network},
		},
		script.Sync{Name: "traffic", Sources: []string{"pier"}, PostSync: []string{"mart"}, Mode: mode.Draw(t, "mode")},
		script.Dataset{Sync: "traffic", Name: "counts"},
		script.Consume{Topic: "orders"},
		script.Request{Sync: "weather", Key: "w1", Mode: events.Backfill, Since: "-3d", Before: "-1d"},
		script.Request{Sync: "traffic", Key: "t1"},
		script.Submit{Topic: "orders", Key: "a", Payload: "{}"},
	}
}

// schedule draws what happens next. Mostly somebody starts what has died before it goes on.
func schedule(w script.World) *rapid.Generator[[]script.Command] {
	return rapid.Custom(func(t *rapid.T) []script.Command {
		c := happening(w).Draw(t, "command")
		if _, goesOn := c.(script.Steps); goesOn && rapid.IntRange(0, 3).Draw(t, "down") < 3 {
			return []script.Command{script.Boot{}, c}
		}
		return []script.Command{c}
	})
}

// happening draws one thing.
func happening(w script.World) *rapid.Generator[script.Command] {
	return rapid.Custom(func(t *rapid.T) script.Command {
		node := rapid.IntRange(1, w.Nodes)
		span := rapid.SampledFrom([]time.Duration{
			time.Second, 2 * time.Second, 10 * time.Second, 10 * time.Second, 45 * time.Second, 45 * time.Second, 70 * time.Second,
			6 * time.Minute, 20 * time.Minute, 2 * time.Hour,
		})
		run := rapid.SampledFrom([]string{"weather", "traffic", "weather#2"})
		unit := rapid.IntRange(1, 6)
		kind := rapid.SampledFrom([]events.Kind{events.KindDispatch, events.KindUnit, events.KindFinalize, events.KindPostSync})
		switch rapid.SampledFrom([]string{
			"steps", "steps", "steps", "steps", "steps", "steps", "fault", "fault", "fault", "kill", "kill", "boot", "advance", "advance", "hold", "hold node",
			"stop", "clock", "purge", "pass", "provider", "effect", "consume", "request", "submit",
			"cancel run", "cancel unit", "release", "retry", "pause", "resume", "park", "redrive", "resolve", "worker",
		}).Draw(t, "what") {
		case "fault":
			f := script.Fault{Port: rapid.SampledFrom([]sim.Port{
				sim.PortPublish, sim.PortPublish, sim.PortCommit, sim.PortCommit, sim.PortProvider, sim.PortSink, sim.PortEffect, sim.PortApplication,
			}).Draw(t, "port")}
			f.How = rapid.SampledFrom(sim.FaultKinds(f.Port)).Draw(t, "how")
			f.Times = rapid.SampledFrom([]int{0, 0, 0, 2, 4, 25}).Draw(t, "times")
			f.Skip = rapid.IntRange(0, 3).Draw(t, "skip")
			if f.How == sim.Delay {
				f.By = span.Draw(t, "by")
			}
			return f
		case "kill":
			return script.Kill{Node: node.Draw(t, "node")}
		case "boot":
			return script.Boot{}
		case "advance":
			return script.Advance{For: span.Draw(t, "for")}
		case "hold":
			task := rapid.SampledFrom([]string{"1/", "1/relay", "2/", "2/relay", "1/weather", "1/heartbeat"})
			return script.Hold{Task: task.Draw(t, "task"), For: span.Draw(t, "for")}
		case "hold node":
			return script.Hold{Node: node.Draw(t, "node"), For: span.Draw(t, "for")}
		case "stop":
			return script.Stop{Node: node.Draw(t, "node")}
		case "clock":
			return script.Clock{By: rapid.SampledFrom([]string{"+10s", "-10s", "+10m", "-10m", "+1h", "-1h", "+14d", "-14d"}).Draw(t, "by")}
		case "purge":
			return script.Purge{}
		case "pass":
			return script.Pass{}
		case "provider":
			p := rapid.SampledFrom([]script.Provider{
				{Does: "fails", What: "network"}, {Does: "fails", What: "auth"}, {Does: "rate_limited", What: "30s"}, {Does: "rate_limited"},
				{Does: "takes", What: "50s"}, {Does: "hangs"}, {Does: "deaf"}, {Does: "panics"}, {Does: "stops"}, {Does: "strays"}, {Does: "works"},
			}).Draw(t, "provider")
			p.Sync, p.Attempt = "weather", rapid.IntRange(0, 2).Draw(t, "attempt")
			return p
		case "effect":
			return script.Effect{Sync: "weather", Target: "mart", Does: "fails", Times: rapid.IntRange(1, 3).Draw(t, "times")}
		case "consume":
			return script.Consume{Topic: "orders", Does: rapid.SampledFrom([]string{"fails", "rejects"}).Draw(t, "does"), Times: rapid.IntRange(1, 8).Draw(t, "times")}
		case "request":
			return script.Request{Sync: "weather", Key: rapid.SampledFrom([]string{"w1", "w2"}).Draw(t, "key"), Mode: events.Backfill, Since: "-3d", Before: "-1d"}
		case "submit":
			return script.Submit{Topic: rapid.SampledFrom([]string{"orders", "letters"}).Draw(t, "topic"), Key: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), Payload: "{}"}
		case "cancel run":
			return script.CancelRun{Run: run.Draw(t, "run")}
		case "cancel unit":
			return script.CancelUnit{Run: run.Draw(t, "run"), Unit: unit.Draw(t, "unit")}
		case "release":
			return script.Release{Run: run.Draw(t, "run"), Unit: unit.Draw(t, "unit")}
		case "retry":
			return script.Retry{Run: run.Draw(t, "run"), Cancelled: rapid.Bool().Draw(t, "cancelled")}
		case "pause":
			return script.Pause{Source: rapid.SampledFrom([]string{"", "ridge"}).Draw(t, "source")}
		case "resume":
			return script.Resume{Source: rapid.SampledFrom([]string{"", "ridge"}).Draw(t, "source")}
		case "park":
			return script.Park{Owner: run.Draw(t, "run"), Kind: string(kind.Draw(t, "kind"))}
		case "redrive":
			return script.Redrive{Owner: run.Draw(t, "run"), Kind: string(kind.Draw(t, "kind"))}
		case "resolve":
			as := rapid.SampledFrom([]events.Resolution{events.ResolvedLost, events.ResolvedDelivered})
			return script.Resolve{Run: run.Draw(t, "run"), Target: "mart", As: as.Draw(t, "as")}
		case "worker":
			does := rapid.SampledFrom([]string{"claims", "renews", "succeeds", "fails", "releases"}).Draw(t, "does")
			worker := script.Worker{Name: "w", Does: does}
			if does == "claims" {
				worker.Run, worker.Unit = run.Draw(t, "run"), unit.Draw(t, "unit")
			}
			return worker
		}
		return script.Steps{N: rapid.IntRange(1, 60).Draw(t, "n")}
	})
}
