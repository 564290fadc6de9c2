package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/towline-dev/towline/wire"
)

// Ready says whether the node does its work, and what a person should know. A node that does not is no error: it is
// unavailable. Whoever the node does not know hears no texts.
func (c *Client) Ready(ctx context.Context) (out wire.Readiness, err error) {
	frame, err := c.frame(ctx, get("/readyz", nil))
	if err != nil {
		return out, err
	}
	defer frame.Body.Close()
	if frame.StatusCode != http.StatusOK && frame.StatusCode != http.StatusServiceUnavailable {
		return out, c.problemOf(frame)
	}
	if err := json.NewDecoder(frame.Body).Decode(&out); err != nil {
		return out, fmt.Errorf("the answer of %s to GET /readyz is not understood: %w", c.c.Address, err)
	}
	return out, nil
}
