package rescind

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const checkPath = "/v1/revocations/check"

// Handler answers `GET /v1/revocations/check?warrant_id=…` from memory, compatibly with the
// service. Callers need only another address and no API key. It responds with 503 `stale` if Check
// returns Stale. `GET /readyz` returns the status, with 503 while the client is stale.
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
			status, code := client.Status(), http.StatusOK
			if status.Stale {
				code = http.StatusServiceUnavailable
			}
			send(to, code, status)
		}
	})
}

func (c *Client) answerCheck(to http.ResponseWriter, query string) {
	id, err := parseQuery(query)
	if err != nil {
		fault(to, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	verdict, err := c.Check(id)
	if err != nil {
		fault(to, http.StatusBadRequest, "invalid_request", "warrant_id: "+err.Error())
		return
	}
	if verdict == Stale {
		to.Header().Set("Retry-After", "1")
		fault(to, http.StatusServiceUnavailable, "stale", c.Status().Problem)
		return
	}
	send(to, http.StatusOK, struct {
		WarrantID string `json:"warrant_id"`
		Revoked   bool   `json:"revoked"`
	}{id, verdict == Revoked})
}

// parseQuery returns the single warrant that a query names, by its identifier or as a token.
func parseQuery(text string) (string, error) {
	query, err := url.ParseQuery(text)
	if err != nil {
		return "", errors.New("query: is malformed")
	}
	ids, kinds, issuers, values := query["warrant_id"], query["token_kind"], query["token_issuer"], query["token_value"]
	times := query["token_issued_before"]
	switch {
	case len(ids) == 1 && len(kinds)+len(issuers)+len(values)+len(times) == 0:
		return ids[0], nil
	case len(ids) == 0 && len(kinds) == 1 && len(issuers) <= 1 && len(values) == 1 && len(times) <= 1:
		var before []int64
		for _, each := range times {
			seconds, err := strconv.ParseInt(each, 10, 64)
			if err != nil {
				return "", errors.New("token_issued_before: must be whole seconds since 1970")
			}
			before = append(before, seconds)
		}
		return TokenID(kinds[0], query.Get("token_issuer"), values[0], before...)
	default:
		return "", errors.New("warrant_id: is required once; pass either this or " +
			"token_kind, token_issuer, token_value and token_issued_before")
	}
}

func fault(to http.ResponseWriter, status int, code, message string) {
	send(to, status, map[string]any{"error": map[string]string{"code": code, "message": message}})
}

func send(to http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	to.Header().Set("Content-Type", "application/json")
	to.Header().Set("Cache-Control", "no-store")
	to.WriteHeader(status)
	// Write errors mean that the caller is gone.
	_, _ = to.Write(data)
}

// NewServer returns a server of Handler that bounds the resources of each caller.
func NewServer(client *Client) *http.Server {
	return &http.Server{
		Handler: Handler(client), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second,
		WriteTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
}
