package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/towline-dev/towline/client"
)

// codesOfProblems says which refusal of the API has which exit code. What is not here is 1.
var codesOfProblems = map[exitCode][]string{
	exitUsage:    {"bad_request", "invalid_request", "plan_too_large", "payload_too_large", "unsupported_media_type"},
	exitNotFound: {"not_found", "compacted"},
	exitConflict: {
		"run_exists", "source_paused", "already_ended", "conflict", "not_claimable", "too_early", "lease_lost", "fenced",
		"precondition_failed", "key_reused", "read_only", "restored_hold",
	},
	exitUnreachable: {"store_unavailable", "disk_budget", "rate_limited"},
}

// refusedWith reports what the API has refused with a code of an exit code.
func refusedWith(code exitCode) func(error) bool {
	return func(err error) bool {
		var refused *client.Error
		return errors.As(err, &refused) && slices.Contains(codesOfProblems[code], refused.Code)
	}
}

// inWords is an error as it is told: what is wrong, and below it what to do.
func inWords(err error) string {
	text := err.Error()
	var refused *client.Error
	if !errors.As(err, &refused) {
		return text
	}
	if len(refused.Candidates) > 0 && !strings.Contains(text, refused.Candidates[0]) {
		text += "\n" + strings.Join(refused.Candidates, "\n")
	}
	if refused.Fix != "" && !strings.Contains(text, refused.Fix) {
		text += fmt.Sprintf("\nfix: %s", refused.Fix)
	}
	return text
}
