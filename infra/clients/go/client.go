// Package rescind follows the revocations of one tenant within seconds, and checks warrants in
// memory. It reads the signed feed of a Rescind service (docs/spec/feed.md).
package rescind

import (
	"context"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Version is the version of this client.
const Version = "0.4.0.dev0"

// Options configure a client.
type Options struct {
	// URL is the address of the service. APIKey is an API key with the scope authorizer. Tenant is
	// the identifier of the tenant.
	URL, APIKey, Tenant string
	// TrustPin is the pin of the service's trust root, which `rescind trust show` prints.
	TrustPin string
	// StateDir is a folder that survives restarts. Only this authorizer may use it, for this tenant.
	StateDir string
	// MaxStaleness is how long a warrant can be Clear after the last confirmation by the service.
	// The default is 30 seconds.
	MaxStaleness time.Duration
	// PollInterval is the longest pause between polls. The default is one second. The service can
	// request a longer pause. No pause exceeds half of MaxStaleness.
	PollInterval time.Duration
	// LongPoll is the longest long poll, up to a third of MaxStaleness. The default is 25 seconds.
	// A value below 0 disables long polls.
	LongPoll time.Duration
	// AllowHTTP permits a service without TLS on another machine. The network can then read the API
	// key.
	AllowHTTP bool
	// RootCAs verify the certificate of the service. nil means the system's certificates.
	RootCAs *x509.CertPool
	// OnEvent is called for each event, one at a time. It must return quickly. The default is
	// LogEvent.
	OnEvent func(Event)
	// Name is the name of this authorizer in heartbeats, by default the host name. NoReports
	// disables heartbeats.
	Name      string
	NoReports bool
}

// Format prints the options without the API key, for every verb.
func (o Options) Format(to fmt.State, _ rune) {
	type fields Options // without this method
	o.APIKey = "…"
	fmt.Fprintf(to, "%+v", fields(o))
}

// policy is how a client polls, and how long it stays fresh.
type policy struct{ staleness, poll, wait time.Duration }

func policyOf(options Options) (policy, error) {
	chosen := policy{options.MaxStaleness, options.PollInterval, options.LongPoll}
	for _, each := range []struct {
		value   *time.Duration
		without time.Duration
	}{{&chosen.staleness, 30 * time.Second}, {&chosen.poll, time.Second}, {&chosen.wait, 25 * time.Second}} {
		if *each.value == 0 {
			*each.value = each.without
		}
	}
	if chosen.staleness < 0 || chosen.poll < 0 {
		return chosen, errors.New("MaxStaleness and PollInterval must be above 0")
	}
	return chosen, nil
}

// pause returns the longest pause between polls, for the pause that the service requests.
func (p policy) pause(asked time.Duration) time.Duration {
	return min(max(p.poll, asked), p.staleness/2)
}

// longPoll returns the wait of a poll in whole seconds, at most as long as the service grants.
func (p policy) longPoll(granted time.Duration) time.Duration {
	return max(0, min(p.wait, min(granted, p.staleness/3))).Truncate(time.Second)
}

func min[T ~int64 | ~uint64](one, two T) T {
	if one < two {
		return one
	}
	return two
}

func max[T ~int64 | ~uint64](one, two T) T {
	if one > two {
		return one
	}
	return two
}

// Client follows the revocations of one tenant. It is safe for concurrent use.
type Client struct {
	follower follower
	onEvent  func(Event)
	reporter *reporter

	lock     sync.Mutex
	changed  chan struct{} // closed and replaced at each exchange
	status   Status
	hasAsked bool
	isRun    bool
	noting   sync.Mutex
}

// New returns a client with its saved state. Run starts requests to the service.
func New(options Options) (*Client, error) {
	if options.Tenant == "" || options.APIKey == "" || options.StateDir == "" {
		return nil, errors.New("set Tenant, APIKey, and StateDir to a folder that survives restarts")
	}
	policy, err := policyOf(options)
	if err != nil {
		return nil, err
	}
	if err := checkPin(options.TrustPin); err != nil {
		return nil, err
	}
	transport, err := newTransport(options.URL, options.APIKey, options.AllowHTTP, options.RootCAs)
	if err != nil {
		return nil, err
	}
	client := &Client{onEvent: options.OnEvent, changed: make(chan struct{})}
	if client.onEvent == nil {
		client.onEvent = LogEvent
	}
	client.status = Status{Refusals: map[Reason]int{}, Problem: "the service has not responded yet"}
	client.follower = follower{
		transport: transport, store: &stateStore{folder: options.StateDir}, policy: policy, emit: client.note,
	}
	client.follower.trust.Store(&belief{tenant: options.Tenant, pin: options.TrustPin})
	if !options.NoReports {
		client.reporter = &reporter{client: client, name: options.Name, schedule: schedule{place: uniform()}}
		if client.reporter.name == "" {
			client.reporter.name, _ = os.Hostname()
		}
	}
	return client, client.follower.load()
}

// Check returns the verdict on a chain of warrants, from the root to the leaf. It makes no request,
// takes no lock, and allocates no memory. A warrant that is known to be revoked is Revoked, however
// old the state is. Check does not verify warrants, so verify them first. It returns ErrWarrantID
// and Stale without an identifier, or if any text is not a warrant identifier.
func (c *Client) Check(ids ...string) (Verdict, error) {
	if !areWarrantIDs(ids) {
		return Stale, ErrWarrantID
	}
	return c.follower.view.Load().check(ids), nil
}

// Run follows the feed until the context ends, and returns the reason.
func (c *Client) Run(ctx context.Context) error {
	c.lock.Lock()
	isSecond := c.isRun
	c.isRun = true
	c.lock.Unlock()
	if isSecond {
		return errors.New("rescind: the client was run before")
	}
	defer c.follower.transport.client.CloseIdleConnections()
	var others sync.WaitGroup
	defer others.Wait()
	run := func(do func(context.Context)) {
		others.Add(1)
		go func() {
			defer others.Done()
			do(ctx)
		}()
	}
	run(c.watch)
	if c.reporter != nil {
		run(c.reporter.run)
	}
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pause := c.follower.poll(ctx)
		c.show()
		wait(ctx, nil, pause)
	}
}

// Ready waits for a verified and fresh state. If the service does not respond before the context
// ends, a fresh saved state suffices. The error contains the last problem. The client continues to
// run.
func (c *Client) Ready(ctx context.Context) error {
	isFresh := func() bool { return c.follower.view.Load().isFresh(time.Now()) }
	isReady := func() bool {
		c.lock.Lock()
		defer c.lock.Unlock()
		return c.hasAsked && isFresh()
	}
	if c.await(ctx, isReady) || isFresh() {
		return nil
	}
	return fmt.Errorf("rescind: not ready: %s", c.Status().Problem)
}

// WaitFor waits until the client has a feed entry. It returns false if the context ends first.
func (c *Client) WaitFor(ctx context.Context, sequence uint64) bool {
	return c.await(ctx, func() bool {
		now := c.follower.view.Load()
		return now.state != nil && now.sequence() >= sequence
	})
}

// await waits until an exchange meets a condition. It returns false if the context ends first.
func (c *Client) await(ctx context.Context, isMet func() bool) bool {
	for {
		changed := c.news()
		if isMet() {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// SigningKeys returns the verified signing keys that the feed head names, or nil if it names none.
// A program that verifies warrants calls it when Keys in Status changes.
func (c *Client) SigningKeys(ctx context.Context) ([]*SigningKey, error) {
	now, trust := c.follower.view.Load(), c.follower.trust.Load()
	if now.state == nil || !now.isTrusted || now.state.head.keys == nil || trust.held == nil {
		return nil, nil
	}
	named := *now.state.head.keys
	path := keysPath + "/" + hex.EncodeToString(named.sha256[:])
	blob, err := c.follower.transport.getFar(ctx, path, min(keysMax, int64(named.number)))
	if err != nil {
		return nil, err
	}
	return openSigningKeys(blob, named, trust.tenant, trust.held.signingKeys)
}

// news returns a channel that is closed at the next exchange.
func (c *Client) news() <-chan struct{} {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.changed
}

// show wakes all waiters, because there may be a newer view.
func (c *Client) show() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.hasAsked = true
	close(c.changed)
	c.changed = make(chan struct{})
}

// watch emits events when the state becomes fresh or stale, even during a long poll.
func (c *Client) watch(ctx context.Context) {
	for wasFresh := false; ctx.Err() == nil; {
		changed, left := c.news(), c.follower.view.Load().left(time.Now())
		isFresh := left > 0
		if isFresh && !wasFresh {
			c.note(BecameFresh{})
		} else if wasFresh && !isFresh {
			c.note(BecameStale{})
		}
		if !isFresh {
			left = askAgain
		}
		wasFresh = isFresh
		wait(ctx, changed, left)
	}
}

// note counts an event, and passes it to OnEvent.
func (c *Client) note(event Event) {
	c.lock.Lock()
	switch event := event.(type) {
	case PollSucceeded:
		c.status.Problem = ""
	case BecameStale:
		if c.status.Problem == "" {
			c.status.Problem = "the service has not confirmed the state in time"
		}
	case ResponseRejected:
		c.status.Refusals[event.Reason]++
		c.status.Problem = "the last response was rejected: " + string(event.Reason)
	case PollFailed:
		c.status.Failures++
		c.status.Problem = event.Message
	}
	c.lock.Unlock()
	c.noting.Lock()
	defer c.noting.Unlock()
	c.onEvent(event)
}
