package rescind

import (
	"fmt"
	"log"
	"time"
)

// Event is something that happened to a client, for metrics and logs. Its text is for people.
type Event interface {
	fmt.Stringer
	event()
}

// PollSucceeded says that the service answered. Changed is false if it had nothing new.
type PollSucceeded struct {
	Took    time.Duration
	Changed bool
}

// StateAdvanced says that the client holds entry After, and Count revoked warrants.
type StateAdvanced struct {
	Before, After uint64
	Count         int
}

// ResponseRejected says that an answer did not pass a check, so the state did not change.
type ResponseRejected struct{ Reason Reason }

// PollFailed says that the service did not answer, or with an error. The next poll is after Pause.
type PollFailed struct {
	Message string
	Pause   time.Duration
}

// BecameStale says that warrants that are not known to be revoked are Stale from now on.
type BecameStale struct{}

// BecameFresh says that the state is recent: at first, and after BecameStale.
type BecameFresh struct{}

// SignerChanged says that another list signer signed the newest head: Key, in hexadecimal digits.
type SignerChanged struct{ Key string }

// TrustChanged says that the client holds another trust document, and from which pin it follows.
type TrustChanged struct {
	Version uint64
	Pin     string
}

// ReportAccepted says that the service accepted a report. If Status is `foreign`, it does not know the
// history that this client holds.
type ReportAccepted struct {
	Sequence uint64
	Status   string
}

// ReportFailed says that a report did not arrive, which changes no verdict. If IsUnregistered, the
// service refused the registration, so it does not count this client.
type ReportFailed struct {
	Message        string
	Pause          time.Duration
	IsUnregistered bool
}

// LogEvent writes an event to the standard logger, unless it is a part of normal operation. It is the
// default of Options.OnEvent.
func LogEvent(event Event) {
	switch event := event.(type) {
	case PollSucceeded, StateAdvanced:
		return
	case ReportAccepted:
		if event.Status != "foreign" {
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
	return fmt.Sprintf("the service answered after %s, with news: %t", e.Took, e.Changed)
}

func (e StateAdvanced) String() string {
	return fmt.Sprintf("holds entry %d after %d, with %d revoked warrants", e.After, e.Before, e.Count)
}

func (e ResponseRejected) String() string {
	return fmt.Sprintf("an answer of the service was refused: %s", e.Reason)
}

func (e PollFailed) String() string {
	return fmt.Sprintf("the feed cannot be followed: %s", e.Message)
}

func (BecameStale) String() string { return "the state is stale, so warrants are not clear" }

func (BecameFresh) String() string { return "the state is recent" }

func (e SignerChanged) String() string { return "the list signer now is " + e.Key }

func (e TrustChanged) String() string {
	return fmt.Sprintf("the trust document now is version %d, by the root %s", e.Version, e.Pin)
}

func (e ReportAccepted) String() string {
	return fmt.Sprintf("reported entry %d, which is %s", e.Sequence, e.Status)
}

func (e ReportFailed) String() string { return "a report failed: " + e.Message }
