package rescind

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"
)

const (
	trustMax      = 6 << 20 // the maximum size of a response with trust documents, in bytes
	documentsMax  = 64
	documentMax   = 64 << 10
	signaturesMax = 16
	rootsMax      = 8
	signersMax    = 256

	documentLifetimeMax = 400 * 24 * time.Hour

	trustPrefix = "rescind-trust-v1\n"
	rootsPrefix = "rescind-roots-v1\n"
	useLists    = "lists"
)

// roots is a trust root: the root keys, and the number of them that must sign a document.
type roots struct {
	keys      []key
	threshold int
	pin       string
}

// document is a trust document with its signatures by key, none of them verified (TRUST-6).
type document struct {
	payload             []byte
	hash                hash
	signatures          map[string][]byte
	tenant              string
	version             uint64
	issuedAt, expiresAt time.Time
	roots               roots
	lists               []key // the keys that may sign heads
	feed                position
	signingKeys         *hash
}

// parseDocuments returns the documents in a response of `GET /v1/trust`.
func parseDocuments(body []byte) ([]*document, error) {
	if len(body) > trustMax {
		return nil, refuse(TooLarge)
	}
	given, err := unsigned(body)
	if err != nil {
		return nil, refuse(Malformed)
	}
	if len(given) > documentsMax {
		return nil, refuse(TooLarge)
	}
	for _, each := range given {
		if err := each.read(); err != nil {
			return nil, err
		}
	}
	return given, nil
}

// unsigned returns documents with only their payload and signatures parsed.
func unsigned(body []byte) ([]*document, error) {
	members, err := parseJSON(body)
	if err != nil {
		return nil, err
	}
	forms, ok := members["documents"].([]any)
	if !ok {
		return nil, errJSON
	}
	found := make([]*document, len(forms))
	for n, each := range forms {
		if found[n], err = documentOf(each); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func documentOf(form any) (*document, error) {
	members, _ := form.(map[string]any)
	signatures, ok := members["Signatures"].([]any)
	if !ok {
		return nil, errJSON
	}
	found := &document{signatures: map[string][]byte{}}
	var err error
	if found.payload, err = fromBase64(members["Payload"]); err != nil {
		return nil, err
	}
	for _, each := range signatures {
		one, _ := each.(map[string]any)
		by, err := fromBase64(one["Key"])
		if err != nil {
			return nil, err
		}
		if _, twice := found.signatures[string(by)]; twice {
			return nil, errJSON
		}
		if found.signatures[string(by)], err = fromBase64(one["Signature"]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// form returns the document in the format of the API.
func (d *document) form() map[string]any {
	signatures := []any{}
	for by, signature := range d.signatures {
		signatures = append(signatures, map[string]string{
			"Key": toBase64([]byte(by)), "Signature": toBase64(signature),
		})
	}
	return map[string]any{"Payload": toBase64(d.payload), "Signatures": signatures}
}

// read parses the members of the document from its payload.
func (d *document) read() error {
	if len(d.payload) > documentMax || len(d.signatures) > signaturesMax {
		return refuse(TooLarge)
	}
	members, err := decodeMap(d.payload, true)
	if err != nil {
		return err
	}
	all := &fields{members: members}
	end := all.table("Feed")
	d.hash = sha256.Sum256(d.payload)
	d.tenant, d.version = all.text("Tenant"), all.number("Version")
	d.issuedAt, d.expiresAt = all.moment("IssuedAt"), all.moment("ExpiresAt")
	d.roots = all.roots()
	d.feed = position{end.number("Sequence"), end.hash("Chain")}
	all.take(end)
	d.lists = all.signers(d.roots)
	all.checkLog()
	all.checkWitnesses()
	if all.has("SigningKeys") {
		covered := all.hash("SigningKeys")
		d.signingKeys = &covered
	}
	if d.version < 1 {
		all.fail()
	}
	return all.err
}

func (f *fields) roots() (found roots) {
	given := f.table("Roots")
	for _, each := range given.rising("Keys", kindBytes) {
		found.keys = append(found.keys, given.asKey(each))
	}
	threshold := given.number("Threshold")
	// An unknown member could change the meaning of the roots, so it is rejected.
	if threshold < 1 || threshold > uint64(len(found.keys)) || len(found.keys) > rootsMax || len(given.members) != 2 {
		given.fail()
	}
	f.take(given)
	found.threshold = int(threshold)
	found.pin = pinOf(found.keys, threshold)
	return found
}

func pinOf(keys []key, threshold uint64) string {
	listed := make([]any, len(keys))
	for n := range keys {
		listed[n] = keys[n][:]
	}
	data := encode(map[string]any{"Keys": listed, "Threshold": threshold})
	sum := sha256.Sum256(append([]byte(rootsPrefix), data...))
	return hex.EncodeToString(sum[:])
}

// signers returns the keys that `Signers` lists for SRLs. It rejects root keys.
func (f *fields) signers(by roots) (lists []key) {
	given := f.list("Signers", kindMap)
	if len(given) > signersMax {
		f.fail()
	}
	var before []byte
	for _, each := range given {
		named := &fields{members: each.members}
		signer, uses := named.key("Key"), named.rising("Uses", kindText)
		if len(uses) == 0 || contains(by.keys, signer) || bytes.Compare(before, signer[:]) >= 0 {
			named.fail()
		}
		f.take(named)
		for _, use := range uses {
			if string(use.data) == useLists {
				lists = append(lists, signer)
			}
		}
		before = append([]byte{}, signer[:]...)
	}
	return lists
}

func contains(keys []key, wanted key) bool {
	for _, each := range keys {
		if each == wanted {
			return true
		}
	}
	return false
}

func (f *fields) checkLog() {
	if f.has("Log") {
		log := f.table("Log")
		log.text("Origin")
		log.number("Size")
		log.hash("Root")
		f.take(log)
	}
}

func (f *fields) checkWitnesses() {
	if f.has("Witnesses") {
		given := f.table("Witnesses")
		if given.number("Quorum") > uint64(len(given.rising("Keys", kindText))) {
			given.fail()
		}
		f.take(given)
	}
}

// isSignedBy returns whether enough of these roots have signed.
func (d *document) isSignedBy(by roots) bool {
	left := by.threshold
	for _, each := range by.keys {
		signature, ok := d.signatures[string(each[:])]
		if ok && isSigned(trustPrefix, d.hash[:], signature, each) {
			left--
		}
	}
	return left <= 0
}

// belief is the trust of a client in one tenant: the pin, and the document reached from it.
type belief struct {
	tenant string
	pin    string
	held   *document
}

func checkPin(pin string) error {
	data, err := hex.DecodeString(pin)
	if err != nil || len(data) != sha256.Size || hex.EncodeToString(data) != pin {
		return errors.New("set TrustPin to the 64 digits that `rescind trust show` prints")
	}
	return nil
}

func (b belief) version() uint64 {
	if b.held == nil {
		return 0
	}
	return b.held.version
}

// expiresAt returns the time from which no head clears a warrant. It is in the past without a
// document.
func (b belief) expiresAt() time.Time {
	if b.held == nil {
		return time.Unix(0, 0)
	}
	return b.held.expiresAt
}

// named returns the keys that may have signed the saved head.
func (b belief) named() []key {
	if b.held == nil {
		return nil
	}
	return b.held.lists
}

// position returns the lowest position at which a head is accepted (TRUST-14).
func (b belief) position(signedBy *key, saved *position) *position {
	if b.held == nil || (saved != nil && signedBy != nil && contains(b.held.lists, *signedBy)) {
		return saved
	}
	return &b.held.feed
}

// followed returns the belief after the documents of a response (TRUST-12). Save it before using
// it.
func (b belief) followed(given []*document, now time.Time) (belief, error) {
	if len(given) == 0 {
		return b, nil
	}
	next := b
	for _, each := range given {
		if each.tenant != b.tenant {
			return b, refuse(Tenant)
		}
	}
	for _, each := range given {
		var err error
		if next.held, err = each.after(next.held, next.pin); err != nil {
			return b, err
		}
	}
	if next.held == nil {
		return b, refuse(Root)
	}
	if given[len(given)-1].version < next.held.version {
		return b, refuse(Rollback)
	}
	if next.held == b.held {
		return b, nil
	}
	if err := next.held.checkTimes(now); err != nil {
		return b, err
	}
	return next, nil
}

// after returns the held document after processing this document of a response.
func (d *document) after(held *document, pin string) (*document, error) {
	if held == nil {
		if d.roots.pin != pin {
			return nil, nil
		}
		return d, d.checkSignedBy(d.roots)
	}
	if d.version < held.version || bytes.Equal(d.payload, held.payload) {
		return held, nil
	}
	// Only a signed document is evidence of equivocation by the roots.
	if err := d.checkSignedBy(held.roots); err != nil {
		return nil, err
	}
	if d.version == held.version {
		return nil, refuse(Equivocation)
	}
	return d, d.checkSignedBy(d.roots)
}

func (d *document) checkSignedBy(by roots) error {
	if !d.isSignedBy(by) {
		return refuse(Root)
	}
	return nil
}

func (d *document) checkTimes(now time.Time) error {
	if lifetime := d.expiresAt.Sub(d.issuedAt); lifetime <= 0 || lifetime > documentLifetimeMax {
		return refuse(Lifetime)
	}
	if d.issuedAt.Sub(now) > futureMax {
		return refuse(Future)
	}
	return nil
}

// verified is the verifier of a client (TRUST-13). After the reasons `signature`, `trust_expired`
// and `behind`, read documents and check the response again.
func (b belief) verified(given *answer, now time.Time, likely *key) (head, key, error) {
	found, by, err := b.ofSaved(given, now, likely)
	if err != nil {
		return found, by, err
	}
	if !now.Before(b.expiresAt()) {
		return found, by, refuse(TrustExpired)
	}
	if found.trust != nil && found.trust.number > b.held.version {
		return found, by, refuse(Behind)
	}
	if found.trust != nil && found.trust.number == b.held.version && found.trust.sha256 != b.held.hash {
		return found, by, refuse(Equivocation)
	}
	return found, by, nil
}

// ofSaved is the verifier of a saved state. It ignores expiry.
func (b belief) ofSaved(given *answer, _ time.Time, likely *key) (head, key, error) {
	return signedHead(given, b.named(), likely)
}

// signedHead verifies an answer before parsing it, and returns its head and signing key.
func signedHead(given *answer, by []key, likely *key) (head, key, error) {
	isBy := func(each key) bool { return isSigned(headPrefix, given.payload, given.signature, each) }
	if likely != nil && contains(by, *likely) && isBy(*likely) {
		found, err := readHead(given.payload)
		return found, *likely, err
	}
	for _, each := range by {
		if isBy(each) {
			found, err := readHead(given.payload)
			return found, each, err
		}
	}
	return head{}, key{}, refuse(Signature)
}

// isOfDocuments returns whether to read documents, and to check the response again.
func isOfDocuments(reason Reason) bool {
	return reason == Signature || reason == TrustExpired || reason == Behind
}

// encodeDocument returns a document in the format of a response.
func encodeDocument(d *document) []byte {
	data, _ := json.Marshal(map[string]any{"documents": []any{d.form()}})
	return data
}
