package rescind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

const (
	registerPath = "/v1/authorizers/register"
	reporterKind = "rescind-authorizer-go"

	// Bounds for the intervals that the service requests.
	reportAfterMin = 10 * time.Second
	reportAfterMax = 24 * time.Hour
	spreadMax      = time.Hour
	reportPauseMax = time.Hour

	// The first and longest pause after a failed heartbeat, and the pause before another attempt at
	// a service that accepts no heartbeats.
	reportBackoff    = 5 * time.Second
	reportBackoffMax = 5 * time.Minute
	askAgain         = time.Hour

	clockDiffers = 20 * time.Second
)

// features are the names of supported features (FLEET-2).
var features = []string{"subject-cutoffs"}

// terms are the heartbeat intervals that the service requests: the interval without changes, and
// the period in which all clients report an advance.
type terms struct{ after, spread time.Duration }

// reportAnswer is the response to a registration, with an `id`, or to a heartbeat, with a `status`.
type reportAnswer struct {
	terms      terms
	word       string
	lastNumber int64
}

func parseReportAnswer(body []byte, has string) (*reportAnswer, error) {
	members, err := parseJSON(body)
	if err != nil {
		return nil, without("the response is not a JSON object")
	}
	word, _ := members[has].(string)
	if word == "" || printable(word) != word {
		return nil, without("the response has no %s", has)
	}
	after, err := secondsOf(members["report_after_seconds"])
	if err != nil {
		return nil, err
	}
	spread, err := secondsOf(members["jitter_seconds"])
	if err != nil {
		return nil, err
	}
	answer := &reportAnswer{word: word}
	answer.terms = terms{max(reportAfterMin, min(after, reportAfterMax)), min(spread, spreadMax)}
	if number, ok := members["last_number"].(json.Number); ok {
		if last, err := number.Int64(); err == nil && last >= 0 && last < numberMax {
			answer.lastNumber = last
		}
	}
	return answer, nil
}

func secondsOf(value any) (time.Duration, error) {
	number, _ := value.(json.Number)
	seconds, err := number.Float64()
	if (err != nil && !errors.Is(err, strconv.ErrRange)) || seconds < 0 {
		return 0, without("the response has no valid report interval")
	}
	if most := reportAfterMax.Seconds(); seconds > most {
		seconds = most
	}
	return times(time.Second, seconds), nil
}

// schedule decides when a client sends heartbeats. Each period of `spread` has one turn for the
// client, at a random place that is drawn once. A fleet therefore reports an advance evenly over
// one period (FLEET-2).
type schedule struct {
	id          string
	place       float64
	terms       terms
	next        time.Time
	turn        time.Time
	reported    uint64
	hasReported bool
	failures    int
}

// due returns when to report next, or to register, if the client has this entry.
func (s *schedule) due(sequence uint64, now time.Time) time.Time {
	if s.id == "" || s.failures > 0 || (s.hasReported && sequence == s.reported) {
		return s.next
	}
	if s.turn.IsZero() {
		s.turn = now
		if spread := s.terms.spread; spread > 0 {
			past := time.Duration(now.UnixNano() % int64(spread))
			s.turn = now.Add((times(spread, s.place) - past + spread) % spread)
		}
	}
	return s.turn
}

func (s *schedule) registered(answer *reportAnswer, now time.Time) {
	// Keep the failure count until a heartbeat is accepted, because all of them may fail.
	s.id, s.terms, s.hasReported, s.turn, s.next = answer.word, answer.terms, false, time.Time{}, now
}

func (s *schedule) accepted(answer *reportAnswer, sequence uint64, now time.Time) {
	s.terms, s.reported, s.hasReported, s.turn, s.failures = answer.terms, sequence, true, time.Time{}, 0
	// Spreads out heartbeats that coincided after an advance.
	s.next = now.Add(times(answer.terms.after, 1+uniform()/4))
}

// failed records a response with this status, 0 for none, and returns the pause.
func (s *schedule) failed(status int, retryAfter time.Duration, now time.Time) time.Duration {
	isForgotten := (status == 404 || status == 409) && s.id != ""
	pause := reportBackoff << s.failures
	if pause > reportBackoffMax {
		pause = reportBackoffMax
	}
	switch status {
	case 401, 403, 408, 409, 425, 429:
	default:
		if status >= 400 && status < 500 && !isForgotten {
			pause = askAgain
		}
	}
	if isForgotten {
		s.id = ""
	}
	if s.failures < 10 {
		s.failures++
	}
	// Clients that were rejected together must not retry together.
	pause = min(retryAfter, reportPauseMax) + jittered(pause)
	s.next, s.turn = now.Add(pause), time.Time{}
	return pause
}

// reporter sends heartbeats. It has a separate goroutine, so polls do not wait for heartbeats.
type reporter struct {
	client     *Client
	name       string
	claim      *os.File
	identity   *identity
	schedule   schedule
	sent       map[Reason]int
	lastNumber int64
	// How far the clock of the service is ahead of the local clock.
	ahead time.Duration
}

// run sends heartbeats until the context ends.
func (r *reporter) run(ctx context.Context) {
	defer r.abandon()
	for ctx.Err() == nil {
		changed := r.client.news()
		wait(ctx, changed, r.step(ctx))
	}
}

// wait returns after a pause, or sooner if a channel is closed or the context ends.
func wait(ctx context.Context, changed <-chan struct{}, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-timer.C:
	}
}

// abandon releases the name.
func (r *reporter) abandon() {
	if r.claim != nil {
		r.claim.Close()
	}
}

// step sends a heartbeat if one is due, and returns the time until the next step.
func (r *reporter) step(ctx context.Context) (pause time.Duration) {
	// If this goroutine ended, the service would not see this client.
	defer func() {
		if bug := recover(); bug != nil {
			pause = pauseAfterBug
			r.client.note(ReportFailed{printable(fmt.Sprint(bug)), pause, false})
		}
	}()
	now := r.client.follower.view.Load()
	if now.state == nil {
		return askAgain
	}
	if left := time.Until(r.schedule.due(now.sequence(), time.Now())); left > 0 {
		return left
	}
	var err error
	if r.schedule.id == "" {
		err = r.register(ctx)
	} else {
		err = r.report(ctx, now)
	}
	if err != nil && ctx.Err() == nil {
		r.failed(err.Error(), 0, 0, false)
	}
	return 0
}

func (r *reporter) failed(message string, status int, retryAfter time.Duration, isUnregistered bool) {
	pause := r.schedule.failed(status, retryAfter, time.Now())
	r.client.note(ReportFailed{message, pause, isUnregistered})
}

func (r *reporter) register(ctx context.Context) error {
	folder := r.client.follower.store.folder
	if r.identity == nil {
		own, err := identityOf(folder)
		if err != nil {
			return err
		}
		r.identity = own
	}
	// A folder that cannot be locked does not prevent heartbeats.
	if r.claim == nil {
		number, file, err := claimed(folder)
		if err == nil && number > 1 {
			r.name = fmt.Sprintf("%s #%d", r.name, number)
		}
		r.claim = file
	}
	members := map[string]any{
		"name": r.name, "type": reporterKind, "version": Version, "features": features,
		"proof": r.identity.proof(r.client.follower.trust.Load().tenant, r.name, time.Now().Add(r.ahead)),
	}
	answer, err := r.post(ctx, registerPath, members, "id")
	if answer != nil {
		if answer.lastNumber > r.lastNumber {
			r.lastNumber = answer.lastNumber
		}
		r.schedule.registered(answer, time.Now())
	}
	return err
}

func (r *reporter) report(ctx context.Context, now *view) error {
	counts := r.client.Status().Refusals
	// Milliseconds since 1970. The number still increases while the clock is set back.
	if r.lastNumber++; time.Now().UnixMilli() > r.lastNumber {
		r.lastNumber = time.Now().UnixMilli()
	}
	staleness := uint64((r.client.follower.policy.staleness + time.Second - 1) / time.Second)
	refused := map[string]any{}
	for reason, count := range counts {
		if since := count - r.sent[reason]; since > 0 {
			refused[string(reason)] = uint64(since)
		}
	}
	at, trust := now.state.head.at, r.client.follower.trust.Load()
	statement := map[string]any{
		"Tenant": trust.tenant, "Id": r.schedule.id, "Number": uint64(r.lastNumber), "Trust": trust.version(),
		"Sequence": at.sequence, "Chain": at.chain[:], "VerifiedAt": nil, "MaxStaleness": staleness,
		"FailOpen": false, "Refused": refused,
	}
	if !now.confirmed.IsZero() {
		statement["VerifiedAt"] = now.confirmed.UTC().Format(momentForm)
	}
	payload := encode(statement)
	members := map[string]any{"report": toBase64(payload), "signature": r.identity.sign(reportPrefix, payload)}
	path := "/v1/authorizers/" + url.PathEscape(r.schedule.id) + "/heartbeat"
	answer, err := r.post(ctx, path, members, "status")
	if answer != nil {
		r.sent = counts
		r.schedule.accepted(answer, now.sequence(), time.Now())
		r.client.note(ReportAccepted{now.sequence(), answer.word})
	}
	return err
}

// post returns the response, or nil after recording a failure.
func (r *reporter) post(ctx context.Context, path string, members map[string]any, has string) (*reportAnswer, error) {
	body, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	response, err := r.client.follower.transport.post(ctx, path, body)
	if err != nil {
		return nil, err
	}
	if response.status != http.StatusOK && response.status != http.StatusCreated {
		status := response.status
		if r.learnTime(response) {
			status = 0
		}
		failure, isUnregistered := response.unexpected(), has == "id" && response.status == http.StatusConflict
		if isUnregistered {
			failure.message = fmt.Sprintf("cannot register %q: another key has registered its name. Use a separate name for "+
				"each authorizer, or run `rescind authorizers remove` for the old one", r.name)
		}
		r.failed(failure.message, status, failure.retryAfter, isUnregistered)
		return nil, nil
	}
	return parseReportAnswer(response.body, has)
}

// learnTime reads the time of the service from its response, and returns whether the offset
// changed. A service rejects a proof if the local clock is wrong. This time has no other use.
func (r *reporter) learnTime(response *response) bool {
	there, err := http.ParseTime(response.field("Date"))
	if err != nil {
		return false
	}
	ahead := time.Until(there)
	differs := ahead - r.ahead
	r.ahead = ahead
	return differs > clockDiffers || differs < -clockDiffers
}
