package rescind

import (
	"bytes"
	"time"
)

const (
	lifetimeMax    = 7 * 24 * time.Hour
	fastForwardMax = 1 << 32
	// The maximum size of the entries that a state keeps for a restore, in bytes.
	trailMax = 2 << 20
)

// state is a verified state of the feed. It is immutable. advance returns a new state, so a client
// keeps its state after an error. restore rebuilds it from the base `began`, `origin` and `latest`.
// `latest` is nil if its entries would be too large.
type state struct {
	head           head
	signedBy       key
	revoked        *set
	began          base
	origin, latest *answer
	trail          int
}

// verifier checks the signature of a head before it is parsed, and whether documents cover its
// signer.
type verifier func(answer *answer, now time.Time, likely *key) (head, key, error)

// step is the input of advance: an answer, its head, and the positions already passed.
type step struct {
	answer   *answer
	head     head
	signedBy key
	passed   []position
}

// advance returns the state after an answer. Checks follow the order of docs/spec/feed.md.
//
// `held` is nil at the start. `data` is the base that needsBase named for this answer, or nil.
// `savedPosition` is the position saved before the last stop, or nil.
func advance(
	held *state, answer *answer, data []byte, now time.Time, tenant string, verify verifier, savedPosition *position,
) (*state, error) {
	var likely *key
	if held != nil {
		likely = &held.signedBy
	}
	head, by, err := verify(answer, now, likely)
	if err != nil {
		return nil, err
	}
	next := step{answer, head, by, nil}
	if savedPosition != nil {
		next.passed = append(next.passed, *savedPosition)
	}
	if held != nil {
		next.passed = append(next.passed, held.head.at)
	}
	if err := next.check(tenant, now); err != nil {
		return nil, err
	}
	if held != nil {
		if done, err := next.continued(held); done != nil || err != nil {
			return done, err
		}
	}
	return next.begun(data)
}

func (s *step) check(tenant string, now time.Time) error {
	if s.head.tenant != tenant {
		return refuse(Tenant)
	}
	if lifetime := s.head.expiresAt.Sub(s.head.issuedAt); lifetime <= 0 || lifetime > lifetimeMax {
		return refuse(Lifetime)
	}
	if s.head.issuedAt.Sub(now) > futureMax {
		return refuse(Future)
	}
	if !now.Before(s.head.expiresAt) {
		return refuse(Expired)
	}
	for _, each := range s.passed {
		if s.head.at.sequence < each.sequence {
			return refuse(Rollback)
		}
	}
	for _, each := range s.passed {
		if s.head.at.sequence == each.sequence && s.head.at.chain != each.chain {
			return refuse(Equivocation)
		}
	}
	return nil
}

// entriesAfter returns the entries from a position to the head. It returns false if the answer does
// not reach back to the position. The chain hash is verified first, so only authentic entries are
// parsed.
func (s *step) entriesAfter(start position) ([]entry, [][]byte, bool, error) {
	count := s.head.at.sequence - start.sequence
	if count > uint64(len(s.answer.entries)) {
		return nil, nil, false, nil
	}
	used, at := s.answer.entries[uint64(len(s.answer.entries))-count:], start
	for n := -1; n < len(used); n++ {
		if n >= 0 {
			at = position{at.sequence + 1, nextChain(at.chain, used[n])}
		}
		for _, each := range s.passed {
			if each.sequence == at.sequence && each.chain != at.chain {
				return nil, nil, false, refuse(Chain)
			}
		}
	}
	if at.chain != s.head.at.chain {
		return nil, nil, false, refuse(Chain)
	}
	entries := make([]entry, len(used))
	for n, data := range used {
		var err error
		if entries[n], err = readEntry(data, start.sequence+1+uint64(n)); err != nil {
			return nil, nil, false, err
		}
	}
	return entries, used, true, nil
}

// broken returns whether there is a discontinuity, which requires a base. It rejects a
// discontinuity that the base does not cover.
func (s *step) broken(entries []entry) (bool, error) {
	isBroken := false
	for _, each := range entries {
		if !each.isBreak() {
			continue
		}
		if isBroken = true; each.sequence > s.head.base.at.sequence {
			return false, refuse(Break)
		}
	}
	return isBroken, nil
}

// continued returns the state after entries that extend the held state, or nil if they do not.
func (s *step) continued(held *state) (*state, error) {
	if s.head.at.sequence == held.head.at.sequence && s.head.issuedAt.Before(held.head.issuedAt) {
		return nil, refuse(Replay)
	}
	entries, used, reaches, err := s.entriesAfter(held.head.at)
	if err != nil || !reaches {
		return nil, err
	}
	if isBroken, err := s.broken(entries); isBroken || err != nil {
		return nil, err
	}
	next := *held
	next.head, next.signedBy, next.revoked = s.head, s.signedBy, held.revoked.after(entries)
	for _, each := range used {
		next.trail += len(each)
	}
	next.latest = nil
	if held.latest != nil && next.trail <= trailMax {
		all := append(held.latest.entries[:len(held.latest.entries):len(held.latest.entries)], used...)
		next.latest = s.answer.with(all)
	}
	return &next, nil
}

func (s *step) begun(data []byte) (*state, error) {
	named := s.head.base
	entries, used, reaches, err := s.entriesAfter(named.at)
	if err != nil {
		return nil, err
	}
	if !reaches {
		return nil, refuse(Gap)
	}
	if _, err := s.broken(entries); err != nil {
		return nil, err
	}
	highest := uint64(0)
	for _, each := range s.passed {
		highest = max(highest, each.sequence)
	}
	// No feed could have published so many entries.
	if len(s.passed) > 0 && s.head.at.sequence-highest > fastForwardMax {
		return nil, refuse(FastForward)
	}
	if data == nil {
		return nil, &needsBase{named}
	}
	// Each identifier has at least one byte, which bounds the count of the head.
	whole := &set{whole: newTable(int(min(named.count, uint64(len(data))))), cutoffs: cutoffs{}}
	err = readBase(data, named, func(id []byte) {
		whole.whole.insert(digestOf(id))
		if len(id) == cutoffSize && bytes.HasPrefix(id, []byte(subjectPrefix)) {
			whole.cutoffs.set(string(id), true)
		}
	})
	if err != nil {
		return nil, err
	}
	return &state{
		s.head, s.signedBy, whole.after(entries), named, s.answer.with(used), s.answer.with(nil), 0,
	}, nil
}

func (a *answer) with(entries [][]byte) *answer {
	copy := *a
	copy.entries = entries
	return &copy
}

// restore returns the state of these answers, from its base. Each answer is checked at its issue
// time, so the state may have expired. `savedPosition` was saved before the last stop.
func restore(origin *answer, data []byte, latest *answer, tenant string, verify verifier, savedPosition position) (*state, error) {
	issued := func(answer *answer) (time.Time, error) {
		head, _, err := verify(answer, time.Time{}, nil)
		return head.issuedAt, err
	}
	now, err := issued(origin)
	if err != nil {
		return nil, err
	}
	began, err := advance(nil, origin, data, now, tenant, verify, nil)
	if err != nil {
		return nil, err
	}
	if now, err = issued(latest); err != nil {
		return nil, err
	}
	return advance(began, latest, data, now, tenant, verify, &savedPosition)
}
