package rescind

import (
	"fmt"
	"log"
	"time"
)

// Event reports what happened in a client, for metrics and logs. Its text is for people.
type Event interface {
	fmt.Stringer
	event()
}

// PollSucceeded reports a response of the service. Changed is false if it had no change.
type PollSucceeded struct {
	Took    time.Duration
	Changed bool
}

// StateAdvanced reports that the client has entry After, and Count revoked warrants.
type StateAdvanced struct {
	Before, After uint64
	Count         int
}

// ResponseRejected reports that a response failed a check, so the state did not change.
type ResponseRejected struct{ Reason Reason }

// PollFailed reports a missing or an error response. The next poll follows after Pause.
type PollFailed struct {
	Message string
	Pause   time.Duration
}

// BecameStale reports that warrants not known to be revoked are Stale from now on.
type BecameStale struct{}

// BecameFresh reports that the state is fresh, at first and after BecameStale.
type BecameFresh struct{}

// SignerChanged reports a different SRL signer of the newest head. Key is hexadecimal.
type SignerChanged struct{ Key string }

// TrustChanged reports a new trust document, and the pin from which it follows.
type TrustChanged struct {
	Version uint64
	Pin     string
}

// ReportAccepted reports that the service accepted a heartbeat. The Status `equivocation` means that
// this client's history is unknown to the service.
type ReportAccepted struct {
	Sequence uint64
	Status   string
}

// ReportFailed reports that a heartbeat did not arrive. No verdict changes. If IsUnregistered, the
// service refused the registration and does not count this client.
type ReportFailed struct {
	Message        string
	Pause          time.Duration
	IsUnregistered bool
}

// LogEvent writes an event to the standard logger, except events of normal operation. It is the
// default of Options.OnEvent.
func LogEvent(event Event) {
	switch event := event.(type) {
	case PollSucceeded, StateAdvanced:
		return
	case ReportAccepted:
		if event.Status != "equivocation" {
			return
		}
	}
	log.Print("rescind: ", event)
}

func (PollSucceeded) event()    {}
func (StateAdvanced) event()    {}
func (ResponseRejected) event() {}
func (PollFailed) event()       {}
func (BecameStale) event()      {}
func (BecameFresh) event()      {}
func (SignerChanged) event()    {}
func (TrustChanged) event()     {}
func (ReportAccepted) event()   {}
func (ReportFailed) event()     {}

func (e PollSucceeded) String() string {
	return fmt.Sprintf("the service responded after %s, with news: %t", e.Took, e.Changed)
}

func (e StateAdvanced) String() string {
	return fmt.Sprintf("the state advanced from entry %d to entry %d, with %d revoked warrants", e.Before, e.After, e.Count)
}

func (e ResponseRejected) String() string {
	return fmt.Sprintf("rejected a response of the service: %s", e.Reason)
}

func (e PollFailed) String() string {
	return fmt.Sprintf("cannot poll the feed: %s", e.Message)
}

func (BecameStale) String() string { return "the state is stale, and no warrant is clear" }

func (BecameFresh) String() string { return "the state is recent" }

func (e SignerChanged) String() string { return "the SRL signer is now " + e.Key }

func (e TrustChanged) String() string {
	return fmt.Sprintf("accepted version %d of the trust document, with the pin %s", e.Version, e.Pin)
}

func (e ReportAccepted) String() string {
	if e.Status == "equivocation" {
		return "the feed of this client differs from the feed of the service"
	}
	return fmt.Sprintf("reported entry %d: %s", e.Sequence, e.Status)
}

func (e ReportFailed) String() string { return "cannot send a report: " + e.Message }
