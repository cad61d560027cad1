package rescind

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
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

	headPrefix = "rescind-feed-head-v1\n"
)

// hash is a SHA-256 hash.
type hash [sha256.Size]byte

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

// fields reads members of a map. `isMalformed` is shared by all tables of a payload. The first
// invalid member sets it.
type fields struct {
	members     map[string]item
	isMalformed *bool
}

func readFields(data []byte, strict bool) (*fields, error) {
	members, err := decodeMap(data, strict)
	return &fields{members, new(bool)}, err
}

func (f *fields) fail() { *f.isMalformed = true }

func (f *fields) err() error {
	if *f.isMalformed {
		return refuse(Malformed)
	}
	return nil
}

func (f *fields) of(name string, kind byte) item {
	member, ok := f.members[name]
	if !ok || member.kind != kind {
		f.fail()
		return item{}
	}
	return member
}

func (f *fields) has(name string) bool {
	_, ok := f.members[name]
	return ok
}

func (f *fields) text(name string) string  { return string(f.of(name, kindText).data) }
func (f *fields) bytes(name string) []byte { return f.of(name, kindBytes).data }

func (f *fields) number(name string) uint64 {
	number := f.of(name, kindUint).number
	if number > numberMax {
		f.fail()
	}
	return number
}

func (f *fields) hash(name string) (sum hash) {
	if data := f.bytes(name); copy(sum[:], data) != len(sum) || len(data) != len(sum) {
		f.fail()
	}
	return sum
}

func (f *fields) key(name string) key { return f.asKey(f.of(name, kindBytes)) }

// asKey returns a public key, and rejects keys for which anyone could sign.
func (f *fields) asKey(value item) (public key) {
	copy(public[:], value.data)
	if value.kind != kindBytes || !isSafe(value.data) {
		f.fail()
	}
	return public
}

func (f *fields) moment(name string) time.Time {
	text := f.text(name)
	moment, err := time.Parse(time.RFC3339, text)
	// The format is UTC with four-digit years and whole seconds. Year 0 is invalid.
	if err != nil || moment.Year() < 1 || moment.Format(momentForm) != text {
		f.fail()
	}
	return moment
}

func (f *fields) table(name string) *fields { return f.asTable(f.of(name, kindMap)) }

func (f *fields) asTable(value item) *fields { return &fields{value.members, f.isMalformed} }

// list returns the items of a list, all of the same kind.
func (f *fields) list(name string, kind byte) []item {
	items := f.of(name, kindList).items
	for _, each := range items {
		if each.kind != kind {
			f.fail()
		}
	}
	return items
}

// rising returns a list of texts or bytes in strictly ascending order.
func (f *fields) rising(name string, kind byte) []item {
	items := f.list(name, kind)
	for n := 1; n < len(items); n++ {
		if bytes.Compare(items[n-1].data, items[n].data) >= 0 {
			f.fail()
		}
	}
	return items
}

func (f *fields) reference(name, counted string) *reference {
	if !f.has(name) {
		return nil
	}
	table := f.table(name)
	return &reference{table.hash("SHA256"), table.number(counted)}
}

func readHead(payload []byte) (head, error) {
	members, err := readFields(payload, true)
	if err != nil {
		return head{}, err
	}
	published := members.table("Base")
	signed := head{
		tenant:    members.text("Tenant"),
		at:        position{members.number("Sequence"), members.hash("Chain")},
		issuedAt:  members.moment("IssuedAt"),
		expiresAt: members.moment("ExpiresAt"),
		base: base{
			version: published.number("Version"),
			at:      position{published.number("Sequence"), published.hash("Chain")},
			sha256:  published.hash("SHA256"),
			count:   published.number("Count"),
		},
		trust: members.reference("Trust", "Version"),
		keys:  members.reference("Keys", "Size"),
	}
	if signed.base.at.sequence > signed.at.sequence {
		members.fail()
	}
	return signed, members.err()
}

func readEntry(data []byte, sequence uint64) (entry, error) {
	members, err := readFields(data, true)
	if err != nil {
		return entry{}, err
	}
	change := entry{members.number("Sequence"), members.ids("Revoked"), members.ids("Removed")}
	if haveCommon(change.revoked, change.removed) {
		members.fail()
	}
	if members.err() == nil && change.sequence != sequence {
		return entry{}, refuse(Gap)
	}
	return change, members.err()
}

func (f *fields) ids(name string) []item {
	if !f.has(name) {
		return nil
	}
	ids := f.rising(name, kindText)
	if len(ids) == 0 {
		f.fail()
	}
	for _, each := range ids {
		if len(each.data) > idMax {
			f.fail()
		}
	}
	return ids
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
	reader := decoder{left: data, strict: true}
	kind, size := reader.header()
	if kind != kindMap {
		return refuse(Malformed)
	}
	var before []byte
	version, hasIDs := item{kind: kindSimple}, false
	for ; size > 0 && !reader.isMalformed; size-- {
		switch reader.name(&before) {
		case "RevokedIDs":
			hasIDs = true
			reader.texts(named.count, each)
		case "Version":
			version = reader.item(1)
		default:
			reader.item(1)
		}
	}
	if reader.isMalformed || !hasIDs || len(reader.left) > 0 {
		return refuse(Malformed)
	}
	if version.kind != kindUint || version.number != named.version {
		return refuse(OtherVersion)
	}
	return nil
}

// texts reads a list of `count` texts in strictly ascending order. It does not store them, because
// there may be millions.
func (d *decoder) texts(count uint64, each func([]byte)) {
	kind, size := d.header()
	if kind != kindList || size != count {
		d.fail()
	}
	var before []byte
	for n := uint64(0); n < size; n++ {
		kind, length := d.header()
		id := d.text(length)
		if kind != kindText || len(id) > idMax || (n > 0 && bytes.Compare(before, id) >= 0) {
			d.fail()
		}
		if d.isMalformed {
			return
		}
		before = id
		each(id)
	}
}

// nextChain returns the chain hash after an encoded entry.
func nextChain(chain hash, entry []byte) hash {
	sum := sha256.Sum256(entry)
	return sha256.Sum256(append(chain[:], sum[:]...))
}

// small contains all encodings of points of small order. Anyone can sign for such a key.
var small = func() map[key]bool {
	keys := map[key]bool{}
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
		keys[each] = true
		each[len(each)-1] |= 0x80
		keys[each] = true
	}
	return keys
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

// parseJSON returns the JSON object in `body`. Names are compared exactly, unlike with struct tags.
func parseJSON(body []byte) (map[string]any, error) {
	if !utf8.Valid(body) || jsonDepth(body) > jsonDepthMax {
		return nil, refuse(Malformed)
	}
	var members map[string]any
	reader := json.NewDecoder(bytes.NewReader(body))
	reader.UseNumber()
	if reader.Decode(&members) != nil || members == nil {
		return nil, refuse(Malformed)
	}
	if _, err := reader.Token(); err != io.EOF {
		return nil, refuse(Malformed)
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

// values reads values of JSON. The first invalid value sets `err`.
type values struct{ err error }

func (v *values) fail() { v.err = refuse(Malformed) }

// base64 decodes padded base64 of the standard alphabet in its only valid form.
func (v *values) base64(value any) []byte {
	text, ok := value.(string)
	data, err := base64.StdEncoding.DecodeString(text)
	// The decoder ignores line ends and unused bits.
	if !ok || err != nil || toBase64(data) != text {
		v.fail()
	}
	return data
}

// hint returns a number within bounds, because no peer may silence a client for long.
func (v *values) hint(members map[string]any, name string, without float64) float64 {
	value, ok := members[name]
	if !ok {
		return without
	}
	number, _ := value.(json.Number)
	seconds, err := strconv.ParseFloat(string(number), 64)
	if err != nil {
		v.fail()
	}
	return math.Max(0, math.Min(seconds, hintMax))
}

func toBase64(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

func parseAnswer(body []byte) (*answer, error) {
	if len(body) > answerMax {
		return nil, refuse(TooLarge)
	}
	members, err := parseJSON(body)
	if err != nil {
		return nil, err
	}
	signed, isMap := members["head"].(map[string]any)
	entries, isList := members["entries"].([]any)
	if !isMap || !isList {
		return nil, refuse(Malformed)
	}
	reader := &values{}
	parsed := &answer{
		payload:     reader.base64(signed["Payload"]),
		signature:   reader.base64(signed["Signature"]),
		entries:     make([][]byte, len(entries)),
		pollSeconds: reader.hint(members, "poll_seconds", 1),
		maxWait:     int(reader.hint(members, "max_wait_seconds", 0)),
	}
	for n, each := range entries {
		parsed.entries[n] = reader.base64(each)
	}
	return parsed, reader.err
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
