package rescind

import (
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
	reader, writer, current := json.NewDecoder(requests), json.NewEncoder(answers), &session{}
	for {
		var request map[string]json.RawMessage
		if err := reader.Decode(&request); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		for name, arguments := range request {
			answer, err := current.answer(name, arguments)
			if err != nil {
				return err
			}
			if err := writer.Encode(answer); err != nil {
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

type result map[string]any

var ready = result{"ready": true}

// parsed returns a command that parses its request before it runs.
func parsed[T any](run func(T) (result, error)) func(json.RawMessage) (result, error) {
	return func(data json.RawMessage) (result, error) {
		var request T
		if err := json.Unmarshal(data, &request); err != nil {
			return nil, err
		}
		return run(request)
	}
}

func (s *session) answer(name string, request json.RawMessage) (result, error) {
	commands := map[string]func(json.RawMessage) (result, error){
		"init": parsed(s.init), "trust": parsed(s.trust), "signing_keys": parsed(s.signingKeys),
		"restart": parsed(s.restart), "poll": parsed(s.poll), "confirm": parsed(s.confirm),
		"check": parsed(s.check), "identify": parsed(s.identify), "connect": parsed(s.connect),
		"verdicts": parsed(s.verdicts),
	}
	command, ok := commands[name]
	if !ok {
		return nil, fmt.Errorf("there is no command %q", name)
	}
	answer, err := command(request)
	var needs *needsBase
	if errors.As(err, &needs) {
		return result{"needs_base": needs.base.version}, nil
	}
	if reason := reasonOf(err); reason != "" {
		return result{"refused": reason}, nil
	}
	return answer, err
}

func (s *session) init(request struct {
	Tenant string `json:"tenant"`
	Root   string `json:"trust_root"`
	Floor  *struct {
		Sequence uint64 `json:"sequence"`
		Chain    []byte `json:"chain"`
		Signer   []byte `json:"signer"`
	} `json:"floor"`
}) (result, error) {
	if err := checkPin(request.Root); err != nil {
		return nil, err
	}
	*s = session{belief: belief{tenant: request.Tenant, pin: request.Root}}
	if request.Floor != nil {
		s.savedPosition = &position{sequence: request.Floor.Sequence}
		copy(s.savedPosition.chain[:], request.Floor.Chain)
		if request.Floor.Signer != nil {
			s.signedBy = &key{}
			copy(s.signedBy[:], request.Floor.Signer)
		}
	}
	return ready, nil
}

func (s *session) trust(request struct {
	Now      time.Time `json:"now"`
	Response string    `json:"response"`
}) (result, error) {
	documents, err := parseDocuments([]byte(request.Response))
	if err != nil {
		return nil, err
	}
	if s.belief, err = s.belief.followed(documents, request.Now); err != nil {
		return nil, err
	}
	s.savedPosition = s.belief.position(s.signedBy, s.savedPosition)
	if s.signedBy == nil || !contains(s.belief.named(), *s.signedBy) {
		s.signedBy, s.isTrusted = nil, false
	}
	return result{"version": s.belief.version()}, nil
}

func (s *session) signingKeys(request struct {
	Blob []byte `json:"blob"`
}) (result, error) {
	if s.state == nil || s.state.head.keys == nil {
		return nil, errors.New("no head names signing keys")
	}
	keys, err := openSigningKeys(request.Blob, *s.state.head.keys, s.belief.tenant, s.belief.held.signingKeys)
	return result{"keys": len(keys)}, err
}

func (s *session) restart(struct{}) (result, error) {
	if s.state != nil && s.isTrusted {
		s.savedPosition = &s.state.head.at
	}
	s.state, s.end = nil, nil
	return ready, nil
}

func (s *session) poll(request struct {
	Now    time.Time `json:"now"`
	Answer string    `json:"answer"`
	Base   []byte    `json:"base"`
}) (result, error) {
	parsed, err := parseAnswer([]byte(request.Answer))
	if err != nil {
		return nil, err
	}
	held := s.state
	if !s.isTrusted {
		held = nil
	}
	next, err := advance(held, parsed, request.Base, request.Now, s.belief.tenant, s.belief.verified, s.savedPosition)
	if err != nil {
		return nil, err
	}
	s.state, s.signedBy, s.isTrusted = next, &next.signedBy, true
	return result{"sequence": next.head.at.sequence}, nil
}

func (s *session) confirm(request struct {
	Now          time.Time `json:"now"`
	Age          string    `json:"age"`
	MaxStaleness int       `json:"max_staleness"`
}) (result, error) {
	age, ok := wholeSeconds(request.Age)
	if !ok {
		return nil, refuse(Malformed)
	}
	end := request.Now.Add(time.Duration(request.MaxStaleness)*time.Second - age)
	if s.end == nil || end.After(*s.end) {
		s.end = &end
	}
	return ready, nil
}

func (s *session) check(request struct {
	Now time.Time `json:"now"`
	IDs []string  `json:"ids"`
}) (result, error) {
	if !areWarrantIDs(request.IDs) {
		return nil, refuse(Malformed)
	}
	verdict := Clear
	if s.state == nil || !s.isTrusted || !request.Now.Before(s.state.head.expiresAt) ||
		!request.Now.Before(s.belief.expiresAt()) || (s.end != nil && !request.Now.Before(*s.end)) {
		verdict = Stale
	}
	for _, id := range request.IDs {
		if s.state != nil && s.state.revoked.revokes(id) {
			verdict = Revoked
		}
	}
	return result{"verdict": verdict.String()}, nil
}

func (s *session) identify(request struct {
	Kind   string `json:"kind"`
	Issuer string `json:"issuer"`
	Value  string `json:"value"`
	Before *int64 `json:"issued_before"`
}) (result, error) {
	var before []int64
	if request.Before != nil {
		before = append(before, *request.Before)
	}
	id, err := TokenID(request.Kind, request.Issuer, request.Value, before...)
	if err != nil {
		return nil, refuse(Malformed)
	}
	return result{"warrant_id": id}, nil
}

// connect starts a client that follows a service until the process ends. Its events are logged to
// standard error.
func (s *session) connect(request struct {
	URL, Tenant, Floor string
	APIKey             string  `json:"api_key"`
	Root               string  `json:"trust_root"`
	MaxStaleness       float64 `json:"max_staleness"`
}) (result, error) {
	client, err := New(Options{
		URL: request.URL, APIKey: request.APIKey, Tenant: request.Tenant, TrustPin: request.Root, StateDir: request.Floor,
		MaxStaleness: times(time.Second, request.MaxStaleness), NoReports: true,
		OnEvent: func(event Event) { log.Print(event) },
	})
	if err != nil {
		return result{"refused": err.Error()}, nil
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
func (s *session) verdicts(ids []string) (result, error) {
	verdicts := make([]string, len(ids))
	for n, id := range ids {
		verdict, _ := s.live.Check(id)
		verdicts[n] = verdict.String()
	}
	now := s.live.Status()
	failures := now.Failures
	for _, count := range now.Refusals {
		failures += count
	}
	return result{"verdicts": verdicts, "failures": failures}, nil
}
