package rescind

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// digest stands for an identifier in a set: 16 bytes in place of a text of up to 72. It is half of
// SHA-256 over a secret of the process and the identifier, so that nobody can choose two identifiers
// with the same one; by chance, one of 10^26 sets of a million has two.
type digest [16]byte

const secretSize = 16

var secret = func() (made [secretSize]byte) {
	if _, err := rand.Read(made[:]); err != nil {
		panic("rescind: the system has no random numbers: " + err.Error())
	}
	return made
}()

func digestOf[T string | []byte](id T) (made digest) {
	var whole [sha256.Size]byte
	if len(id) > idMax {
		whole = sha256.Sum256(append(secret[:], id...))
	} else {
		// On the stack: a decision allocates nothing.
		var buffer [secretSize + idMax]byte
		copy(buffer[:], secret[:])
		whole = sha256.Sum256(buffer[:secretSize+copy(buffer[secretSize:], id)])
	}
	copy(made[:], whole[:])
	return made
}

// table is a set of digests that never changes, in buckets of about one: `begins` has where each begins.
type table struct {
	digests []digest
	begins  []uint32
	shift   int
}

func tableOf(given []digest) table {
	width := bits.Len(uint(len(given)))
	made := table{make([]digest, len(given)), make([]uint32, 1<<width), 64 - width}
	for _, each := range given {
		made.begins[made.bucket(each)]++
	}
	for n := 1; n < len(made.begins); n++ {
		made.begins[n] += made.begins[n-1]
	}
	// Each goes to the last free place of its bucket, so the ends become beginnings.
	for _, each := range given {
		at := &made.begins[made.bucket(each)]
		*at--
		made.digests[*at] = each
	}
	return made
}

func (t *table) bucket(of digest) uint64 { return binary.BigEndian.Uint64(of[:]) >> t.shift }

func (t *table) has(of digest) bool {
	if len(t.digests) == 0 {
		return false
	}
	bucket := t.bucket(of)
	end := uint32(len(t.digests))
	if next := bucket + 1; next < uint64(len(t.begins)) {
		end = t.begins[next]
	}
	for _, each := range t.digests[t.begins[bucket]:end] {
		if each == of {
			return true
		}
	}
	return false
}

// foldAt is how many changes are kept beside the large part of a set before a copy of it has them.
const foldAt = 16384

// set is a set of identifiers that never changes: `after` returns another one. Those that were
// `added` are not in `whole`, and those that were `removed` are.
type set struct {
	whole          table
	added, removed map[digest]struct{}
}

func (s *set) has(of digest) bool {
	if s.whole.has(of) {
		_, gone := s.removed[of]
		return !gone
	}
	_, here := s.added[of]
	return here
}

func (s *set) size() int { return len(s.whole.digests) + len(s.added) - len(s.removed) }

// after returns the set after entries, in their order. It takes time in proportion to the changes.
func (s *set) after(entries []entry) *set {
	if len(entries) == 0 {
		return s
	}
	made := &set{s.whole, copied(s.added), copied(s.removed)}
	for _, each := range entries {
		for _, id := range each.removed {
			made.remove(digestOf(id.data))
		}
		for _, id := range each.revoked {
			made.add(digestOf(id.data))
		}
	}
	if len(made.added)+len(made.removed) > foldAt {
		return made.folded()
	}
	return made
}

func (s *set) remove(of digest) {
	delete(s.added, of)
	if s.whole.has(of) {
		s.removed[of] = struct{}{}
	}
}

func (s *set) add(of digest) {
	delete(s.removed, of)
	if !s.whole.has(of) {
		s.added[of] = struct{}{}
	}
}

// folded returns the same set without changes beside it.
func (s *set) folded() *set {
	all := make([]digest, 0, s.size())
	for _, each := range s.whole.digests {
		if _, gone := s.removed[each]; !gone {
			all = append(all, each)
		}
	}
	for each := range s.added {
		all = append(all, each)
	}
	return &set{whole: tableOf(all)}
}

func copied(from map[digest]struct{}) map[digest]struct{} {
	made := make(map[digest]struct{}, len(from))
	for each := range from {
		made[each] = struct{}{}
	}
	return made
}
