package rescind

// Verdict is the answer about a chain of warrants. Only Clear lets a request through.
type Verdict int

const (
	// Stale says that the client does not know: it has no recent answer, or the head has expired.
	Stale Verdict = iota
	// Revoked says that a warrant of the chain is known to be revoked.
	Revoked
	// Clear says that none is, as the service confirmed recently.
	Clear
)

func (v Verdict) String() string { return [...]string{"stale", "revoked", "clear"}[v] }
