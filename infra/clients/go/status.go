package rescind

import (
	"encoding/hex"
	"time"
)

// Status is the current state of a client. Before the first state, all members up to Signer are
// zero.
type Status struct {
	Sequence    uint64         `json:"sequence"`
	Chain       string         `json:"chain"`
	BaseVersion uint64         `json:"base_version"`
	Revoked     int            `json:"revoked"`
	IssuedAt    time.Time      `json:"issued_at"`
	ExpiresAt   time.Time      `json:"expires_at"`
	ConfirmedAt time.Time      `json:"confirmed_at"`
	Signer      string         `json:"signer"`
	Keys        string         `json:"keys"`
	Trust       uint64         `json:"trust"`
	Stale       bool           `json:"stale"`
	Failures    int            `json:"failures"`
	Refusals    map[Reason]int `json:"refusals"`
	Problem     string         `json:"problem"`
}

// Status returns the current state of the client, and its failures since it was created. Keys is
// the hash of the signing keys that the head names.
func (c *Client) Status() Status {
	now := c.follower.view.Load()
	c.lock.Lock()
	status := c.status
	status.Refusals = map[Reason]int{}
	for reason, count := range c.status.Refusals {
		status.Refusals[reason] = count
	}
	c.lock.Unlock()
	status.Trust = c.follower.trust.Load().version()
	status.Stale = !now.isFresh(time.Now())
	if now.state == nil {
		return status
	}
	of := now.state.head
	status.Sequence, status.Chain = of.at.sequence, hex.EncodeToString(of.at.chain[:])
	status.BaseVersion, status.Revoked = of.base.version, now.revoked.size()
	status.IssuedAt, status.ExpiresAt, status.ConfirmedAt = of.issuedAt, of.expiresAt, now.confirmed
	status.Signer = now.state.signedBy.String()
	if of.keys != nil {
		status.Keys = hex.EncodeToString(of.keys.sha256[:])
	}
	return status
}
