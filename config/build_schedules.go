package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
)

// schedule is that of a sync, as the engine takes it; its name is that of the sync.
func (b *building) schedule(s Sync) (towline.Schedule, error) {
	of, all := s.Schedule, b.c.Schedules
	out := towline.Schedule{Sync: s.Name, Cron: of.Cron, TimeZone: of.TZ, Overlap: events.Overlap(cmp.Or(of.Overlap, all.Overlap)), AutoPause: all.AutoPauseAfter}
	if of.AutoPauseAfter != nil {
		out.AutoPause = *of.AutoPauseAfter
	}
	word, most, _ := strings.Cut(cmp.Or(of.CatchUp, all.CatchUp), "(")
	out.CatchUp = events.CatchUp(word)
	if out.CatchUp == towline.CatchUpAll {
		out.Max, _ = strconv.Atoi(strings.TrimSuffix(most, ")")) // the key has looked at it
	}
	if of.TZ != localZone {
		return out, nil
	}
	link, _ := filepath.EvalSymlinks("/etc/localtime") // empty: there is none
	var err error
	if out.TimeZone, err = zoneName(time.Local.String(), link); err != nil {
		return out, fmt.Errorf("schedule: tz: %w", err)
	}
	return out, nil
}

// localZone is the word of the file for the zone of this machine.
const localZone = "local"

// zoneName is what the zone of this machine is called: a schedule is kept under a name, for "local" is another zone elsewhere.
// zone is what Go calls it, link where /etc/localtime leads.
func zoneName(zone, link string) (string, error) {
	if zone != "Local" && zone != "" {
		return zone, nil
	}
	if _, name, ok := strings.Cut(filepath.ToSlash(link), "/zoneinfo/"); ok {
		if _, err := time.LoadLocation(name); err == nil {
			return name, nil
		}
	}
	return "", errors.New("this machine does not say which zone is its own: name it, as Europe/Berlin")
}
