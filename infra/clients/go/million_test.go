package rescind

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

const million = 1_000_000

func idOf(number int) string { return fmt.Sprintf("svc_wrt_%026d", number) }

// baseOf returns the payload of an SRL with `count` warrants, and the reference of a head to it.
func baseOf(count int) ([]byte, base) {
	data := header(nil, kindMap, 2)
	data = header(appended(data, "Version"), kindUint, 1)
	data = header(appended(data, "RevokedIDs"), kindList, uint64(count))
	for n := 0; n < count; n++ {
		data = appended(data, idOf(n))
	}
	return data, base{version: 1, sha256: sha256.Sum256(data), count: uint64(count)}
}

// stateOf returns the state after the first answer, with these revoked warrants.
func stateOf(data []byte, named base) *state {
	now := time.Now()
	of := head{issuedAt: now, expiresAt: now.Add(time.Hour), base: named}
	next := step{answer: &answer{}, head: of}
	made, err := next.begun(data)
	if err != nil {
		panic(err)
	}
	return made
}

func clientOf(of *state) *Client {
	made := &Client{}
	made.follower.view.Store(viewOf(of, time.Now(), time.Hour, of.head.expiresAt))
	return made
}

func heap() uint64 {
	var found runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&found)
	return found.HeapAlloc
}

func TestAMillionTakesFewBytesAndNoAllocation(t *testing.T) {
	data, named := baseOf(million)
	before := heap()
	client := clientOf(stateOf(data, named))
	taken := heap() - before
	runtime.KeepAlive(data)
	t.Logf("%.1f MB for a million", float64(taken)/1e6)
	if taken > 40e6 {
		t.Errorf("a million takes %d bytes", taken)
	}
	clear, revoked := idOf(million), idOf(million/2)
	for _, chain := range [][]string{{clear}, {revoked}, {clear, clear, clear}, {clear, clear, revoked}} {
		expected := Clear
		if chain[len(chain)-1] == revoked {
			expected = Revoked
		}
		allocations := testing.AllocsPerRun(1000, func() {
			if check(client, chain...) != expected {
				t.Fatal(chain)
			}
		})
		if allocations != 0 {
			t.Errorf("a decision about %d allocates %v times", len(chain), allocations)
		}
	}
}

// processor returns the processor time of this process.
func processor() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func benchmarkCheck(b *testing.B, chain int, isRevoked bool) {
	client := clientOf(stateOf(baseOf(million)))
	// The identifiers are contiguous in memory. The test measures the set, which is scattered.
	const chains, size = 1 << 12, len("svc_wrt_") + 26
	var whole strings.Builder
	for n := 0; n < chains*chain; n++ {
		if id := idOf(million + n); isRevoked && n%chain == chain-1 {
			whole.WriteString(idOf(n * million / (chains * chain)))
		} else {
			whole.WriteString(id)
		}
	}
	ids := make([]string, chains*chain)
	for n := range ids {
		ids[n] = whole.String()[n*size : (n+1)*size]
	}
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	began := processor()
	for n := 0; n < b.N; n++ {
		if at := n % chains * chain; check(client, ids[at:at+chain]...) == Stale {
			b.Fatal("stale")
		}
	}
	b.ReportMetric(float64(processor()-began)/float64(b.N), "processor-ns/op")
}

func BenchmarkCheckOne(b *testing.B)     { benchmarkCheck(b, 1, false) }
func BenchmarkCheckRevoked(b *testing.B) { benchmarkCheck(b, 1, true) }
func BenchmarkCheckThree(b *testing.B)   { benchmarkCheck(b, 3, false) }

func BenchmarkLoadAMillion(b *testing.B) {
	data, named := baseOf(million)
	b.ResetTimer()
	for n := 0; n < b.N; n++ {
		stateOf(data, named)
	}
}

func BenchmarkOneChange(b *testing.B) {
	held := stateOf(baseOf(million))
	change := []entry{{1, []item{{data: []byte("svc_wrt_new")}}, nil}}
	b.ResetTimer()
	for n := 0; n < b.N; n++ {
		held.revoked.after(change)
	}
}
