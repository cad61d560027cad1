package rescind

import "time"

// view is a state and the time until which unrevoked warrants are clear. It is immutable, so any
// goroutine can read it without a lock.
type view struct {
	state   *state
	revoked *set
	// The time of the request that confirmed the state. Zero if there was none, or if it is
	// unknown.
	confirmed time.Time
	// The end of freshness, by the monotonic clock and by the wall clock in nanoseconds. The wall
	// clock continues while a machine sleeps.
	end       time.Time
	wallEnd   int64
	isTrusted bool
}

// viewOf returns a view of a state, fresh for some time after its confirmation. Freshness ends
// sooner if the head or the trust document expires.
func viewOf(of *state, confirmed time.Time, staleness time.Duration, end time.Time) *view {
	next := &view{state: of, revoked: of.revoked, confirmed: confirmed, isTrusted: true}
	if confirmed.IsZero() {
		return next
	}
	next.end = confirmed.Add(staleness)
	next.wallEnd = next.end.UnixNano()
	for _, each := range []time.Time{of.head.expiresAt, end} {
		if at := each.UnixNano(); at < next.wallEnd {
			next.wallEnd = at
		}
	}
	return next
}

// distrusted returns a view that still revokes, but clears no warrant.
func (v *view) distrusted() *view {
	next := *v
	next.end, next.wallEnd, next.isTrusted = time.Time{}, 0, false
	return &next
}

// isFresh returns whether unrevoked warrants are clear.
func (v *view) isFresh(now time.Time) bool { return v.left(now) > 0 }

// left returns for how long unrevoked warrants are clear.
func (v *view) left(now time.Time) time.Duration {
	return min(v.end.Sub(now), time.Duration(v.wallEnd-now.UnixNano()))
}

// check returns the verdict on a chain of warrants.
func (v *view) check(ids []string) Verdict {
	for _, id := range ids {
		if v.revoked != nil && v.revoked.revokes(id) {
			return Revoked
		}
	}
	if v.isFresh(time.Now()) {
		return Clear
	}
	return Stale
}

func (v *view) sequence() uint64 {
	if v.state == nil {
		return 0
	}
	return v.state.head.at.sequence
}
