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

// Polled says that the service answered. Changed is false if it had nothing new.
type Polled struct {
	Took    time.Duration
	Changed bool
}

// Advanced says that the client holds entry After, and Count revoked warrants.
type Advanced struct {
	Before, After uint64
	Count         int
}

// Refused says that an answer did not pass a check, so the state did not change.
type Refused struct{ Reason Reason }

// Failed says that the service did not answer, or with an error. The next poll is after Pause.
type Failed struct {
	Message string
	Pause   time.Duration
}

// BecameStale says that warrants that are not known to be revoked are Stale from now on.
type BecameStale struct{}

// Recovered says that the state is recent: at first, and after BecameStale.
type Recovered struct{}

// SignerChanged says that another list signer signed the newest head: Key, in hexadecimal digits.
type SignerChanged struct{ Key string }

// TrustChanged says that the client holds another trust document, and from which pin it follows.
type TrustChanged struct {
	Version uint64
	Pin     string
}

// Reported says that the service accepted a report. If Status is `foreign`, it does not know the
// history that this client holds.
type Reported struct {
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
	case Polled, Advanced:
		return
	case Reported:
		if event.Status != "foreign" {
			return
		}
	}
	log.Print("rescind: ", event)
}

func (Polled) event()        {}
func (Advanced) event()      {}
func (Refused) event()       {}
func (Failed) event()        {}
func (BecameStale) event()   {}
func (Recovered) event()     {}
func (SignerChanged) event() {}
func (TrustChanged) event()  {}
func (Reported) event()      {}
func (ReportFailed) event()  {}

func (e Polled) String() string {
	return fmt.Sprintf("the service answered after %s, with news: %t", e.Took, e.Changed)
}

func (e Advanced) String() string {
	return fmt.Sprintf("holds entry %d after %d, with %d revoked warrants", e.After, e.Before, e.Count)
}

func (e Refused) String() string {
	return fmt.Sprintf("an answer of the service was refused: %s", e.Reason)
}

func (e Failed) String() string {
	return fmt.Sprintf("the feed cannot be followed: %s", e.Message)
}

func (BecameStale) String() string { return "the state is stale, so warrants are not clear" }

func (Recovered) String() string { return "the state is recent" }

func (e SignerChanged) String() string { return "the list signer now is " + e.Key }

func (e TrustChanged) String() string {
	return fmt.Sprintf("the trust document now is version %d, by the root %s", e.Version, e.Pin)
}

func (e Reported) String() string {
	return fmt.Sprintf("reported entry %d, which is %s", e.Sequence, e.Status)
}

func (e ReportFailed) String() string { return "a report failed: " + e.Message }
