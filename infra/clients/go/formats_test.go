package rescind

import (
	"bytes"
	"fmt"
	"math/rand"
	"testing"
)

// Arbitrary bytes do not crash a decoder. Decoded values encode to the same bytes.
func TestAnyBytesAreReadOrRefused(t *testing.T) {
	service := serving(t)
	service.revoke("svc_wrt_b", "svc_wrt_c")
	documents, _ := parseDocuments(service.document())
	good := [][]byte{service.head(), service.entries[0], documents[0].payload, service.base}
	random := rand.New(rand.NewSource(1))
	read := 0
	for n := 0; n < 20_000; n++ {
		data := append([]byte{}, good[n%len(good)]...)
		for changes := random.Intn(3) + 1; changes > 0; changes-- {
			data[random.Intn(len(data))] = byte(random.Intn(256))
		}
		data = data[:len(data)-random.Intn(2)*random.Intn(len(data))]
		for _, strict := range []bool{true, false} {
			if found, err := decodeMap(data, strict); err == nil && strict {
				read++
				if !bytes.Equal(encode(valueOf(item{kind: kindMap, members: found})), data) {
					t.Fatalf("%x", data)
				}
			}
		}
		readHead(data)
		readEntry(data, 1)
		readBase(data, base{version: 1, sha256: hashOf(data), count: 1}, func([]byte) {})
		(&document{payload: data}).read()
	}
	if read == 0 {
		t.Error("nothing was read")
	}
}

// valueOf converts an item to a value for encode.
func valueOf(of item) any {
	switch of.kind {
	case kindUint:
		return of.number
	case kindNegative:
		return negative(of.number)
	case kindBytes:
		return of.data
	case kindText:
		return string(of.data)
	case kindSimple:
		return map[uint64]any{20: false, 21: true, 22: nil}[of.number]
	case kindList:
		made := []any{}
		for _, each := range of.items {
			made = append(made, valueOf(each))
		}
		return made
	}
	made := map[string]any{}
	for name, each := range of.members {
		made[name] = valueOf(each)
	}
	return made
}

func TestASetIsASet(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	held, expected := &set{}, map[string]bool{}
	isFolded := false
	for round := 0; round < 300; round++ {
		changes := []entry{}
		for n := 0; n < 300; n++ {
			id := fmt.Sprint(random.Intn(60_000))
			if one := []item{{data: []byte(id)}}; random.Intn(3) == 0 {
				changes = append(changes, entry{removed: one})
				delete(expected, id)
			} else {
				changes = append(changes, entry{revoked: one})
				expected[id] = true
			}
		}
		held = held.after(changes)
		isFolded = isFolded || (held.whole.count > 0 && len(held.removed) > 0)
		if held.size() != len(expected) {
			t.Fatal(round, held.size(), len(expected))
		}
	}
	for n := 0; n < 60_000; n++ {
		if id := fmt.Sprint(n); held.has(digestOf(id)) != expected[id] {
			t.Fatal(id)
		}
	}
	if !isFolded {
		t.Error("nothing was folded")
	}
}
