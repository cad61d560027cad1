package rescind

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"time"
)

// Conformance runs the conformance suite against this client. Each line of `requests` is a JSON
// request, and each answer is a JSON line (docs/spec/feed.md).
func Conformance(requests io.Reader, answers io.Writer) error {
	lines := bufio.NewReaderSize(requests, 1<<20)
	current := &session{}
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var request map[string]json.RawMessage
		if err := json.Unmarshal(line, &request); err != nil {
			return err
		}
		for name, given := range request {
			said, err := current.answer(name, given)
			if err != nil {
				return err
			}
			data, _ := json.Marshal(said)
			if _, err := fmt.Fprintf(answers, "%s\n", data); err != nil {
				return err
			}
		}
	}
}

// session is a client without a network. The suite supplies the time, the answers and the bases.
// After connect, `live` is a client with a network.
type session struct {
	live          *Client
	belief        belief
	state         *state
	signedBy      *key // the signer of the newest head, if it is still trusted
	isTrusted     bool
	savedPosition *position
	end           *time.Time // the end of freshness; nil if no bound was given
}

type said map[string]any

var ready = said{"ready": true}

func (s *session) answer(name string, given json.RawMessage) (said, error) {
	commands := map[string]func(json.RawMessage) (said, error){
		"init": s.init, "trust": s.trust, "signing_keys": s.signingKeys, "restart": s.restart,
		"poll": s.poll, "confirm": s.confirm, "check": s.check, "identify": s.identify,
		"connect": s.connect, "verdicts": s.verdicts,
	}
	command, ok := commands[name]
	if !ok {
		return nil, fmt.Errorf("the suite asks for %q, which this client does not know", name)
	}
	answered, err := command(given)
	var needs *needsBase
	if errors.As(err, &needs) {
		return said{"needs_base": needs.base.version}, nil
	}
	if reason := reasonOf(err); reason != "" {
		return said{"refused": reason}, nil
	}
	return answered, err
}

func (s *session) init(given json.RawMessage) (said, error) {
	var asked struct {
		Tenant string `json:"tenant"`
		Root   string `json:"trust_root"`
		Floor  *struct {
			Sequence uint64 `json:"sequence"`
			Chain    []byte `json:"chain"`
			Signer   []byte `json:"signer"`
		} `json:"floor"`
	}
	if err := json.Unmarshal(given, &asked); err != nil {
		return nil, err
	}
	if err := checkPin(asked.Root); err != nil {
		return nil, err
	}
	*s = session{belief: belief{tenant: asked.Tenant, pin: asked.Root}}
	if asked.Floor != nil {
		s.savedPosition = &position{sequence: asked.Floor.Sequence}
		copy(s.savedPosition.chain[:], asked.Floor.Chain)
		if asked.Floor.Signer != nil {
			s.signedBy = &key{}
			copy(s.signedBy[:], asked.Floor.Signer)
		}
	}
	return ready, nil
}

func (s *session) trust(given json.RawMessage) (said, error) {
	var asked struct {
		Now      time.Time `json:"now"`
		Response string    `json:"response"`
	}
	if err := json.Unmarshal(given, &asked); err != nil {
		return nil, err
	}
	documents, err := parseDocuments([]byte(asked.Response))
	if err != nil {
		return nil, err
	}
	if s.belief, err = s.belief.followed(documents, asked.Now); err != nil {
		return nil, err
	}
	s.savedPosition = s.belief.position(s.signedBy, s.savedPosition)
	if s.signedBy == nil || !contains(s.belief.named(), *s.signedBy) {
		s.signedBy, s.isTrusted = nil, false
	}
	return said{"version": s.belief.version()}, nil
}

func (s *session) signingKeys(given json.RawMessage) (said, error) {
	var asked struct {
		Blob []byte `json:"blob"`
	}
	if err := json.Unmarshal(given, &asked); err != nil {
		return nil, err
	}
	if s.state == nil || s.state.head.keys == nil {
		return nil, errors.New("no head names signing keys")
	}
	found, err := openSigningKeys(asked.Blob, *s.state.head.keys, s.belief.tenant, s.belief.held.signingKeys)
	return said{"keys": len(found)}, err
}

func (s *session) restart(json.RawMessage) (said, error) {
	if s.state != nil && s.isTrusted {
		s.savedPosition = &s.state.head.at
	}
	s.state, s.end = nil, nil
	return ready, nil
}

func (s *session) poll(given json.RawMessage) (said, error) {
	var asked struct {
		Now    time.Time `json:"now"`
		Answer string    `json:"answer"`
		Base   []byte    `json:"base"`
	}
	if err := json.Unmarshal(given, &asked); err != nil {
		return nil, err
	}
	parsed, err := parseAnswer([]byte(asked.Answer))
	if err != nil {
		return nil, err
	}
	held := s.state
	if !s.isTrusted {
		held = nil
	}
	next, err := advance(held, parsed, asked.Base, asked.Now, s.belief.tenant, s.belief.verified, s.savedPosition)
	if err != nil {
		return nil, err
	}
	s.state, s.signedBy, s.isTrusted = next, &next.signedBy, true
	return said{"sequence": next.head.at.sequence}, nil
}

func (s *session) confirm(given json.RawMessage) (said, error) {
	var asked struct {
		Now          time.Time `json:"now"`
		Age          string    `json:"age"`
		MaxStaleness int       `json:"max_staleness"`
	}
	if err := json.Unmarshal(given, &asked); err != nil {
		return nil, err
	}
	age, ok := wholeSeconds(asked.Age)
	if !ok {
		return nil, refuse(Malformed)
	}
	end := asked.Now.Add(time.Duration(asked.MaxStaleness)*time.Second - age)
	if s.end == nil || end.After(*s.end) {
		s.end = &end
	}
	return ready, nil
}

func (s *session) check(given json.RawMessage) (said, error) {
	var asked struct {
		Now time.Time `json:"now"`
		IDs []string  `json:"ids"`
	}
	if err := json.Unmarshal(given, &asked); err != nil {
		return nil, err
	}
	if !areWarrantIDs(asked.IDs) {
		return nil, refuse(Malformed)
	}
	verdict := Clear
	if s.state == nil || !s.isTrusted || !asked.Now.Before(s.state.head.expiresAt) ||
		!asked.Now.Before(s.belief.expiresAt()) || (s.end != nil && !asked.Now.Before(*s.end)) {
		verdict = Stale
	}
	for _, id := range asked.IDs {
		if s.state != nil && s.state.revoked.revokes(id) {
			verdict = Revoked
		}
	}
	return said{"verdict": verdict.String()}, nil
}

func (s *session) identify(given json.RawMessage) (said, error) {
	var asked struct {
		Kind   string `json:"kind"`
		Issuer string `json:"issuer"`
		Value  string `json:"value"`
		Before *int64 `json:"issued_before"`
	}
	if err := json.Unmarshal(given, &asked); err != nil {
		return nil, err
	}
	var before []int64
	if asked.Before != nil {
		before = append(before, *asked.Before)
	}
	found, err := TokenID(asked.Kind, asked.Issuer, asked.Value, before...)
	if err != nil {
		return nil, refuse(Malformed)
	}
	return said{"warrant_id": found}, nil
}

// connect starts a client that follows a service until the process ends. Its events are logged to
// standard error.
func (s *session) connect(given json.RawMessage) (said, error) {
	var asked struct {
		URL, Tenant, Floor string
		APIKey             string  `json:"api_key"`
		Root               string  `json:"trust_root"`
		MaxStaleness       float64 `json:"max_staleness"`
	}
	if err := json.Unmarshal(given, &asked); err != nil {
		return nil, err
	}
	client, err := New(Options{
		URL: asked.URL, APIKey: asked.APIKey, Tenant: asked.Tenant, TrustPin: asked.Root, StateDir: asked.Floor,
		MaxStaleness: times(time.Second, asked.MaxStaleness), NoReports: true,
		OnEvent: func(event Event) { log.Print(event) },
	})
	if err != nil {
		return said{"refused": err.Error()}, nil
	}
	s.live = client
	go func() { _ = client.Run(context.Background()) }()
	ctx, stop := context.WithTimeout(context.Background(), answerTime)
	defer stop()
	// The suite also injects faults before the first state of a client.
	_ = client.Ready(ctx)
	return ready, nil
}

// verdicts returns the verdict on each warrant, and the number of failed or rejected polls.
func (s *session) verdicts(given json.RawMessage) (said, error) {
	var ids []string
	if err := json.Unmarshal(given, &ids); err != nil {
		return nil, err
	}
	found := make([]string, len(ids))
	for n, id := range ids {
		verdict, _ := s.live.Check(id)
		found[n] = verdict.String()
	}
	now := s.live.Status()
	failures := now.Failures
	for _, count := range now.Refusals {
		failures += count
	}
	return said{"verdicts": found, "failures": failures}, nil
}
