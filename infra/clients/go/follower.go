package rescind

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"
)

const (
	feedPath  = "/v1/revocations/feed"
	trustPath = "/v1/trust"
	keysPath  = "/v1/trust/keys"

	baseMax       = 1 << 30 // the largest base that is fetched, regardless of the head
	largeBase     = 4 << 20
	keysMax       = 64 << 20 // the same for signing keys
	backoffMax    = 5 * time.Second
	pauseAfterBug = 5 * time.Second
	afterWait     = 50 * time.Millisecond

	// Connections are renewed at this interval to follow changes of DNS and load balancers.
	connectionAgeMax = 10 * time.Minute
)

// follower maintains the state of one feed. It belongs to one goroutine, except `view` and `trust`,
// which any goroutine may read.
type follower struct {
	transport *transport
	store     *stateStore
	policy    policy
	emit      func(Event)
	view      atomic.Pointer[view]
	trust     atomic.Pointer[belief]
	last      *answer // the newest accepted answer
	position  *position
	signedBy  *key // the signer of the newest head, if it is still trusted
	etag      string
	hasGap    bool
	failures  int
	// Whether the last answer had news at once. The next poll is then paced.
	hasHurried bool
	connected  time.Time // the start of the current connections
	// Whether a large base was read. It leaves garbage several times the size of the set.
	hasGarbage bool
}

// load restores the saved state.
func (f *follower) load() error {
	f.view.Store(&view{})
	stored, err := f.store.load()
	if err != nil || stored == nil {
		return err
	}
	trust := *f.trust.Load()
	if stored.Tenant != trust.tenant {
		return &StateError{fmt.Sprintf(
			"the saved state belongs to %s: use a separate folder for each tenant", stored.Tenant)}
	}
	// A different pin discards the saved document, unless the pin matches the roots of that document.
	if document := stored.document(); trust.pin == stored.Pin || trust.pin == document.roots.pin {
		trust.held = document
	}
	f.trust.Store(&trust)
	at := stored.position()
	f.signedBy = stored.signer()
	f.position = trust.position(f.signedBy, &at)
	restored, err := f.restored(stored)
	f.release()
	if restored == nil || err != nil {
		return err
	}
	// The age of an answer from the future is unknown.
	confirmed := time.Time{}
	if age := time.Since(stored.AnsweredAt); age >= 0 {
		confirmed = time.Now().Add(-age)
	}
	f.confirm(restored, confirmed)
	return nil
}

// restored returns the saved state, or nil if other keys are trusted now.
func (f *follower) restored(from *saved) (*state, error) {
	if from.Base == "" || f.position == nil {
		return nil, nil
	}
	data, err := f.store.loadBase(from.Base)
	if data == nil || err != nil {
		return nil, err
	}
	f.hasGarbage = len(data) > largeBase
	origin, originErr := parseAnswer(from.Origin)
	latest, latestErr := parseAnswer(from.Latest)
	if originErr != nil || latestErr != nil {
		return nil, nil
	}
	trust := f.trust.Load()
	restored, err := restore(origin, data, latest, trust.tenant, trust.ofSaved, *f.position)
	if err != nil {
		return nil, nil
	}
	return restored, nil
}

// poll makes one exchange with the service, and returns the pause before the next. A failure is an
// event, and does not change the state.
func (f *follower) poll(ctx context.Context) (pause time.Duration) {
	// If this goroutine ended, every warrant would become stale.
	defer func() {
		if bug := recover(); bug != nil {
			pause = pauseAfterBug
			f.emit(PollFailed{printable(fmt.Sprint(bug)), pause})
		}
	}()
	pause, err := f.exchange(ctx)
	f.release()
	if ctx.Err() != nil {
		return 0
	}
	if reason := reasonOf(err); reason != "" {
		f.etag, f.hasGap = "", reason == Gap
		f.emit(ResponseRejected{reason})
		return f.backoff()
	}
	var none *noAnswer
	if errors.As(err, &none) {
		return f.failed(none.message, none.retryAfter)
	}
	if err != nil {
		return f.failed(fmt.Sprintf("cannot save the state: %v", err), 0)
	}
	f.failures = 0
	return pause
}

func (f *follower) exchange(ctx context.Context) (time.Duration, error) {
	asked, wait, before := time.Now(), f.wait(), f.view.Load()
	if f.failures > 1 || asked.Sub(f.connected) > connectionAgeMax {
		// A new connection may lead to another server.
		f.transport.client.CloseIdleConnections()
		f.connected = asked
	}
	response, err := f.ask(ctx, wait)
	if err != nil {
		return 0, err
	}
	age, err := response.age()
	if err != nil {
		return 0, err
	}
	asked = response.asked
	confirmed, isChanged := asked.Add(-age), response.status == http.StatusOK
	if isChanged {
		if err := f.changed(ctx, response, confirmed); err != nil {
			return 0, err
		}
	} else if !time.Now().Before(f.trust.Load().expiresAt()) {
		// Without the tag, the next answer contains the head, which is then verified again.
		return 0, refuse(TrustExpired)
	} else if before.state != nil && confirmed.After(before.confirmed) {
		f.confirm(before.state, confirmed)
	}
	took := time.Since(asked)
	f.emit(PollSucceeded{took, isChanged})
	if age > f.policy.staleness {
		return 0, without("the response is %s old", age)
	}
	return f.pause(took, wait, before.state == nil || before.sequence() != f.view.Load().sequence()), nil
}

// ask returns the response of the service: 200, or 304 if there is no change.
func (f *follower) ask(ctx context.Context, wait time.Duration) (*response, error) {
	held, path, tag := f.held(), feedPath, ""
	if held != nil {
		tag = f.etag
		query := ""
		// After a gap, the answer must start at the base.
		if !f.hasGap {
			query = fmt.Sprintf("&after=%d", held.head.at.sequence)
		}
		if wait > 0 {
			query += fmt.Sprintf("&wait=%d", wait/time.Second)
		}
		if query != "" {
			path += "?" + query[1:]
		}
	}
	// An answer must arrive before the state is stale.
	response, err := f.transport.get(ctx, path, answerMax, tag, wait+min(answerTime, f.policy.staleness/2))
	if err != nil {
		return nil, err
	}
	if response.status != http.StatusOK && (response.status != http.StatusNotModified || tag == "") {
		return nil, response.unexpected()
	}
	return response, nil
}

// held returns the state to continue, or nil for a base load. A base load is needed if the state
// could not be restored later, or if its signer is no longer trusted.
func (f *follower) held() *state {
	now := f.view.Load()
	if now.state == nil || now.state.latest == nil || !now.isTrusted {
		return nil
	}
	return now.state
}

// changed takes the state of a response, saves it, and makes it current.
func (f *follower) changed(ctx context.Context, response *response, confirmed time.Time) error {
	latest, err := parseAnswer(response.body)
	if err != nil {
		return err
	}
	next, err := f.next(ctx, latest)
	if err != nil {
		return err
	}
	before, signedBy := f.view.Load(), f.signedBy
	// The state includes all changes confirmed earlier, even if this answer is older.
	if before.isTrusted && before.confirmed.After(confirmed) {
		confirmed = before.confirmed
	}
	if err := f.store.save(savedOf(next, f.trust.Load(), confirmed)); err != nil {
		return err
	}
	f.position, f.signedBy = &next.head.at, &next.signedBy
	f.confirm(next, confirmed)
	if signedBy != nil && *signedBy != next.signedBy {
		f.emit(SignerChanged{next.signedBy.String()})
	}
	if before.state == nil || before.sequence() != next.head.at.sequence {
		f.emit(StateAdvanced{before.sequence(), next.head.at.sequence, next.revoked.size()})
	}
	f.etag, f.last, f.hasGap = response.field("ETag"), latest, false
	return nil
}

// next returns the state after an answer. It first reads documents that may be missing.
func (f *follower) next(ctx context.Context, latest *answer) (*state, error) {
	next, err := f.advanced(ctx, latest, nil)
	switch reasonOf(err) {
	case Signature, TrustExpired, Behind:
	default:
		return next, err
	}
	if fault := f.readDocuments(ctx); fault != nil {
		var none *noAnswer
		// Without any document, report that the service serves none. Otherwise report the
		// rejection.
		if !errors.As(fault, &none) || f.trust.Load().held == nil {
			return nil, fault
		}
	}
	return f.advanced(ctx, latest, nil)
}

func (f *follower) advanced(ctx context.Context, latest *answer, data []byte) (*state, error) {
	trust := f.trust.Load()
	next, err := advance(f.held(), latest, data, time.Now(), trust.tenant, trust.verified, f.position)
	var needs *needsBase
	if errors.As(err, &needs) {
		// The verified head bounds the size of the base.
		limit := min(baseMax, int64(needs.base.sizeMax()))
		payload, err := f.transport.getFar(ctx, fmt.Sprintf("%s/base/%d", feedPath, needs.base.version), limit)
		if err != nil {
			return nil, err
		}
		if payload == nil {
			payload = []byte{}
		}
		return f.advanced(ctx, latest, payload)
	}
	if err == nil && data != nil {
		err = f.store.saveBase(data)
	}
	f.hasGarbage = f.hasGarbage || len(data) > largeBase
	return next, err
}

// release returns memory to the system, which the runtime would keep for minutes.
func (f *follower) release() {
	if f.hasGarbage {
		debug.FreeOSMemory()
	}
	f.hasGarbage = false
}

func (f *follower) confirm(next *state, confirmed time.Time) {
	f.view.Store(viewOf(next, confirmed, f.policy.staleness, f.trust.Load().expiresAt()))
}

// readDocuments reads newer trust documents. It saves the newest, and makes it current (TRUST-14).
func (f *follower) readDocuments(ctx context.Context) error {
	trust := f.trust.Load()
	response, err := f.transport.get(ctx, fmt.Sprintf("%s?after=%d", trustPath, trust.version()), trustMax, "", answerTime)
	if err != nil {
		return err
	}
	if response.status != http.StatusOK {
		return response.unexpected()
	}
	documents, err := parseDocuments(response.body)
	if err != nil {
		return err
	}
	next, err := trust.followed(documents, time.Now())
	if err != nil || next.held == trust.held {
		return err
	}
	now, signedBy := f.view.Load(), f.signedBy
	if signedBy != nil && !contains(next.named(), *signedBy) {
		signedBy = nil
	}
	at := next.position(signedBy, f.position)
	isKept := now.state != nil && now.isTrusted && signedBy != nil
	stored := savedAt(&next, *at, signedBy)
	if isKept {
		stored = savedOf(now.state, &next, now.confirmed)
	}
	if err := f.store.save(stored); err != nil {
		return err
	}
	f.trust.Store(&next)
	f.position, f.signedBy = at, signedBy
	if isKept {
		f.confirm(now.state, now.confirmed)
	} else if now.state != nil {
		// A thief may have signed the state. Only a head by another key can make it fresh again.
		f.view.Store(now.distrusted())
		f.etag = ""
	}
	f.emit(TrustChanged{next.version(), next.pin})
	return nil
}

// wait returns how long the next poll may wait. After a failure or while stale, it is zero, because
// an immediate answer ends that condition sooner.
func (f *follower) wait() time.Duration {
	if f.last == nil || f.failures > 0 || !f.view.Load().isFresh(time.Now()) {
		return 0
	}
	return f.policy.longPoll(time.Duration(f.last.maxWait) * time.Second)
}

// pause returns the pause after a poll with the duration `took` (POLL-1).
func (f *follower) pause(took, wait time.Duration, hasEntries bool) time.Duration {
	asked := 0.0
	if f.last != nil {
		asked = f.last.pollSeconds
	}
	pause := f.policy.pause(times(time.Second, asked))
	isSoon, hurried := took < pause/2, f.hasHurried
	f.hasHurried = hasEntries && isSoon
	if hasEntries && f.wait() > 0 && !(isSoon && hurried) {
		pause = afterWait
	} else if wait > 0 && took > wait/2 {
		pause = max(afterWait, f.policy.poll-took)
	}
	return jittered(pause)
}

func (f *follower) failed(message string, retryAfter time.Duration) time.Duration {
	// Retry-After is not signed, so it has the same bound as poll_seconds.
	pause := max(f.backoff(), jittered(f.policy.pause(retryAfter)))
	if f.failures > 1 {
		// The tag may be the cause, for example because it is too long.
		f.etag = ""
	}
	f.emit(PollFailed{message, pause})
	return pause
}

func (f *follower) backoff() time.Duration {
	if f.failures < 10 {
		f.failures++
	}
	most := min(backoffMax, f.policy.staleness/4)
	return jittered(f.policy.pause(min(f.policy.poll<<f.failures, most)))
}

func jittered(longest time.Duration) time.Duration { return times(longest, 0.5+uniform()/2) }

func times(one time.Duration, factor float64) time.Duration {
	return time.Duration(float64(one) * factor)
}

// uniform returns a random number from 0 to 1, which differs between processes.
func uniform() float64 {
	var drawn [8]byte
	if _, err := rand.Read(drawn[:]); err != nil {
		return 0.5
	}
	return float64(binary.BigEndian.Uint64(drawn[:])>>11) / (1 << 53)
}

func savedAt(by *belief, at position, signer *key) *saved {
	stored := &saved{
		Tenant: by.tenant, Sequence: at.sequence, Chain: hex.EncodeToString(at.chain[:]),
		Pin: by.pin, Document: by.held.encode(),
	}
	if signer != nil {
		stored.Signer = signer.String()
	}
	return stored
}

func savedOf(of *state, by *belief, confirmed time.Time) *saved {
	stored := savedAt(by, of.head.at, &of.signedBy)
	stored.IssuedAt, stored.AnsweredAt = of.head.issuedAt, confirmed
	if of.latest != nil {
		stored.Base = hex.EncodeToString(of.began.sha256[:])
		stored.Origin, stored.Latest = of.origin.encode(), of.latest.encode()
	}
	return stored
}
