package rescind

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"
)

const tenant = "svc_tnt_01KAJ3TMF0000000000000ACME"

// keyNumber returns a fixed private key for each number.
func keyNumber(number byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{number}, ed25519.SeedSize))
}

func publicOf(private ed25519.PrivateKey) (made key) {
	copy(made[:], private.Public().(ed25519.PublicKey))
	return made
}

func hashOf(data []byte) hash { return sha256.Sum256(data) }

// firstChain returns the chain hash at sequence 0, which differs for each tenant.
func firstChain(tenant string) hash { return hashOf([]byte("rescind-feed-v1\n" + tenant)) }

// service simulates the service: a feed of one SRL that contains svc_wrt_a, and later entries.
type service struct {
	*httptest.Server
	lock             sync.Mutex
	root, signer     ed25519.PrivateKey
	now, documentEnd time.Time
	lifetime         time.Duration
	version          uint64
	base             []byte
	entries          [][]byte
	issue            int
	query            url.Values
	posts            []map[string]any
	pollSeconds      float64
	maxWait          int
	// Replaces the normal response while it returns true.
	instead func(http.ResponseWriter, *http.Request) bool
}

func serving(t *testing.T) *service {
	made := &service{
		root: keyNumber(201), signer: keyNumber(1), now: time.Now().UTC().Truncate(time.Second),
		lifetime: time.Hour, version: 1, pollSeconds: 0.01,
	}
	made.documentEnd = made.now.Add(24 * time.Hour)
	made.base = encode(map[string]any{"Version": uint64(1), "RevokedIDs": []any{"svc_wrt_a"}})
	made.Server = httptest.NewServer(http.HandlerFunc(made.answer))
	t.Cleanup(made.Close)
	return made
}

func (s *service) pin() string { root := publicOf(s.root); return pinOf([]key{root}, 1) }

func (s *service) revoke(ids ...string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	sort.Strings(ids)
	listed := []any{}
	for _, id := range ids {
		listed = append(listed, id)
	}
	s.entries = append(s.entries, encode(map[string]any{"Revoked": listed, "Sequence": uint64(len(s.entries) + 1)}))
	s.issue++
}

// vouch publishes a document that names another SRL signer.
func (s *service) vouch(signer ed25519.PrivateKey) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.signer, s.version = signer, s.version+1
	s.issue++
}

func (s *service) chain() hash {
	chain := firstChain(tenant)
	for _, each := range s.entries {
		chain = nextChain(chain, each)
	}
	return chain
}

func hashBytes(of hash) []byte { return of[:] }

func text(of time.Time) string { return of.Format(momentForm) }

func (s *service) document() []byte {
	root, signer := publicOf(s.root), publicOf(s.signer)
	payload := encode(map[string]any{
		"Tenant": tenant, "Version": s.version, "IssuedAt": text(s.now), "ExpiresAt": text(s.documentEnd),
		"Roots":   map[string]any{"Keys": []any{root[:]}, "Threshold": uint64(1)},
		"Signers": []any{map[string]any{"Key": signer[:], "Uses": []any{useLists}}},
		"Feed":    map[string]any{"Sequence": uint64(0), "Chain": hashBytes(firstChain(tenant))},
	})
	sum := sha256.Sum256(payload)
	signature := ed25519.Sign(s.root, append([]byte(trustPrefix), sum[:]...))
	data, _ := json.Marshal(map[string]any{"documents": []any{map[string]any{
		"Payload":    toBase64(payload),
		"Signatures": []any{map[string]string{"Key": toBase64(root[:]), "Signature": toBase64(signature)}},
	}}})
	return data
}

func (s *service) head() []byte {
	return encode(map[string]any{
		"Tenant": tenant, "Sequence": uint64(len(s.entries)), "Chain": hashBytes(s.chain()),
		"IssuedAt": text(s.now), "ExpiresAt": text(s.now.Add(s.lifetime)),
		"Base": map[string]any{
			"Version": uint64(1), "Sequence": uint64(0), "Chain": hashBytes(firstChain(tenant)),
			"SHA256": hashBytes(sha256.Sum256(s.base)), "Count": uint64(1),
		},
	})
}

func (s *service) feed() []byte { return s.sealed(s.head()).encode() }

func (s *service) sealed(payload []byte) *answer {
	signature := ed25519.Sign(s.signer, append([]byte(headPrefix), payload...))
	return &answer{payload, signature, s.entries, s.pollSeconds, s.maxWait}
}

func (s *service) answer(to http.ResponseWriter, asked *http.Request) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.instead != nil && s.instead(to, asked) {
		return
	}
	tag := fmt.Sprintf(`"%d"`, s.issue)
	switch path := asked.URL.Path; {
	case path == trustPath:
		to.Write(s.document())
	case path == feedPath+"/base/1":
		to.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(to)
		packed.Write(s.base)
		packed.Close()
	case path == feedPath:
		s.query = asked.URL.Query()
		to.Header().Set("ETag", tag)
		if asked.Header.Get("If-None-Match") == tag {
			to.WriteHeader(http.StatusNotModified)
			return
		}
		to.Write(s.feed())
	case strings.HasPrefix(path, "/v1/authorizers/"):
		var body map[string]any
		json.NewDecoder(asked.Body).Decode(&body)
		s.posts = append(s.posts, body)
		fmt.Fprint(to, `{"id": "svc_azr_1", "status": "ok", "report_after_seconds": 300, "jitter_seconds": 0}`)
	default:
		http.NotFound(to, asked)
	}
}

// client returns a client of the service that is not running, and its events.
func (s *service) client(t *testing.T, folder string) (*Client, *[]Event) {
	noted := &[]Event{}
	made, err := New(Options{
		URL: s.URL, APIKey: "key", Tenant: tenant, TrustPin: s.pin(), StateDir: folder, NoReports: true,
		OnEvent: func(event Event) { *noted = append(*noted, event) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return made, noted
}

// check returns the verdict on valid warrant identifiers.
func check(client *Client, ids ...string) Verdict {
	found, err := client.Check(ids...)
	if err != nil {
		panic(err)
	}
	return found
}

// poll makes one exchange, and returns its events except PollSucceeded.
func poll(client *Client, noted *[]Event) []Event {
	*noted = nil
	client.follower.poll(context.Background())
	found := []Event{}
	for _, each := range *noted {
		if _, isPolled := each.(PollSucceeded); !isPolled {
			found = append(found, each)
		}
	}
	return found
}

func expect(t *testing.T, found, expected any) {
	t.Helper()
	if fmt.Sprintf("%#v", found) != fmt.Sprintf("%#v", expected) {
		t.Errorf("%#v and not %#v", found, expected)
	}
}
