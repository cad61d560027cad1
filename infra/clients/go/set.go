package rescind

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// digest represents an identifier in a set by 16 bytes instead of up to 72. It is half of SHA-256
// over a secret of the process and the identifier. The secret prevents chosen collisions. A chance
// collision occurs in one of 10^26 sets of a million.
type digest struct{ one, two uint64 }

const secretSize = 16

var secret = func() (drawn [secretSize]byte) {
	if _, err := rand.Read(drawn[:]); err != nil {
		panic("rescind: the system has no random numbers: " + err.Error())
	}
	return drawn
}()

func digestOf[T string | []byte](id T) digest {
	var whole [sha256.Size]byte
	if len(id) > idMax {
		whole = sha256.Sum256(append(secret[:], id...))
	} else {
		// On the stack, because a decision must not allocate.
		var buffer [secretSize + idMax]byte
		copy(buffer[:], secret[:])
		whole = sha256.Sum256(buffer[:secretSize+copy(buffer[secretSize:], id)])
	}
	return digest{binary.BigEndian.Uint64(whole[:]), binary.BigEndian.Uint64(whole[8:])}
}

// table is a set of digests, immutable once it is filled. The first half of a digest determines its
// place. If that place is taken, the next free place is used. A lookup mostly reads one line of
// memory.
type table struct {
	places []digest // the zero digest marks a free place
	count  int
}

// newTable returns an empty table for up to `most` digests.
func newTable(most int) table { return table{places: make([]digest, most+most/2+1)} }

func (t *table) insert(of digest) {
	if at := t.find(of); t.places[at] == (digest{}) {
		t.places[at] = of
		t.count++
	}
}

// find returns the place of a digest, or the free place for it.
func (t *table) find(of digest) int {
	high, _ := bits.Mul64(of.one, uint64(len(t.places)))
	at := int(high)
	for t.places[at] != of && t.places[at] != (digest{}) {
		if at++; at == len(t.places) {
			at = 0
		}
	}
	return at
}

func (t *table) has(of digest) bool { return len(t.places) > 0 && t.places[t.find(of)] == of }

// foldAt is the largest number of changes before they are merged into a new table.
const foldAt = 16384

// set is an immutable set of identifiers. `after` returns a new set. `whole` contains all
// identifiers in `removed`, and none in `added`.
type set struct {
	whole          table
	added, removed map[digest]struct{}
	cutoffs        cutoffs
}

// revokes returns whether the set contains an identifier, or a later cutoff of its subject.
func (s *set) revokes(id string) bool {
	return s.has(digestOf(id)) || len(s.cutoffs) > 0 && s.cutoffs.covers(id)
}

func (s *set) has(of digest) bool {
	if s.whole.has(of) {
		_, gone := s.removed[of]
		return !gone
	}
	_, here := s.added[of]
	return here
}

func (s *set) size() int { return s.whole.count + len(s.added) - len(s.removed) }

// after returns the set after entries, in order. Its cost is proportional to the changes.
func (s *set) after(entries []entry) *set {
	if len(entries) == 0 {
		return s
	}
	next := &set{s.whole, copied(s.added), copied(s.removed), s.cutoffs}
	for _, each := range entries {
		for _, id := range each.removed {
			of := digestOf(id.data)
			delete(next.added, of)
			if next.whole.has(of) {
				next.removed[of] = struct{}{}
			}
		}
		for _, id := range each.revoked {
			of := digestOf(id.data)
			delete(next.removed, of)
			if !next.whole.has(of) {
				next.added[of] = struct{}{}
			}
		}
		next.cutoffs = next.cutoffs.after(each)
	}
	if len(next.added)+len(next.removed) > foldAt {
		return next.folded()
	}
	return next
}

// folded returns the same set with its changes merged into the table.
func (s *set) folded() *set {
	whole := newTable(s.size())
	for _, each := range s.whole.places {
		if _, gone := s.removed[each]; !gone && each != (digest{}) {
			whole.insert(each)
		}
	}
	for each := range s.added {
		whole.insert(each)
	}
	return &set{whole: whole, cutoffs: s.cutoffs}
}

func copied(from map[digest]struct{}) map[digest]struct{} {
	copy := make(map[digest]struct{}, len(from))
	for each := range from {
		copy[each] = struct{}{}
	}
	return copy
}
