package rescind

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestASavedStateIsTakenUp(t *testing.T) {
	service := serving(t)
	folder := t.TempDir()
	client, noted := service.client(t, folder)
	poll(client, noted)
	service.revoke("svc_wrt_b")
	poll(client, noted)
	again, noted := service.client(t, folder)
	expect(t, []Verdict{check(again, "svc_wrt_a"), check(again, "svc_wrt_b"), check(again, "svc_wrt_c")}, []Verdict{Revoked, Revoked, Clear})
	expect(t, again.Status().Trust, uint64(1))
	// An older feed is rejected.
	service.entries = nil
	service.issue++
	expect(t, poll(again, noted), []Event{ResponseRejected{Rollback}})
}

// F1912b: A private key that a killed process had not renamed yet is removed from the folder.
func TestTheNextSaveRemovesWhatAKilledProcessLeft(t *testing.T) {
	service := serving(t)
	folder := t.TempDir()
	client, noted := service.client(t, folder)
	left := filepath.Join(folder, ".new-123456")
	os.WriteFile(left, []byte("PRIVATE KEY"), 0o600)
	poll(client, noted)
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// Later clients must read version 1 of the saved state.
func TestASavedStateOfAnOlderVersionIsRead(t *testing.T) {
	folder := t.TempDir()
	files, _ := filepath.Glob("testdata/floor-1/*")
	for _, path := range files {
		data, _ := os.ReadFile(path)
		os.WriteFile(filepath.Join(folder, filepath.Base(path)), data, 0o600)
	}
	client, err := New(Options{
		URL: "https://rescind.example.com", APIKey: "key", Tenant: tenant, TrustPin: (&service{root: keyNumber(201)}).pin(), StateDir: folder,
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, client.Status().Sequence, uint64(1))
	// The state is too old to be fresh.
	expect(t, []Verdict{check(client, "svc_wrt_a"), check(client, "svc_wrt_b"), check(client, "svc_wrt_c")}, []Verdict{Revoked, Revoked, Stale})
}

func TestASavedStateThatCannotBeUsedIsAnError(t *testing.T) {
	service := serving(t)
	for name, each := range map[string]struct {
		change   func(path string)
		expected string
	}{
		"a byte":        {edited(func(data []byte) { data[100] ^= 1 }), "is damaged (its hash is wrong)"},
		"empty":         {func(path string) { os.Truncate(path, 0) }, "is damaged"},
		"half":          {func(path string) { os.Truncate(path, 300) }, "is damaged"},
		"others write":  {func(path string) { os.Chmod(path, 0o666) }, "others can write to"},
		"other client":  {sealed(`{"client":"typescript","format":1}`), "was saved by the typescript client"},
		"Python":        {sealed(`{"format":1,"tenant":"svc_tnt_x"}`), "was saved by the Python client"},
		"later":         {sealed(`{"client":"go","format":2}`), "another version of this program wrote it"},
		"no chain":      {sealed(`{"client":"go","format":1,"chain":"00"}`), "its chain is not a hash"},
		"none":          {sealed(fmt.Sprintf(`{"client":"go","format":1,"chain":"%064d"}`, 0)), "its trust document is malformed"},
		"no key":        {sealed(fmt.Sprintf(`{"client":"go","format":1,"signer":"00","chain":"%064d"}`, 0)), "its signer is not a key"},
		"no document":   {sealed(fmt.Sprintf(`{"client":"go","format":1,"document":{},"chain":"%064d"}`, 0)), "its trust document is malformed"},
		"not an object": {sealed(`[]`), "is damaged"},
	} {
		folder := t.TempDir()
		client, noted := service.client(t, folder)
		poll(client, noted)
		each.change(filepath.Join(folder, stateFile))
		_, err := New(Options{URL: service.URL, APIKey: "key", Tenant: tenant, TrustPin: service.pin(), StateDir: folder})
		var found *StateError
		if !errors.As(err, &found) || !strings.Contains(found.Message, each.expected) {
			t.Errorf("%s: %v", name, err)
		}
		// A newer saved state is not lost either.
		client.follower.store.written = nil
		service.revoke("svc_wrt_" + strings.ReplaceAll(name, " ", "-"))
		if _, isFailed := poll(client, noted)[0].(PollFailed); !isFailed {
			t.Errorf("%s: %v", name, *noted)
		}
	}
}

func TestTheSavedStateOfAnotherTenantIsAnError(t *testing.T) {
	service, folder := serving(t), t.TempDir()
	client, noted := service.client(t, folder)
	poll(client, noted)
	_, err := New(Options{URL: service.URL, APIKey: "key", Tenant: "svc_tnt_x", TrustPin: service.pin(), StateDir: folder})
	var found *StateError
	if !errors.As(err, &found) || !strings.Contains(found.Message, "belongs to "+tenant) {
		t.Error(err)
	}
}

func edited(change func([]byte)) func(string) {
	return func(path string) {
		data, _ := os.ReadFile(path)
		change(data)
		os.WriteFile(path, data, 0o600)
	}
}

func sealed(document string) func(string) {
	return func(path string) {
		os.WriteFile(path, append([]byte(fmt.Sprintf("%x\n", sum(document))), document...), 0o600)
	}
}

func sum(of string) []byte { found := hashOf([]byte(of)); return found[:] }

// A lost or damaged base is fetched again.
func TestABaseThatIsLost(t *testing.T) {
	service := serving(t)
	for _, change := range []func(string){func(path string) { os.Remove(path) }, func(path string) { os.Truncate(path, 3) }} {
		folder := t.TempDir()
		client, noted := service.client(t, folder)
		poll(client, noted)
		paths, _ := filepath.Glob(filepath.Join(folder, "base-*.cbor"))
		change(paths[0])
		again, noted := service.client(t, folder)
		expect(t, check(again, "svc_wrt_a"), Stale)
		poll(again, noted)
		expect(t, check(again, "svc_wrt_a"), Revoked)
	}
}

// Processes of one authorizer share a folder, and the newest state is kept. A client with another
// pin starts over.
func TestSharedStateFolders(t *testing.T) {
	service := serving(t)
	folder := t.TempDir()
	one, noted := service.client(t, folder)
	poll(one, noted)
	two, notedToo := service.client(t, folder)
	before := savedOf(one.follower.view.Load().state, one.follower.trust.Load(), time.Now())
	service.revoke("svc_wrt_b")
	poll(two, notedToo)
	if err := one.follower.store.save(before); err != nil {
		t.Fatal(err)
	}
	held, err := one.follower.store.load()
	if err != nil {
		t.Fatal(err)
	}
	expect(t, held.Sequence, uint64(1))
	other := serving(t)
	other.root, other.signer = keyNumber(202), keyNumber(3)
	third, notedThree := other.client(t, folder)
	poll(third, notedThree)
	expect(t, check(third, "svc_wrt_b"), Clear)
	service.revoke("svc_wrt_c")
	if failed, ok := poll(two, notedToo)[0].(PollFailed); !ok || !strings.Contains(failed.Message, "another TrustPin") {
		t.Error(*notedToo)
	}
}
