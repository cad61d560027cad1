package rescind

import "time"

// view is a state, and until when the warrants that it does not revoke are clear. It never changes,
// so that any goroutine can read it without a lock.
type view struct {
	state   *state
	revoked *set
	// When the service was asked that confirmed the state; zero if that never was, or is not known.
	confirmed time.Time
	// Until then by the clock that nobody sets, and in nanoseconds by that of the day, which goes on
	// while a machine sleeps.
	end       time.Time
	wallEnd   int64
	isTrusted bool
}

// viewOf returns the view of a state for some time after it was confirmed. It ends sooner if the head
// expires, or at the end of the trust document.
func viewOf(of *state, confirmed time.Time, staleness time.Duration, end time.Time) *view {
	made := &view{state: of, revoked: of.revoked, confirmed: confirmed, isTrusted: true}
	if confirmed.IsZero() {
		return made
	}
	made.end = confirmed.Add(staleness)
	made.wallEnd = made.end.UnixNano()
	for _, each := range []time.Time{of.head.expiresAt, end} {
		if at := each.UnixNano(); at < made.wallEnd {
			made.wallEnd = at
		}
	}
	return made
}

// distrusted returns a view that still revokes, and clears nothing.
func (v *view) distrusted() *view {
	made := *v
	made.end, made.wallEnd, made.isTrusted = time.Time{}, 0, false
	return &made
}

// isFresh returns whether the warrants that it does not revoke are clear.
func (v *view) isFresh(now time.Time) bool { return v.left(now) > 0 }

// left returns for how long the warrants that it does not revoke are clear.
func (v *view) left(now time.Time) time.Duration {
	return shortest(v.end.Sub(now), time.Duration(v.wallEnd-now.UnixNano()))
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
