package rescind

import (
	"sort"
	"strings"
)

// cutoffs are the subject cutoffs in a set. `svc_wrt_sub-<digest>-<T>` revokes the tokens of a
// subject that were issued at or before T, which has 12 digits (TOKEN-11). The key is the text
// before T, and the value contains each T in ascending order. The map is immutable.
type cutoffs map[string][]string

const (
	subjectPrefix = "svc_wrt_sub-"
	subjectEnd    = len(subjectPrefix) + 44 // after the digest and its hyphen
	cutoffSize    = subjectEnd + 12
)

// cutoffOf returns the subject and the time of a cutoff, or false for any other identifier.
func cutoffOf(id string) (subject, at string, ok bool) {
	if len(id) != cutoffSize || !strings.HasPrefix(id, subjectPrefix) || id[subjectEnd-1] != '-' {
		return "", "", false
	}
	return id[:subjectEnd], id[subjectEnd:], strings.TrimLeft(id[subjectEnd:], "0123456789") == ""
}

// covers returns whether an identifier is at or before a cutoff of its subject.
func (c cutoffs) covers(id string) bool {
	subject, at, ok := cutoffOf(id)
	known := c[subject]
	return ok && len(known) > 0 && at <= known[len(known)-1]
}

// after returns the cutoffs after an entry.
func (c cutoffs) after(of entry) cutoffs {
	changed, isCopy := c, false
	edit := func(ids []item, isRevoked bool) {
		for _, each := range ids {
			id := string(each.data)
			if _, _, ok := cutoffOf(id); !ok {
				continue
			}
			if !isCopy {
				changed, isCopy = make(cutoffs, len(c)+1), true
				for subject, times := range c {
					changed[subject] = times
				}
			}
			changed.set(id, isRevoked)
		}
	}
	edit(of.removed, false)
	edit(of.revoked, true)
	return changed
}

// set adds or removes a cutoff, in a new list of times. It changes the map, which must not be
// shared yet.
func (c cutoffs) set(id string, isRevoked bool) {
	subject, at, ok := cutoffOf(id)
	if !ok {
		return
	}
	var left []string
	for _, each := range c[subject] {
		if each != at {
			left = append(left, each)
		}
	}
	if isRevoked {
		left = append(left, at)
		sort.Strings(left)
	}
	if c[subject] = left; len(left) == 0 {
		delete(c, subject)
	}
}
