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

// areWarrantIDs returns whether there is a text, and each is a warrant identifier.
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

// Verdict is the answer about a chain of warrants. Only Clear lets a request through.
type Verdict int

const (
	// Stale says that the client does not know: it has no recent answer, or the head has expired.
	Stale Verdict = iota
	// Revoked says that a warrant of the chain is known to be revoked.
	Revoked
	// Clear says that none is, as the service confirmed recently.
	Clear
)

func (v Verdict) String() string { return [...]string{"stale", "revoked", "clear"}[v] }
