package rescind

import (
	"errors"
	"strings"
)

// ErrWarrantID is the error of Check for a text that is not a warrant identifier.
var ErrWarrantID = errors.New("a warrant identifier must be svc_wrt_ followed by 1 to 64 letters, digits, '_' or '-'")

const (
	idPrefix     = "svc_wrt_"
	idCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
)

// areWarrantIDs returns whether `ids` is not empty, and contains only warrant identifiers.
func areWarrantIDs(ids []string) bool {
	for _, id := range ids {
		if len(id) <= len(idPrefix) || len(id) > idMax {
			return false
		}
		if id[:len(idPrefix)] != idPrefix || strings.TrimLeft(id[len(idPrefix):], idCharacters) != "" {
			return false
		}
	}
	return len(ids) > 0
}

// Verdict is the decision about a chain of warrants. Only Clear permits a request.
type Verdict int

const (
	// Stale means that the state is too old, missing or expired, so the decision is unknown.
	Stale Verdict = iota
	// Revoked means that a warrant of the chain is known to be revoked.
	Revoked
	// Clear means that no warrant of the chain is revoked, as the service confirmed recently.
	Clear
)

func (v Verdict) String() string { return [...]string{"stale", "revoked", "clear"}[v] }
