package main

import (
	"fmt"
	"strings"

	"github.com/towline-dev/towline/config"
)

// chosen are the values of keys and sections; without any, all.
func chosen(c *config.Config, keys []string) ([]configValue, error) {
	found := map[string]bool{}
	var rows []configValue
	for _, v := range c.Values() {
		wanted := len(keys) == 0
		for _, k := range keys {
			if v.Key == k || strings.HasPrefix(v.Key, strings.TrimSuffix(k, ".")+".") {
				wanted, found[k] = true, true
			}
		}
		if wanted {
			rows = append(rows, configValue{Key: v.Key, Value: v.Text, Origin: v.Origin.String(), From: v.Origin.Kind.String(), Live: v.Live})
		}
	}
	for _, k := range keys {
		if !found[k] {
			return nil, &exitError{exitNotFound, fmt.Errorf("%q is no key or section in force: see towline config print", k)}
		}
	}
	return rows, nil
}
