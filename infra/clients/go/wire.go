package rescind

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"time"
	"unicode/utf8"
)

const (
	answerMax     = 4 << 20 // the maximum size of an answer, in bytes
	idMax         = 72      // the maximum size of an identifier, in bytes
	baseBytesEach = 80      // the size of a base, in bytes per identifier
	futureMax     = 30 * time.Second
	hintMax       = 60 // the longest pause and wait that a service can request, in seconds
	jsonDepthMax  = 64 // the maximum nesting of objects and arrays in JSON

	headPrefix  = "rescind-feed-head-v1\n"
	chainPrefix = "rescind-feed-v1\n"
)

// hash is a SHA-256 hash.
type hash [sha256.Size]byte

func hashOf(data []byte) hash { return sha256.Sum256(data) }

// key is an Ed25519 public key.
type key [ed25519.PublicKeySize]byte

func (k key) String() string { return hex.EncodeToString(k[:]) }

// position is a place in the feed: a sequence, and the chain hash at it.
type position struct {
	sequence uint64
	chain    hash
}

// reference identifies a blob by its hash, and by its version or its size in bytes.
type reference struct {
	sha256 hash
	number uint64
}

// base identifies a published SRL that covers the entries up to `at`.
type base struct {
	version uint64
	at      position
	sha256  hash
	count   uint64
}

// sizeMax returns the maximum size of the base, in bytes.
func (b base) sizeMax() uint64 { return (b.count + 2) * baseBytesEach }

// head is the signed end of a feed.
type head struct {
	tenant              string
	at                  position
	issuedAt, expiresAt time.Time
	base                base
	trust, keys         *reference
}

// entry is a change of the set of revoked warrants. Without both members, it is a discontinuity.
type entry struct {
	sequence         uint64
	revoked, removed []item
}

func (e entry) isBreak() bool { return len(e.revoked) == 0 && len(e.removed) == 0 }

// answer is a response to a poll: an encoded signed head, and the encoded entries up to it.
type answer struct {
	payload, signature []byte
	entries            [][]byte
	pollSeconds        float64
	maxWait            int
}

// fields reads members of a map. `err` is the error of the first invalid member.
type fields struct {
	members map[string]item
	err     error
}

func (f *fields) fail() {
	if f.err == nil {
		f.err = refuse(Malformed)
	}
}

func (f *fields) of(name string, kind byte) item {
	found, ok := f.members[name]
	if !ok || found.kind != kind {
		f.fail()
		return item{}
	}
	return found
}

func (f *fields) has(name string) bool {
	_, ok := f.members[name]
	return ok
}

func (f *fields) text(name string) string  { return string(f.of(name, kindText).data) }
func (f *fields) bytes(name string) []byte { return f.of(name, kindBytes).data }

func (f *fields) number(name string) uint64 {
	found := f.of(name, kindUint).number
	if found > numberMax {
		f.fail()
	}
	return found
}

func (f *fields) hash(name string) (found hash) {
	if data := f.bytes(name); copy(found[:], data) != len(found) || len(data) != len(found) {
		f.fail()
	}
	return found
}

func (f *fields) key(name string) key { return f.asKey(f.of(name, kindBytes)) }

// asKey returns a public key, and rejects keys for which anyone could sign.
func (f *fields) asKey(given item) (found key) {
	copy(found[:], given.data)
	if given.kind != kindBytes || !isSafe(given.data) {
		f.fail()
	}
	return found
}

func (f *fields) moment(name string) time.Time {
	given := f.text(name)
	found, err := time.Parse(time.RFC3339, given)
	// The format is UTC with four-digit years and whole seconds. Year 0 is invalid.
	if err != nil || found.Year() < 1 || found.Format("2006-01-02T15:04:05Z") != given {
		f.fail()
	}
	return found
}

func (f *fields) table(name string) *fields {
	return &fields{f.of(name, kindMap).members, f.err}
}

// list returns the items of a list, all of the same kind.
func (f *fields) list(name string, kind byte) []item {
	found := f.of(name, kindList).items
	for _, each := range found {
		if each.kind != kind {
			f.fail()
		}
	}
	return found
}

// rising returns a list of texts or bytes in strictly ascending order.
func (f *fields) rising(name string, kind byte) []item {
	found := f.list(name, kind)
	for n := 1; n < len(found); n++ {
		if bytes.Compare(found[n-1].data, found[n].data) >= 0 {
			f.fail()
		}
	}
	return found
}

func (f *fields) reference(name, counted string) *reference {
	if !f.has(name) {
		return nil
	}
	named := f.table(name)
	found := &reference{named.hash("SHA256"), named.number(counted)}
	f.take(named)
	return found
}

// take copies the error of a table to the enclosing map.
func (f *fields) take(table *fields) {
	if table.err != nil {
		f.fail()
	}
}

func readHead(payload []byte) (head, error) {
	members, err := decodeMap(payload, true)
	if err != nil {
		return head{}, err
	}
	all := &fields{members: members}
	named := all.table("Base")
	found := head{
		tenant:    all.text("Tenant"),
		at:        position{all.number("Sequence"), all.hash("Chain")},
		issuedAt:  all.moment("IssuedAt"),
		expiresAt: all.moment("ExpiresAt"),
		base: base{
			version: named.number("Version"),
			at:      position{named.number("Sequence"), named.hash("Chain")},
			sha256:  named.hash("SHA256"),
			count:   named.number("Count"),
		},
		trust: all.reference("Trust", "Version"),
		keys:  all.reference("Keys", "Size"),
	}
	all.take(named)
	if found.base.at.sequence > found.at.sequence {
		all.fail()
	}
	return found, all.err
}

func readEntry(data []byte, sequence uint64) (entry, error) {
	members, err := decodeMap(data, true)
	if err != nil {
		return entry{}, err
	}
	all := &fields{members: members}
	found := entry{all.number("Sequence"), all.ids("Revoked"), all.ids("Removed")}
	if haveCommon(found.revoked, found.removed) {
		all.fail()
	}
	if all.err == nil && found.sequence != sequence {
		return entry{}, refuse(Gap)
	}
	return found, all.err
}

func (f *fields) ids(name string) []item {
	if !f.has(name) {
		return nil
	}
	found := f.rising(name, kindText)
	if len(found) == 0 {
		f.fail()
	}
	for _, each := range found {
		if len(each.data) > idMax {
			f.fail()
		}
	}
	return found
}

// haveCommon returns whether two sorted lists have an item in common.
func haveCommon(one, two []item) bool {
	for len(one) > 0 && len(two) > 0 {
		switch order := bytes.Compare(one[0].data, two[0].data); {
		case order == 0:
			return true
		case order < 0:
			one = one[1:]
		default:
			two = two[1:]
		}
	}
	return false
}

// readBase passes each identifier in an SRL payload to `each`. The payload must match `named`, or
// it is rejected as `too_large`, `hash`, `malformed` or `version`.
func readBase(data []byte, named base, each func(id []byte)) error {
	if uint64(len(data)) > named.sizeMax() {
		return refuse(TooLarge)
	}
	if sha256.Sum256(data) != named.sha256 {
		return refuse(Hash)
	}
	reader := decoder{data, true}
	kind, size, err := reader.header()
	if err != nil || kind != kindMap {
		return refuse(Malformed)
	}
	var before []byte
	var version item
	hasIDs, hasVersion := false, false
	for ; size > 0; size-- {
		name, err := reader.name(&before)
		if err != nil {
			return err
		}
		if name == "RevokedIDs" {
			hasIDs, err = true, reader.texts(named.count, each)
		} else if found, fault := reader.item(1); fault != nil {
			err = fault
		} else if name == "Version" {
			hasVersion, version = true, found
		}
		if err != nil {
			return err
		}
	}
	if !hasIDs || len(reader.left) > 0 {
		return refuse(Malformed)
	}
	if !hasVersion || version.kind != kindUint || version.number != named.version {
		return refuse(OtherVersion)
	}
	return nil
}

// texts reads a list of `count` texts in strictly ascending order. It does not store them, because
// there may be millions.
func (d *decoder) texts(count uint64, each func([]byte)) error {
	kind, size, err := d.header()
	if err != nil || kind != kindList || size != count {
		return refuse(Malformed)
	}
	var before []byte
	for n := uint64(0); n < size; n++ {
		kind, length, err := d.header()
		if err != nil || kind != kindText {
			return refuse(Malformed)
		}
		id, err := d.text(length)
		if err != nil {
			return err
		}
		if len(id) > idMax || (n > 0 && bytes.Compare(before, id) >= 0) {
			return refuse(Malformed)
		}
		before = id
		each(id)
	}
	return nil
}

// firstChain returns the chain hash at sequence 0, which differs for each tenant.
func firstChain(tenant string) hash { return sha256.Sum256([]byte(chainPrefix + tenant)) }

// nextChain returns the chain hash after an encoded entry.
func nextChain(chain hash, entry []byte) hash {
	of := sha256.Sum256(entry)
	var both [2 * sha256.Size]byte
	copy(both[:], chain[:])
	copy(both[sha256.Size:], of[:])
	return sha256.Sum256(both[:])
}

// small contains all encodings of points of small order. Anyone can sign for such a key.
var small = func() map[key]bool {
	found := map[key]bool{}
	for _, text := range []string{
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	} {
		var each key
		hex.Decode(each[:], []byte(text))
		found[each] = true
		each[len(each)-1] |= 0x80
		found[each] = true
	}
	return found
}()

// isSafe returns whether data is a key of 32 bytes, and not a point of small order.
func isSafe(data []byte) bool {
	var each key
	copy(each[:], data)
	return len(data) == len(each) && !small[each]
}

func isSigned(prefix string, data, signature []byte, by key) bool {
	signed := append([]byte(prefix), data...)
	return ed25519.Verify(by[:], signed, signature)
}

var errJSON = errors.New("no JSON of this form")

// parseJSON returns the JSON object in `body`. Names are compared exactly, unlike with struct tags.
func parseJSON(body []byte) (map[string]any, error) {
	if !utf8.Valid(body) || jsonDepth(body) > jsonDepthMax {
		return nil, errJSON
	}
	var found any
	reader := json.NewDecoder(bytes.NewReader(body))
	reader.UseNumber()
	if reader.Decode(&found) != nil {
		return nil, errJSON
	}
	if _, err := reader.Token(); err != io.EOF {
		return nil, errJSON
	}
	members, ok := found.(map[string]any)
	if !ok {
		return nil, errJSON
	}
	return members, nil
}

// jsonDepth returns the nesting depth of objects and arrays.
func jsonDepth(body []byte) (deepest int) {
	depth, isText := 0, false
	for n := 0; n < len(body); n++ {
		switch each := body[n]; {
		case each == '"':
			isText = !isText
		case isText && each == '\\':
			n++
		case !isText && (each == '[' || each == '{'):
			depth++
		case !isText && (each == ']' || each == '}'):
			depth--
		}
		if depth > deepest {
			deepest = depth
		}
	}
	return deepest
}

// fromBase64 decodes padded base64 of the standard alphabet in its only valid form.
func fromBase64(given any) ([]byte, error) {
	text, ok := given.(string)
	if !ok {
		return nil, errJSON
	}
	data, err := base64.StdEncoding.DecodeString(text)
	// The decoder ignores line ends and unused bits.
	if err != nil || toBase64(data) != text {
		return nil, errJSON
	}
	return data, nil
}

func toBase64(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

func parseAnswer(body []byte) (*answer, error) {
	if len(body) > answerMax {
		return nil, refuse(TooLarge)
	}
	found, err := answerOf(body)
	if err != nil {
		return nil, refuse(Malformed)
	}
	return found, nil
}

func answerOf(body []byte) (*answer, error) {
	members, err := parseJSON(body)
	if err != nil {
		return nil, err
	}
	signed, isMap := members["head"].(map[string]any)
	entries, isList := members["entries"].([]any)
	if !isMap || !isList {
		return nil, errJSON
	}
	found := &answer{entries: make([][]byte, len(entries))}
	for n, each := range entries {
		if found.entries[n], err = fromBase64(each); err != nil {
			return nil, err
		}
	}
	if found.payload, err = fromBase64(signed["Payload"]); err != nil {
		return nil, err
	}
	if found.signature, err = fromBase64(signed["Signature"]); err != nil {
		return nil, err
	}
	if found.pollSeconds, err = hint(members, "poll_seconds", 1); err != nil {
		return nil, err
	}
	wait, err := hint(members, "max_wait_seconds", 0)
	found.maxWait = int(wait)
	return found, err
}

// hint returns a number within bounds, because no peer may silence a client for long.
func hint(members map[string]any, name string, without float64) (float64, error) {
	given, ok := members[name]
	if !ok {
		return without, nil
	}
	number, ok := given.(json.Number)
	if !ok {
		return 0, errJSON
	}
	found, err := strconv.ParseFloat(string(number), 64)
	if err != nil {
		return 0, errJSON
	}
	if found > hintMax {
		return hintMax, nil
	}
	if found < 0 {
		return 0, nil
	}
	return found, nil
}

// encode returns the form that parseAnswer reads.
func (a *answer) encode() []byte {
	entries := make([]string, len(a.entries))
	for n, each := range a.entries {
		entries[n] = toBase64(each)
	}
	signed := map[string]string{"Payload": toBase64(a.payload), "Signature": toBase64(a.signature)}
	data, _ := json.Marshal(map[string]any{
		"head": signed, "entries": entries, "poll_seconds": a.pollSeconds, "max_wait_seconds": a.maxWait,
	})
	return data
}
