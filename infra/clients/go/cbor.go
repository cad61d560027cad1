package rescind

import (
	"bytes"
	"encoding/binary"
	"sort"
	"unicode/utf8"
)

// nestingMax is the maximum nesting of maps and lists.
const nestingMax = 16

// numberMax is the highest sequence and version: the largest integer that every JSON reader
// preserves.
const numberMax = 1 << 53

// The major types of CBOR in the formats.
const (
	kindUint = iota
	kindNegative
	kindBytes
	kindText
	kindList
	kindMap
	kindTag
	kindSimple
)

// item is a CBOR value. `data` contains a text or bytes, as a slice of the decoded input. `number`
// is an integer, or the code of a simple value.
type item struct {
	kind    byte
	number  uint64
	data    []byte
	items   []item
	members map[string]item
}

// decoder reads deterministic CBOR (RFC 8949, 4.2.1) with text keys, without tags and floats. If it
// is not `strict`, headers may be too long and members unordered. Duplicate members are always
// rejected.
type decoder struct {
	left   []byte
	strict bool
}

// decodeMap returns the members of the map in `data`. It rejects other data as `malformed`.
func decodeMap(data []byte, strict bool) (map[string]item, error) {
	reader := decoder{data, strict}
	found, err := reader.item(0)
	if err != nil {
		return nil, err
	}
	if found.kind != kindMap || len(reader.left) > 0 {
		return nil, refuse(Malformed)
	}
	return found.members, nil
}

// item reads a value at this nesting depth.
func (d *decoder) item(depth int) (item, error) {
	if depth > nestingMax {
		return item{}, refuse(Malformed)
	}
	kind, number, err := d.header()
	if err != nil {
		return item{}, err
	}
	found := item{kind: kind, number: number}
	switch kind {
	case kindUint, kindNegative, kindSimple:
	case kindBytes:
		found.data, err = d.take(number)
	case kindText:
		found.data, err = d.text(number)
	case kindList:
		found.items, err = d.list(number, depth+1)
	case kindMap:
		found.members, err = d.members(number, depth+1)
	default:
		return item{}, refuse(Malformed)
	}
	return found, err
}

// header reads the kind of a value, and its size or number.
func (d *decoder) header() (byte, uint64, error) {
	first, err := d.take(1)
	if err != nil {
		return 0, 0, err
	}
	kind, short := first[0]>>5, uint64(first[0]&31)
	if kind == kindSimple {
		if short < 20 || short > 22 {
			return 0, 0, refuse(Malformed)
		}
		return kind, short, nil
	}
	if short < 24 {
		return kind, short, nil
	}
	if short > 27 {
		return 0, 0, refuse(Malformed)
	}
	return d.longer(kind, 1<<(short-24))
}

func (d *decoder) longer(kind byte, size uint64) (byte, uint64, error) {
	var whole [8]byte
	given, err := d.take(size)
	if err != nil {
		return 0, 0, err
	}
	copy(whole[8-size:], given)
	number := binary.BigEndian.Uint64(whole[:])
	least := uint64(24)
	if size > 1 {
		least = 1 << (4 * size)
	}
	if d.strict && number < least {
		return 0, 0, refuse(Malformed)
	}
	return kind, number, nil
}

func (d *decoder) take(size uint64) ([]byte, error) {
	if size > uint64(len(d.left)) {
		return nil, refuse(Malformed)
	}
	taken := d.left[:size]
	d.left = d.left[size:]
	return taken, nil
}

func (d *decoder) text(size uint64) ([]byte, error) {
	taken, err := d.take(size)
	if err == nil && !utf8.Valid(taken) {
		return nil, refuse(Malformed)
	}
	return taken, err
}

func (d *decoder) list(size uint64, depth int) ([]item, error) {
	// Each value has at least one byte. This bounds the claimed size before memory is allocated.
	if size > uint64(len(d.left)) {
		return nil, refuse(Malformed)
	}
	found := []item{}
	for ; size > 0; size-- {
		each, err := d.item(depth)
		if err != nil {
			return nil, err
		}
		found = append(found, each)
	}
	return found, nil
}

func (d *decoder) members(size uint64, depth int) (map[string]item, error) {
	if size > uint64(len(d.left)) {
		return nil, refuse(Malformed)
	}
	found := map[string]item{}
	var before []byte
	for ; size > 0; size-- {
		name, err := d.name(&before)
		if err != nil {
			return nil, err
		}
		if _, twice := found[name]; twice {
			return nil, refuse(Malformed)
		}
		if found[name], err = d.item(depth); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// name reads the name of a member, which must sort after the bytes `before`.
func (d *decoder) name(before *[]byte) (string, error) {
	start := d.left
	kind, size, err := d.header()
	if err != nil {
		return "", err
	}
	if kind != kindText {
		return "", refuse(Malformed)
	}
	name, err := d.text(size)
	if err != nil {
		return "", err
	}
	whole := start[:len(start)-len(d.left)]
	if d.strict && *before != nil && bytes.Compare(*before, whole) >= 0 {
		return "", refuse(Malformed)
	}
	*before = whole
	return string(name), nil
}

// negative is the integer -1 minus its value.
type negative uint64

// encode returns the deterministic CBOR of nil, bool, uint64, negative, string, []byte, []any and
// map[string]any.
func encode(value any) []byte { return appended(nil, value) }

func appended(to []byte, value any) []byte {
	switch value := value.(type) {
	case nil:
		return append(to, 0xf6)
	case bool:
		if value {
			return append(to, 0xf5)
		}
		return append(to, 0xf4)
	case uint64:
		return header(to, kindUint, value)
	case negative:
		return header(to, kindNegative, uint64(value))
	case string:
		return append(header(to, kindText, uint64(len(value))), value...)
	case []byte:
		return append(header(to, kindBytes, uint64(len(value))), value...)
	case []any:
		to = header(to, kindList, uint64(len(value)))
		for _, each := range value {
			to = appended(to, each)
		}
		return to
	case map[string]any:
		return appendedMap(to, value)
	}
	panic("rescind: no value of the formats")
}

func appendedMap(to []byte, members map[string]any) []byte {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	// The encoding of a shorter name sorts first, because it begins with the size.
	sort.Slice(names, func(i, j int) bool {
		if len(names[i]) != len(names[j]) {
			return len(names[i]) < len(names[j])
		}
		return names[i] < names[j]
	})
	to = header(to, kindMap, uint64(len(members)))
	for _, name := range names {
		to = appended(appended(to, name), members[name])
	}
	return to
}

func header(to []byte, kind byte, number uint64) []byte {
	first := kind << 5
	switch {
	case number < 24:
		return append(to, first|byte(number))
	case number < 1<<8:
		return append(to, first|24, byte(number))
	case number < 1<<16:
		return binary.BigEndian.AppendUint16(append(to, first|25), uint16(number))
	case number < 1<<32:
		return binary.BigEndian.AppendUint32(append(to, first|26), uint32(number))
	}
	return binary.BigEndian.AppendUint64(append(to, first|27), number)
}
