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
// rejected. After an error, nothing is left, and `isMalformed` is true.
type decoder struct {
	left        []byte
	strict      bool
	isMalformed bool
}

func (d *decoder) fail() { d.left, d.isMalformed = nil, true }

// decodeMap returns the members of the map in `data`. It rejects other data as `malformed`.
func decodeMap(data []byte, strict bool) (map[string]item, error) {
	reader := decoder{left: data, strict: strict}
	value := reader.item(0)
	if reader.isMalformed || value.kind != kindMap || len(reader.left) > 0 {
		return nil, refuse(Malformed)
	}
	return value.members, nil
}

// item reads a value at this nesting depth.
func (d *decoder) item(depth int) item {
	if depth > nestingMax {
		d.fail()
	}
	kind, number := d.header()
	value := item{kind: kind, number: number}
	if (kind == kindList || kind == kindMap) && number > uint64(len(d.left)) {
		// Each value has at least one byte.
		d.fail()
	}
	switch kind {
	case kindUint, kindNegative, kindSimple:
	case kindBytes:
		value.data = d.take(number)
	case kindText:
		value.data = d.text(number)
	case kindList:
		for ; number > 0 && !d.isMalformed; number-- {
			value.items = append(value.items, d.item(depth+1))
		}
	case kindMap:
		value.members = map[string]item{}
		var before []byte
		for ; number > 0 && !d.isMalformed; number-- {
			name := d.name(&before)
			if _, twice := value.members[name]; twice {
				d.fail()
			}
			value.members[name] = d.item(depth + 1)
		}
	default:
		d.fail()
	}
	return value
}

// header reads the kind of a value, and its size or number.
func (d *decoder) header() (kind byte, number uint64) {
	first := d.take(1)
	if d.isMalformed {
		return 0, 0
	}
	kind, short := first[0]>>5, uint64(first[0]&31)
	if short > 27 || (kind == kindSimple && (short < 20 || short > 22)) {
		d.fail()
		return 0, 0
	}
	if short < 24 {
		return kind, short
	}
	var whole [8]byte
	size := uint64(1) << (short - 24)
	copy(whole[8-size:], d.take(size))
	number = binary.BigEndian.Uint64(whole[:])
	least := uint64(24)
	if size > 1 {
		least = 1 << (4 * size)
	}
	if d.strict && number < least {
		d.fail()
	}
	return kind, number
}

func (d *decoder) take(size uint64) []byte {
	if size > uint64(len(d.left)) {
		d.fail()
		return nil
	}
	taken := d.left[:size]
	d.left = d.left[size:]
	return taken
}

func (d *decoder) text(size uint64) []byte {
	text := d.take(size)
	if !utf8.Valid(text) {
		d.fail()
	}
	return text
}

// name reads the name of a member, which must sort after the bytes `before`.
func (d *decoder) name(before *[]byte) string {
	start := d.left
	kind, size := d.header()
	name := d.text(size)
	whole := start[:len(start)-len(d.left)]
	if kind != kindText || (d.strict && *before != nil && bytes.Compare(*before, whole) >= 0) {
		d.fail()
	}
	*before = whole
	return string(name)
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
		names := make([]string, 0, len(value))
		for name := range value {
			names = append(names, name)
		}
		// The encoding of a shorter name sorts first, because it begins with the size.
		sort.Slice(names, func(i, j int) bool {
			if len(names[i]) != len(names[j]) {
				return len(names[i]) < len(names[j])
			}
			return names[i] < names[j]
		})
		to = header(to, kindMap, uint64(len(value)))
		for _, name := range names {
			to = appended(appended(to, name), value[name])
		}
		return to
	}
	panic("rescind: no value of the formats")
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
