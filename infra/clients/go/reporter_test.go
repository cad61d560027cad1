package rescind

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func (s *service) reporting(t *testing.T, folder string) *Client {
	made, err := New(Options{URL: s.URL, APIKey: "key", Tenant: tenant, TrustPin: s.pin(), StateDir: folder, Name: "gate"})
	if err != nil {
		t.Fatal(err)
	}
	made.follower.poll(context.Background())
	return made
}

// opened returns the members of a signed payload.
func opened(t *testing.T, by key, prefix string, payload, signature any) *fields {
	t.Helper()
	data, _ := base64.StdEncoding.DecodeString(payload.(string))
	signed, _ := base64.StdEncoding.DecodeString(signature.(string))
	if !isSigned(prefix, data, signed, by) {
		t.Error("it is not signed")
	}
	members, err := readFields(data, true)
	if err != nil {
		t.Fatal(err)
	}
	return members
}

func TestAReportIsSigned(t *testing.T) {
	service := serving(t)
	folder := t.TempDir()
	client := service.reporting(t, folder)
	client.note(ResponseRejected{Rollback})
	reporter := client.reporter
	defer reporter.abandon()
	reporter.step(context.Background())
	reporter.step(context.Background())
	registered, reported := service.posts[0], service.posts[1]
	expect(t, []any{registered["name"], registered["type"], registered["version"]}, []any{"gate", reporterKind, Version})
	expect(t, registered["features"], any([]any{"subject-cutoffs"}))
	own := publicOf(reporter.identity.private)
	proof := registered["proof"].(map[string]any)
	stated := opened(t, own, registrationPrefix, proof["payload"], proof["signature"])
	expect(t, []any{stated.text("Tenant"), stated.text("Name"), stated.key("PublicKey"), stated.moment("IssuedAt").IsZero(), stated.err()}, []any{tenant, "gate", own, false, nil})
	stated = opened(t, own, reportPrefix, reported["report"], reported["signature"])
	expect(t, []any{stated.text("Id"), stated.number("Trust"), stated.number("Sequence"), stated.number("MaxStaleness")}, []any{"svc_azr_1", uint64(1), uint64(0), uint64(30)})
	expect(t, stated.table("Refused").number("rollback"), uint64(1))
	expect(t, stated.err(), nil)
	expect(t, len(reported), 2)
	if time.Until(reporter.schedule.next) < 290*time.Second {
		t.Error("the next report is too early")
	}
	// No heartbeat is due until there is news. Each heartbeat contains only new rejections, and a
	// higher number.
	reporter.step(context.Background())
	expect(t, len(service.posts), 2)
	service.revoke("svc_wrt_b")
	client.follower.poll(context.Background())
	reporter.step(context.Background())
	later := opened(t, own, reportPrefix, service.posts[2]["report"], service.posts[2]["signature"])
	expect(t, later.number("Number") > stated.number("Number"), true)
	expect(t, []any{later.number("Sequence"), len(later.table("Refused").members)}, []any{uint64(1), 0})
	// A second process has another name and the same key. After a restart, the first has its own
	// name.
	second := service.reporting(t, folder)
	second.reporter.step(context.Background())
	expect(t, service.posts[3]["name"], "gate #2")
	expect(t, publicOf(second.reporter.identity.private), own)
	second.reporter.abandon()
}

func TestAReportThatFails(t *testing.T) {
	service := serving(t)
	client := service.reporting(t, t.TempDir())
	reporter := client.reporter
	defer reporter.abandon()
	reporter.step(context.Background())
	expect(t, reporter.schedule.id, "svc_azr_1")
	status := 404
	service.instead = func(to http.ResponseWriter, _ *http.Request) bool {
		to.Header().Set("Retry-After", "7")
		to.WriteHeader(status)
		return true
	}
	reporter.step(context.Background())
	expect(t, reporter.schedule.id, "")
	if left := time.Until(reporter.schedule.next); left < 9*time.Second || left > 13*time.Second {
		t.Error(left)
	}
	reporter.schedule.next, status = time.Time{}, 400
	reporter.step(context.Background())
	if left := time.Until(reporter.schedule.next); left < 30*time.Minute {
		t.Error(left)
	}
	service.instead = nil
	reporter.schedule.next = time.Time{}
	reporter.step(context.Background())
	reporter.schedule.next = time.Time{}
	reporter.step(context.Background())
	expect(t, []any{reporter.schedule.failures, reporter.schedule.hasReported}, []any{0, true})
	for _, body := range []string{"[]", "{}", `{"id": ""}`, `{"id": "a"}`, `{"id": "a", "report_after_seconds": -1}`} {
		if _, err := parseReportAnswer([]byte(body), "id"); err == nil {
			t.Error(body)
		}
	}
}

// All clients of a fleet report an advance within one period, at different times.
func TestTurns(t *testing.T) {
	now := time.Now()
	for place := 0.0; place < 1; place += 0.25 {
		turns := schedule{id: "a", place: place, terms: terms{spread: time.Minute}}
		due := turns.due(1, now)
		if due.Before(now) || due.After(now.Add(time.Minute)) {
			t.Error(place, due.Sub(now))
		}
		past := time.Duration(due.UnixNano() % int64(time.Minute))
		expect(t, past, times(time.Minute, place))
	}
}

func TestAnIdentityThatCannotBeUsed(t *testing.T) {
	folder := t.TempDir()
	if _, err := identityOf(folder); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, identityFile)
	os.Chmod(path, 0o644)
	if _, err := identityOf(folder); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Error(err)
	}
	os.Chmod(path, 0o600)
	os.WriteFile(path, make([]byte, ed25519.SeedSize), 0o600)
	if _, err := identityOf(folder); err == nil || !strings.Contains(err.Error(), "is not an Ed25519 key") {
		t.Error(err)
	}
}
