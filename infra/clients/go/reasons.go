package rescind

import "errors"

// Reason is why a response of the service was rejected (docs/spec/feed.md). The values are stable,
// because programs compare them.
type Reason string

// The reasons, in the order of the checks.
const (
	TooLarge     Reason = "too_large"
	Malformed    Reason = "malformed"
	Signature    Reason = "signature"
	Tenant       Reason = "tenant"
	Lifetime     Reason = "lifetime"
	Future       Reason = "future"
	Expired      Reason = "expired"
	Rollback     Reason = "rollback"
	Equivocation Reason = "equivocation"
	Replay       Reason = "replay"
	Chain        Reason = "chain"
	Break        Reason = "break"
	Gap          Reason = "gap"
	FastForward  Reason = "fast_forward"
	Hash         Reason = "hash"
	OtherVersion Reason = "version"
	Root         Reason = "root"
	TrustExpired Reason = "trust_expired"
	Behind       Reason = "behind"
	Certificate  Reason = "certificate"
)

// refused is the error of a failed check. The current state is kept.
type refused struct{ reason Reason }

func (r *refused) Error() string { return "refused: " + string(r.reason) }

func refuse(reason Reason) error { return &refused{reason} }

// reasonOf returns the reason of a rejection, or "" for another error.
func reasonOf(err error) Reason {
	var rejection *refused
	if errors.As(err, &rejection) {
		return rejection.reason
	}
	return ""
}

// needsBase reports that all checks without a base have passed, and names the required base.
type needsBase struct{ base base }

func (n *needsBase) Error() string { return "the base is needed" }
