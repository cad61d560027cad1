package rescind

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

const halfStale = 15 * time.Second // half of MaxStaleness

func TestAnAPIKeyIsCheckedAndNeverShown(t *testing.T) {
	service := serving(t)
	given := Options{URL: service.URL, Tenant: tenant, TrustPin: service.pin(), StateDir: t.TempDir(), NoReports: true}
	for _, wrong := range []string{" \r\n\t", "SECRET\nKEY", "SECRET KEY", "SECRET\u00a0KEY", "SECRETü", "SECRET\x00KEY", "SECRET\x7f"} {
		given.APIKey = wrong
		if _, err := New(given); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	sent := ""
	service.instead = func(_ http.ResponseWriter, asked *http.Request) bool {
		sent = asked.Header.Get("Authorization")
		return false
	}
	given.APIKey = "\ufeff \tSECRET!~\u00a0\r\n"
	client, err := New(given)
	if err != nil {
		t.Fatal(err)
	}
	client.follower.poll(context.Background())
	expect(t, sent, "Bearer SECRET!~")
}

func TestOneAgeIsReadInOneForm(t *testing.T) {
	for form, expected := range map[string]time.Duration{
		"0": 0, "007": 7 * time.Second, " \t7\t ": 7 * time.Second, "2147483648": 1 << 31 * time.Second,
		"9999999999": 1 << 31 * time.Second, strings.Repeat("9", 40): 1 << 31 * time.Second,
	} {
		found, err := (&response{header: http.Header{"Age": {form}}}).age()
		expect(t, []any{found, err}, []any{expected, nil})
	}
	for _, wrong := range [][]string{{""}, {" "}, {"0", "0"}, {"1000", "0"}, {"0, 0"}, {"-1"}, {"+1"}, {"1.5"}, {"٣"}} {
		if _, err := (&response{header: http.Header{"Age": wrong}}).age(); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// A huge age is an event. The next good response ends it.
func TestAHugeAgeEnds(t *testing.T) {
	service := serving(t)
	client, noted := service.client(t, t.TempDir())
	service.instead = func(to http.ResponseWriter, _ *http.Request) bool {
		to.Header().Set("Age", "9999999999")
		return false
	}
	found := poll(client, noted)
	if _, ok := found[len(found)-1].(PollFailed); !ok {
		t.Error(found)
	}
	service.instead = nil
	poll(client, noted)
	expect(t, check(client, "svc_wrt_b"), Clear)
}

func TestPolls(t *testing.T) {
	service := serving(t)
	service.maxWait, service.pollSeconds = 25, 10
	client, _ := service.client(t, t.TempDir())
	follower := &client.follower
	next := func() time.Duration { return follower.poll(context.Background()) }
	isShort := func(pause time.Duration) bool { return pause <= afterWait }
	// Only the first of several immediate responses with news is followed by an immediate poll.
	expect(t, isShort(next()), true)
	service.revoke("svc_wrt_b")
	expect(t, isShort(next()), false)
	expect(t, service.query.Get("wait"), "10")
	// Another tag without a new entry is not news.
	service.issue++
	expect(t, isShort(next()), false)
	service.revoke("svc_wrt_c")
	expect(t, isShort(next()), true)
	expect(t, isShort(follower.pause(6*time.Second, 0, true)), true)
	expect(t, isShort(follower.pause(6*time.Second, 10*time.Second, false)), true)
	expect(t, isShort(follower.pause(4*time.Second, 10*time.Second, false)), false)
	// F1840a: A response just after half of a short wait is paced.
	expect(t, isShort(follower.pause(550*time.Millisecond, time.Second, false)), false)
	expect(t, isShort(follower.pause(1100*time.Millisecond, time.Second, false)), true)
	// No pause exceeds half of MaxStaleness, and a poll after a failure does not wait.
	service.instead = func(to http.ResponseWriter, asked *http.Request) bool {
		service.query = asked.URL.Query()
		to.Header().Set("Retry-After", "99999999999")
		to.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	for n := 0; n < 20; n++ {
		if pause := next(); pause < halfStale/2 || pause > halfStale {
			t.Error(pause)
		}
		expect(t, service.query.Get("wait") == "", n > 0)
	}
	service.instead = nil
	next()
	expect(t, service.query.Get("wait"), "")
	next()
	expect(t, service.query.Get("wait"), "10")
	// While stale, a poll does not wait.
	follower.view.Store(follower.view.Load().distrusted())
	expect(t, follower.wait(), time.Duration(0))
	expect(t, policy{staleness: 4 * time.Second, poll: time.Minute}.pause(0), 2*time.Second)
}

func TestConnectionsAreRenewed(t *testing.T) {
	service := serving(t)
	client, _ := service.client(t, t.TempDir())
	seen := map[string]bool{}
	status := http.StatusServiceUnavailable
	service.instead = func(to http.ResponseWriter, asked *http.Request) bool {
		seen[asked.RemoteAddr] = true
		to.WriteHeader(status)
		return true
	}
	for failures, connections := range []int{1, 1, 2, 3} {
		client.follower.poll(context.Background())
		expect(t, []int{failures, len(seen)}, []int{failures, connections})
	}
	client.follower.failures = 0
	client.follower.poll(context.Background())
	expect(t, len(seen), 3)
	client.follower.failures, client.follower.connected = 0, time.Now().Add(-connectionAgeMax-time.Second)
	client.follower.poll(context.Background())
	expect(t, len(seen), 4)
}

// A peer may repeat the request in its response.
func TestTheAPIKeyIsInNoMessage(t *testing.T) {
	const key = "svc_SECRET"
	for name, instead := range map[string]func(http.ResponseWriter, string){
		"a body": func(to http.ResponseWriter, sent string) {
			to.WriteHeader(400)
			fmt.Fprint(to, sent, strings.Repeat("x", 300))
		},
		"a late body": func(to http.ResponseWriter, sent string) {
			to.WriteHeader(400)
			fmt.Fprint(to, strings.Repeat("x", 160), sent)
		},
		"an age": func(to http.ResponseWriter, sent string) { to.Header().Set("Age", sent); fmt.Fprint(to, "{}") },
		"a coding": func(to http.ResponseWriter, sent string) {
			to.Header().Set("Content-Encoding", sent)
			fmt.Fprint(to, "{}")
		},
		"a word": func(to http.ResponseWriter, sent string) {
			fmt.Fprintf(to, `{"id": "svc_azr_1", "status": %q, "report_after_seconds": 300, "jitter_seconds": 0}`, sent)
		},
	} {
		service, noted := serving(t), []string{}
		client, err := New(Options{
			URL: service.URL, APIKey: key, Tenant: tenant, TrustPin: service.pin(), StateDir: t.TempDir(),
			OnEvent: func(event Event) { noted = append(noted, fmt.Sprint(event)) },
		})
		if err != nil {
			t.Fatal(err)
		}
		client.follower.poll(context.Background())
		service.instead = func(to http.ResponseWriter, asked *http.Request) bool {
			instead(to, asked.Header.Get("Authorization"))
			return true
		}
		client.follower.poll(context.Background())
		for n := 0; n < 3; n++ {
			client.reporter.step(context.Background())
		}
		client.reporter.abandon()
		found := strings.Join(noted, "\n")
		if strings.Contains(found, "SECRET") {
			t.Errorf("%s: %s", name, found)
		}
		expect(t, strings.Contains(found, "Bearer …"), name != "an age" && name != "a coding")
	}
}

func TestPrintedValuesHaveNoAPIKey(t *testing.T) {
	service := serving(t)
	options := Options{URL: service.URL, APIKey: "svc_SECRET", Tenant: tenant, TrustPin: service.pin(), StateDir: t.TempDir()}
	client, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X"} {
		for _, value := range []any{options, &options, client, *client.follower.transport, client.follower.transport} {
			found := fmt.Sprintf(verb, value)
			if strings.Contains(found, "SECRET") || strings.Contains(strings.ToLower(found), "534543524554") {
				t.Errorf("%s: %s", verb, found)
			}
		}
	}
	expect(t, strings.Contains(fmt.Sprint(options), "URL:"+service.URL), true)
}

// After two failures with a tag, the next request is sent without it.
func TestATagThatProvokesFailuresIsDropped(t *testing.T) {
	service := serving(t)
	client, noted := service.client(t, t.TempDir())
	poll(client, noted)
	tags := []string{}
	service.instead = func(to http.ResponseWriter, asked *http.Request) bool {
		tag := asked.Header.Get("If-None-Match")
		if tags = append(tags, tag); tag != "" {
			to.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
		}
		return tag != ""
	}
	for n := 0; n < 3; n++ {
		*noted = poll(client, noted)
	}
	expect(t, tags, []string{`"0"`, `"0"`, ""})
	expect(t, len(*noted), 0)
}

// Text of a peer is one line. Messages never contain the address of a redirect, which is secret.
func TestMessagesHaveNoForeignText(t *testing.T) {
	service := serving(t)
	for name, instead := range map[string]func(http.ResponseWriter){
		"a body": func(to http.ResponseWriter) {
			to.WriteHeader(502)
			fmt.Fprint(to, "a\r\nSECRET\x1b[2J\u0085\u2028\xff")
		},
		"an age":   func(to http.ResponseWriter) { to.Header()["Age"] = []string{"\x1b[2J"} },
		"a coding": func(to http.ResponseWriter) { to.Header().Set("Content-Encoding", "\u0085zz"); to.Write([]byte("x")) },
		"a redirect": func(to http.ResponseWriter) {
			to.Header().Set("Location", "http://127.0.0.1:1/?SECRET")
			to.WriteHeader(307)
		},
		"no target": func(to http.ResponseWriter) { to.Header().Set("Location", "http://[SECRET"); to.WriteHeader(307) },
	} {
		client, noted := service.client(t, t.TempDir())
		service.instead = func(to http.ResponseWriter, asked *http.Request) bool {
			isRedirect := strings.HasSuffix(name, "redirect") || strings.HasSuffix(name, "target")
			if isRedirect != strings.HasPrefix(asked.URL.Path, feedPath+"/base/") || asked.URL.Path == trustPath {
				return false
			}
			instead(to)
			return true
		}
		found := poll(client, noted)
		failed, ok := found[len(found)-1].(PollFailed)
		if isShown := strings.Contains(failed.Message, "SECRET"); !ok || isShown != (name == "a body") {
			t.Errorf("%s: %v", name, found)
		}
		for _, each := range failed.Message {
			if each < ' ' || each > '~' {
				t.Errorf("%s: %q", name, failed.Message)
			}
		}
	}
}

func TestAWarrantIdentifierHasOneForm(t *testing.T) {
	service := serving(t)
	client, noted := service.client(t, t.TempDir())
	poll(client, noted)
	wrong := [][]string{{}, {""}, {"garbage"}, {" svc_wrt_b"}, {"svc_wrt_b\n"}, {"SVC_WRT_b"}, {"svc_wrt_"}, {"svc_wrt_a", ""}}
	for _, ids := range append(wrong, []string{"svc_wrt_" + strings.Repeat("x", 65)}) {
		found, err := client.Check(ids...)
		expect(t, []any{found, err}, []any{Stale, ErrWarrantID})
	}
}

// Staleness is reported on time, even if no poll ends then.
func TestStalenessIsNotedInTime(t *testing.T) {
	service := serving(t)
	events := make(chan Event, 100)
	client, err := New(Options{
		URL: service.URL, APIKey: "key", Tenant: tenant, TrustPin: service.pin(), StateDir: t.TempDir(), NoReports: true,
		MaxStaleness: time.Second, OnEvent: func(event Event) { events <- event },
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, client.Status().Problem, "the service has not responded yet")
	client.follower.poll(context.Background())
	expect(t, client.Status().Problem, "")
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	go client.watch(ctx)
	for isStale := false; !isStale; {
		select {
		case event := <-events:
			_, isStale = event.(BecameStale)
		case <-ctx.Done():
			t.Fatal("the end is not noted")
		}
	}
	expect(t, client.Status().Problem, "the service has not confirmed the state in time")
}

func TestARefusedRegistrationIsLogged(t *testing.T) {
	service := serving(t)
	var written bytes.Buffer
	log.SetOutput(&written)
	defer log.SetOutput(os.Stderr)
	client := service.reporting(t, t.TempDir())
	defer client.reporter.abandon()
	client.onEvent = LogEvent
	service.instead = func(to http.ResponseWriter, _ *http.Request) bool { to.WriteHeader(http.StatusConflict); return true }
	client.reporter.step(context.Background())
	if !strings.Contains(written.String(), `cannot register "gate": another key has registered its name`) {
		t.Error(written.String())
	}
	written.Reset()
	LogEvent(PollSucceeded{})
	LogEvent(ReportAccepted{Status: "ok"})
	expect(t, written.Len(), 0)
	LogEvent(ReportAccepted{Status: "equivocation"})
	LogEvent(PollFailed{Message: "away"})
	expect(t, strings.Count(written.String(), "\n"), 2)
}
