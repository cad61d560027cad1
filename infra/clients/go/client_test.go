package rescind

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAClientFollowsAFeed(t *testing.T) {
	service := serving(t)
	client, noted := service.client(t, t.TempDir())
	expect(t, check(client, "svc_wrt_b"), Stale)
	expect(t, poll(client, noted), []Event{TrustChanged{1, service.pin()}, StateAdvanced{0, 0, 1}})
	expect(t, check(client, "svc_wrt_b"), Clear)
	expect(t, check(client, "svc_wrt_b", "svc_wrt_a"), Revoked)
	expect(t, poll(client, noted), []Event{})
	service.revoke("svc_wrt_b")
	expect(t, poll(client, noted), []Event{StateAdvanced{0, 1, 2}})
	expect(t, check(client, "svc_wrt_b"), Revoked)
	service.vouch(keyNumber(2))
	signer := publicOf(keyNumber(2))
	expect(t, poll(client, noted), []Event{TrustChanged{2, service.pin()}})
	expect(t, client.Status().Signer, signer.String())
	expect(t, client.Status().Revoked, 2)
}

// A bad response is an event. The client keeps its state, and accepts the next good response.
func TestABadAnswerChangesNothing(t *testing.T) {
	deep := append(bytes.Repeat([]byte{0x81}, 5000), 1)
	bad := map[string]struct {
		answer func(*service, http.ResponseWriter)
		noted  string
	}{
		"no JSON":       {says(`{"head":`), "ResponseRejected{malformed}"},
		"not UTF-8":     {says("{\"head\": \"\xff\"}"), "ResponseRejected{malformed}"},
		"nested JSON":   {says(strings.Repeat("[", 100_000)), "ResponseRejected{malformed}"},
		"nested lists":  {nested(deep), "ResponseRejected{malformed}"},
		"other case":    {says(`{"HEAD": {}, "Entries": []}`), "ResponseRejected{malformed}"},
		"two values":    {func(s *service, to http.ResponseWriter) { to.Write(append(s.feed(), " 1"...)) }, "ResponseRejected{malformed}"},
		"too large":     {says(strings.Repeat(" ", answerMax+1)), "ResponseRejected{too_large}"},
		"a bomb":        {bomb, "ResponseRejected{too_large}"},
		"half of it":    {half, "PollFailed"},
		"half a gzip":   {halfPacked, "PollFailed"},
		"no gzip":       {coded("gzip"), "PollFailed"},
		"other coding":  {coded("br"), "PollFailed"},
		"without end":   {endless, "PollFailed"},
		"an age":        {aged("-1"), "PollFailed"},
		"two ages":      {aged("1, 2"), "PollFailed"},
		"an error":      {failing(503), "PollFailed"},
		"a redirect":    {failing(302), "PollFailed"},
		"no permission": {failing(403), "PollFailed"},
	}
	for name, each := range bad {
		t.Run(name, func(t *testing.T) {
			service := serving(t)
			client, noted := service.client(t, t.TempDir())
			poll(client, noted)
			service.revoke("svc_wrt_c")
			service.instead = func(to http.ResponseWriter, asked *http.Request) bool {
				each.answer(service, to)
				return true
			}
			if said := fmt.Sprintf("%T%v", poll(client, noted)[0], (*noted)[0]); !isNoted(said, each.noted) {
				t.Errorf("noted %s", said)
			}
			expect(t, []Verdict{check(client, "svc_wrt_a"), check(client, "svc_wrt_c")}, []Verdict{Revoked, Clear})
			tag := ""
			service.instead = func(_ http.ResponseWriter, asked *http.Request) bool {
				tag = asked.Header.Get("If-None-Match")
				return false
			}
			poll(client, noted)
			expect(t, check(client, "svc_wrt_c"), Revoked)
			// After a rejected response, the client requests the whole head.
			expect(t, tag == "", strings.HasPrefix(each.noted, "ResponseRejected"))
		})
	}
}

func isNoted(said, expected string) bool {
	kind, reason, _ := strings.Cut(strings.TrimSuffix(expected, "}"), "{")
	return strings.HasPrefix(said, "rescind."+kind) && strings.HasSuffix(said, reason)
}

func says(body string) func(*service, http.ResponseWriter) {
	return func(_ *service, to http.ResponseWriter) { to.Write([]byte(body)) }
}

// nested answers with a signed head that has this value in an unknown member.
func nested(value []byte) func(*service, http.ResponseWriter) {
	return func(s *service, to http.ResponseWriter) {
		payload := s.head()
		payload = append(append([]byte{payload[0] + 1, 0x61, '?'}, value...), payload[1:]...)
		to.Write(s.sealed(payload).encode())
	}
}

func bomb(_ *service, to http.ResponseWriter) {
	to.Header().Set("Content-Encoding", "gzip")
	packed := gzip.NewWriter(to)
	packed.Write(make([]byte, 64<<20))
	packed.Close()
}

func half(s *service, to http.ResponseWriter) {
	to.Header().Set("Content-Length", fmt.Sprint(2*len(s.feed())))
	to.Write(s.feed())
}

func halfPacked(s *service, to http.ResponseWriter) {
	var whole bytes.Buffer
	packed := gzip.NewWriter(&whole)
	packed.Write(s.feed())
	packed.Close()
	to.Header().Set("Content-Encoding", "gzip")
	to.Write(whole.Bytes()[:whole.Len()/2])
}

func coded(coding string) func(*service, http.ResponseWriter) {
	return func(s *service, to http.ResponseWriter) {
		to.Header().Set("Content-Encoding", coding)
		to.Write(s.feed())
	}
}

// endless closes the connection without a length, so the client cannot detect a truncated body.
func endless(s *service, to http.ResponseWriter) {
	connection, buffer, _ := to.(http.Hijacker).Hijack()
	fmt.Fprintf(buffer, "HTTP/1.1 200 OK\r\n\r\n%s", s.feed())
	buffer.Flush()
	connection.Close()
}

func aged(age string) func(*service, http.ResponseWriter) {
	return func(s *service, to http.ResponseWriter) {
		to.Header().Set("Age", age)
		to.Write(s.feed())
	}
}

func failing(status int) func(*service, http.ResponseWriter) {
	return func(_ *service, to http.ResponseWriter) { to.WriteHeader(status) }
}

func TestAStateIsFreshByTwoClocks(t *testing.T) {
	now := time.Now()
	of := &state{head: head{expiresAt: now.Add(time.Hour)}, revoked: &set{}}
	fresh := viewOf(of, now, 30*time.Second, of.head.expiresAt)
	expect(t, []bool{fresh.isFresh(now.Add(29 * time.Second)), fresh.isFresh(now.Add(30 * time.Second))}, []bool{true, false})
	// While the machine slept, only the wall clock continued. Then that clock was set back.
	slept := now.Add(time.Minute).Round(0)
	expect(t, fresh.isFresh(slept), false)
	setBack := *fresh
	setBack.end = now.Add(-time.Second)
	expect(t, setBack.isFresh(now), false)
	of.head.expiresAt = now.Add(time.Second)
	expect(t, viewOf(of, now, time.Hour, now.Add(time.Hour)).isFresh(now.Add(time.Second)), false)
	of.head.expiresAt = now.Add(time.Hour)
	expect(t, viewOf(of, now, time.Hour, now.Add(time.Second)).isFresh(now.Add(time.Second)), false)
	expect(t, viewOf(of, time.Time{}, time.Hour, now.Add(time.Hour)).isFresh(now), false)
	expect(t, fresh.distrusted().isFresh(now), false)
}

// The age of a response counts. An older response does not reduce freshness.
func TestAnAgeIsCounted(t *testing.T) {
	service := serving(t)
	client, noted := service.client(t, t.TempDir())
	age := "31"
	service.instead = func(to http.ResponseWriter, asked *http.Request) bool {
		to.Header().Set("Age", age)
		return false
	}
	found := poll(client, noted)
	expect(t, check(client, "svc_wrt_b"), Stale)
	if _, ok := found[len(found)-1].(PollFailed); !ok {
		t.Error(found)
	}
	age = "0"
	poll(client, noted)
	expect(t, check(client, "svc_wrt_b"), Clear)
	confirmed := client.Status().ConfirmedAt
	age = "20"
	for _, id := range []string{"", "svc_wrt_b"} {
		if id != "" {
			service.revoke(id)
		}
		poll(client, noted)
		expect(t, client.Status().ConfirmedAt.Equal(confirmed), true)
	}
}

// After a document that drops a stolen signer, the thief's signatures clear no warrant.
func TestATheft(t *testing.T) {
	service, thief := serving(t), serving(t)
	client, noted := service.client(t, t.TempDir())
	poll(client, noted)
	service.instead = func(to http.ResponseWriter, asked *http.Request) bool {
		if asked.URL.Path == feedPath {
			to.Write(thief.feed())
		}
		return asked.URL.Path == feedPath
	}
	service.vouch(keyNumber(2))
	thief.signer = keyNumber(3)
	expect(t, poll(client, noted), []Event{TrustChanged{2, service.pin()}, ResponseRejected{Signature}})
	expect(t, []Verdict{check(client, "svc_wrt_a"), check(client, "svc_wrt_b")}, []Verdict{Revoked, Stale})
	service.instead = nil
	poll(client, noted)
	expect(t, check(client, "svc_wrt_b"), Clear)
}

func TestADocumentThatEnds(t *testing.T) {
	service := serving(t)
	client, noted := service.client(t, t.TempDir())
	service.documentEnd = time.Now().Add(1500 * time.Millisecond).UTC()
	poll(client, noted)
	expect(t, check(client, "svc_wrt_b"), Clear)
	for check(client, "svc_wrt_b") == Clear {
		time.Sleep(time.Millisecond)
	}
	expect(t, poll(client, noted), []Event{ResponseRejected{TrustExpired}})
	expect(t, check(client, "svc_wrt_a"), Revoked)
	service.documentEnd = time.Now().Add(time.Hour).UTC()
	service.vouch(service.signer)
	poll(client, noted)
	expect(t, check(client, "svc_wrt_b"), Clear)
}

// The API key is sent to no other address, and never without TLS.
func TestABaseMayBeElsewhere(t *testing.T) {
	service, other := serving(t), serving(t)
	keys := []string{}
	other.instead = func(_ http.ResponseWriter, asked *http.Request) bool {
		keys = append(keys, asked.Header.Get("Authorization"))
		return false
	}
	service.instead = func(to http.ResponseWriter, asked *http.Request) bool {
		isBase := strings.HasPrefix(asked.URL.Path, feedPath+"/base/")
		if isBase {
			http.Redirect(to, asked, other.URL+asked.URL.Path, http.StatusTemporaryRedirect)
		}
		return isBase
	}
	client, noted := service.client(t, t.TempDir())
	poll(client, noted)
	expect(t, check(client, "svc_wrt_a"), Revoked)
	expect(t, keys, []string{""})
	from := &response{status: 307, header: http.Header{"Location": {"http://elsewhere/"}}}
	if _, err := from.target("https://here/"); err == nil {
		t.Error("a redirect leads to an address without TLS")
	}
	for _, address := range []string{"http://rescind.example.com", "rescind", "https://a@b", "https://b?c", "ftp://b"} {
		if checkURL(address, false) == nil {
			t.Error(address)
		}
	}
}

func TestOptions(t *testing.T) {
	whole := Options{URL: "https://b", APIKey: "k", Tenant: tenant, TrustPin: strings.Repeat("0", 64), StateDir: t.TempDir()}
	if _, err := New(whole); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Options){
		"URL": func(o *Options) { o.URL = "b" }, "APIKey": func(o *Options) { o.APIKey = "" },
		"Tenant": func(o *Options) { o.Tenant = "" }, "StateDir": func(o *Options) { o.StateDir = "" },
		"TrustPin":     func(o *Options) { o.TrustPin = strings.Repeat("A", 64) },
		"no trust":     func(o *Options) { o.TrustPin = "" },
		"MaxStaleness": func(o *Options) { o.MaxStaleness = -1 },
	} {
		wrong := whole
		change(&wrong)
		if _, err := New(wrong); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	policy, _ := policyOf(Options{})
	expect(t, policy.pause(time.Minute), 15*time.Second)
	expect(t, policy.longPoll(time.Minute), 10*time.Second)
}

func TestRunAndWait(t *testing.T) {
	service := serving(t)
	service.maxWait = 25
	client, noted := service.client(t, t.TempDir())
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	done := make(chan error)
	go func() { done <- client.Run(ctx) }()
	if err := client.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	service.revoke("svc_wrt_b")
	expect(t, client.WaitFor(ctx, 1), true)
	service.revoke("svc_wrt_c")
	expect(t, client.WaitFor(ctx, 2), true)
	service.lock.Lock()
	expect(t, service.query.Get("wait"), "10")
	service.lock.Unlock()
	expect(t, check(client, "svc_wrt_b"), Revoked)
	if client.Run(ctx) == nil {
		t.Error("a client runs twice")
	}
	stop()
	expect(t, (<-done).Error(), "context canceled")
	isRecovered := false
	for _, each := range *noted {
		isRecovered = isRecovered || each == Event(BecameFresh{})
	}
	expect(t, isRecovered, true)
	ended, stop := context.WithTimeout(context.Background(), 0)
	defer stop()
	expect(t, client.WaitFor(ended, 3), false)
	never, _ := service.client(t, t.TempDir())
	expect(t, never.Ready(ended).Error(), "rescind: not ready: the service has not responded yet")
}

func TestASavedStateThatCannotBeSavedChangesNothing(t *testing.T) {
	service := serving(t)
	folder := t.TempDir()
	client, noted := service.client(t, folder)
	poll(client, noted)
	service.revoke("svc_wrt_b")
	// A file in place of the folder prevents writes, even by root.
	os.RemoveAll(folder)
	os.WriteFile(folder, nil, 0o600)
	found := poll(client, noted)
	if failed, ok := found[0].(PollFailed); !ok || !strings.HasPrefix(failed.Message, "cannot save the state") {
		t.Error(found)
	}
	expect(t, check(client, "svc_wrt_b"), Clear)
	os.Remove(folder)
	poll(client, noted)
	expect(t, check(client, "svc_wrt_b"), Revoked)
	if _, err := os.Stat(filepath.Join(folder, stateFile)); err != nil {
		t.Error(err)
	}
}
