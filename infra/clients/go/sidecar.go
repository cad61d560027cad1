package rescind

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"time"
)

const checkPath = "/v1/revocations/check"

var warrantIDs = regexp.MustCompile(`^svc_wrt_[A-Za-z0-9_-]{1,64}$`)

// Handler answers `GET /v1/revocations/check?warrant_id=…` as the service does, from memory: a
// program that asks the service needs another address, and no API key. It answers 503 `stale` where
// Check returns Stale. `GET /readyz` has the status, with 503 while the client is stale.
func Handler(client *Client) http.Handler {
	return http.HandlerFunc(func(to http.ResponseWriter, asked *http.Request) {
		switch {
		case asked.URL.Path != checkPath && asked.URL.Path != "/readyz":
			fault(to, http.StatusNotFound, "not_found", "there is no such path")
		case asked.Method != http.MethodGet && asked.Method != http.MethodHead:
			to.Header().Set("Allow", "GET")
			fault(to, http.StatusMethodNotAllowed, "method_not_allowed", "use GET")
		case asked.URL.Path == checkPath:
			client.answerCheck(to, asked.URL.RawQuery)
		default:
			client.answerReady(to)
		}
	})
}

func (c *Client) answerCheck(to http.ResponseWriter, query string) {
	given, err := url.ParseQuery(query)
	ids := given["warrant_id"]
	if err != nil || len(ids) != 1 || !warrantIDs.MatchString(ids[0]) {
		fault(to, http.StatusBadRequest, "invalid_request",
			"warrant_id: must be svc_wrt_ followed by 1 to 64 letters, digits, '_' or '-'")
		return
	}
	verdict := c.Check(ids[0])
	if verdict == Stale {
		to.Header().Set("Retry-After", "1")
		fault(to, http.StatusServiceUnavailable, "stale", c.Status().Problem)
		return
	}
	send(to, http.StatusOK, struct {
		WarrantID string `json:"warrant_id"`
		Revoked   bool   `json:"revoked"`
	}{ids[0], verdict == Revoked})
}

func (c *Client) answerReady(to http.ResponseWriter) {
	now, status := c.Status(), http.StatusOK
	if now.Stale {
		status = http.StatusServiceUnavailable
	}
	send(to, status, now)
}

func fault(to http.ResponseWriter, status int, code, message string) {
	said := map[string]string{"code": code, "message": message}
	send(to, status, map[string]any{"error": said})
}

func send(to http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	to.Header().Set("Content-Type", "application/json")
	to.Header().Set("Cache-Control", "no-store")
	to.WriteHeader(status)
	// A caller that has gone needs no answer.
	_, _ = to.Write(data)
}

// NewServer returns a server of Handler that bounds what a caller can take.
func NewServer(client *Client) *http.Server {
	return &http.Server{
		Handler: Handler(client), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second,
		WriteTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
}
