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
	members, err := parseJSON(body)
	if err != nil {
		return nil, err
	}
	forms, ok := members["documents"].([]any)
	if !ok {
		return nil, refuse(Malformed)
	}
	documents := make([]*document, len(forms))
	for n, each := range forms {
		if documents[n], err = documentOf(each); err != nil {
			return nil, err
		}
	}
	if len(documents) > documentsMax {
		return nil, refuse(TooLarge)
	}
	for _, each := range documents {
		if err := each.read(); err != nil {
			return nil, err
		}
	}
	return documents, nil
}

// documentOf returns a document with only its payload and signatures parsed.
func documentOf(form any) (*document, error) {
	members, _ := form.(map[string]any)
	signatures, ok := members["Signatures"].([]any)
	if !ok {
		return nil, refuse(Malformed)
	}
	reader := &values{}
	parsed := &document{payload: reader.base64(members["Payload"]), signatures: map[string][]byte{}}
	for _, each := range signatures {
		signature, _ := each.(map[string]any)
		by := string(reader.base64(signature["Key"]))
		if _, twice := parsed.signatures[by]; twice {
			reader.fail()
		}
		parsed.signatures[by] = reader.base64(signature["Signature"])
	}
	return parsed, reader.err
}

// encode returns the document in the format of a response.
func (d *document) encode() []byte {
	signatures := []any{}
	for by, signature := range d.signatures {
		signatures = append(signatures, map[string]string{
			"Key": toBase64([]byte(by)), "Signature": toBase64(signature),
		})
	}
	form := map[string]any{"Payload": toBase64(d.payload), "Signatures": signatures}
	data, _ := json.Marshal(map[string]any{"documents": []any{form}})
	return data
}

// read parses the members of the document from its payload.
func (d *document) read() error {
	if len(d.payload) > documentMax || len(d.signatures) > signaturesMax {
		return refuse(TooLarge)
	}
	members, err := readFields(d.payload, true)
	if err != nil {
		return err
	}
	d.hash = sha256.Sum256(d.payload)
	d.tenant, d.version = members.text("Tenant"), members.number("Version")
	d.issuedAt, d.expiresAt = members.moment("IssuedAt"), members.moment("ExpiresAt")
	d.roots = members.roots()
	end := members.table("Feed")
	d.feed = position{end.number("Sequence"), end.hash("Chain")}
	d.lists = members.signers(d.roots)
	if members.has("Log") {
		log := members.table("Log")
		log.text("Origin")
		log.number("Size")
		log.hash("Root")
	}
	if members.has("Witnesses") {
		witnesses := members.table("Witnesses")
		if witnesses.number("Quorum") > uint64(len(witnesses.rising("Keys", kindText))) {
			members.fail()
		}
	}
	if members.has("SigningKeys") {
		covered := members.hash("SigningKeys")
		d.signingKeys = &covered
	}
	if d.version < 1 {
		members.fail()
	}
	return members.err()
}

func (f *fields) roots() (root roots) {
	members := f.table("Roots")
	for _, each := range members.rising("Keys", kindBytes) {
		root.keys = append(root.keys, members.asKey(each))
	}
	threshold := members.number("Threshold")
	// An unknown member could change the meaning of the roots, so it is rejected.
	if threshold < 1 || threshold > uint64(len(root.keys)) || len(root.keys) > rootsMax || len(members.members) != 2 {
		members.fail()
	}
	root.threshold, root.pin = int(threshold), pinOf(root.keys, threshold)
	return root
}

func pinOf(keys []key, threshold uint64) string {
	items := make([]any, len(keys))
	for n := range keys {
		items[n] = keys[n][:]
	}
	data := encode(map[string]any{"Keys": items, "Threshold": threshold})
	sum := sha256.Sum256(append([]byte(rootsPrefix), data...))
	return hex.EncodeToString(sum[:])
}

// signers returns the keys that `Signers` lists for SRLs. It rejects root keys.
func (f *fields) signers(by roots) (lists []key) {
	signers := f.list("Signers", kindMap)
	if len(signers) > signersMax {
		f.fail()
	}
	var before []byte
	for _, each := range signers {
		members := f.asTable(each)
		signer, uses := members.key("Key"), members.rising("Uses", kindText)
		if len(uses) == 0 || contains(by.keys, signer) || bytes.Compare(before, signer[:]) >= 0 {
			f.fail()
		}
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

// checkSignedBy checks that enough of these roots have signed.
func (d *document) checkSignedBy(by roots) error {
	left := by.threshold
	for _, each := range by.keys {
		signature, ok := d.signatures[string(each[:])]
		if ok && isSigned(trustPrefix, d.hash[:], signature, each) {
			left--
		}
	}
	if left > 0 {
		return refuse(Root)
	}
	return nil
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
func (b belief) followed(documents []*document, now time.Time) (belief, error) {
	if len(documents) == 0 {
		return b, nil
	}
	for _, each := range documents {
		if each.tenant != b.tenant {
			return b, refuse(Tenant)
		}
	}
	newest := b.held
	for _, each := range documents {
		var err error
		if newest, err = each.after(newest, b.pin); err != nil {
			return b, err
		}
	}
	if newest == nil {
		return b, refuse(Root)
	}
	if documents[len(documents)-1].version < newest.version {
		return b, refuse(Rollback)
	}
	if newest == b.held {
		return b, nil
	}
	if lifetime := newest.expiresAt.Sub(newest.issuedAt); lifetime <= 0 || lifetime > documentLifetimeMax {
		return b, refuse(Lifetime)
	}
	if newest.issuedAt.Sub(now) > futureMax {
		return b, refuse(Future)
	}
	return belief{b.tenant, b.pin, newest}, nil
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

// verified is the verifier of a client (TRUST-13). After the reasons `signature`, `trust_expired`
// and `behind`, read documents and check the response again.
func (b belief) verified(answer *answer, now time.Time, likely *key) (head, key, error) {
	signed, by, err := b.ofSaved(answer, now, likely)
	if err != nil {
		return signed, by, err
	}
	if !now.Before(b.expiresAt()) {
		return signed, by, refuse(TrustExpired)
	}
	if signed.trust != nil && signed.trust.number > b.held.version {
		return signed, by, refuse(Behind)
	}
	if signed.trust != nil && signed.trust.number == b.held.version && signed.trust.sha256 != b.held.hash {
		return signed, by, refuse(Equivocation)
	}
	return signed, by, nil
}

// ofSaved is the verifier of a saved state. It ignores expiry. It parses no head before it has
// verified the signature.
func (b belief) ofSaved(answer *answer, _ time.Time, likely *key) (head, key, error) {
	signers := b.named()
	if likely != nil && contains(signers, *likely) {
		signers = append([]key{*likely}, signers...)
	}
	for _, each := range signers {
		if isSigned(headPrefix, answer.payload, answer.signature, each) {
			signed, err := readHead(answer.payload)
			return signed, each, err
		}
	}
	return head{}, key{}, refuse(Signature)
}
