package rescind

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	connectTime  = 5 * time.Second // shared by all addresses of a name
	answerTime   = 10 * time.Second
	baseRate     = 256 << 10 // the minimum rate of a base, in bytes per second
	errorMax     = 64 << 10  // the maximum size of an error response, in bytes
	shownMax     = 200
	redirectsMax = 3
	secondsMax   = 1 << 31 // the maximum number of seconds; a larger number is clamped
)

// noAnswer reports a missing, late or unexpected response of the service.
type noAnswer struct {
	message    string
	retryAfter time.Duration
}

func (n *noAnswer) Error() string { return n.message }

func without(format string, values ...any) *noAnswer {
	return &noAnswer{message: printable(fmt.Sprintf(format, values...))}
}

// printable returns the beginning of a text as one line, with control characters escaped.
func printable(text string) string {
	if len(text) > shownMax {
		text = text[:shownMax]
	}
	quoted := strconv.Quote(strings.ToValidUTF8(text, "?"))
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// described returns the reason of a failed request. It omits text of net/http, because that library
// received the API key and secret redirect addresses.
func described(err error) error {
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return without("the service did not respond in time")
	}
	for each := err; each != nil; each = errors.Unwrap(each) {
		switch each.(type) {
		case *net.OpError, x509.UnknownAuthorityError, x509.HostnameError, x509.CertificateInvalidError:
			return without("the service cannot be reached: %v", each)
		}
	}
	return without("the service closed the connection, or sent a malformed response")
}

// response is a response of the service to the request made at the time `asked`.
type response struct {
	asked  time.Time
	status int
	header http.Header
	body   []byte
}

// field returns a header. Repeated headers are joined into a list (RFC 9110, 5.3).
func (r *response) field(name string) string { return strings.Join(r.header.Values(name), ", ") }

// age returns how long before the request the service confirmed the response.
func (r *response) age() (time.Duration, error) {
	ages := r.header.Values("Age")
	if len(ages) == 0 {
		return 0, nil
	}
	age, ok := wholeSeconds(strings.Join(ages, ", "))
	if !ok {
		return 0, without("the Age of the response is not a number of seconds")
	}
	return age, nil
}

var digits = regexp.MustCompile(`^[0-9]+$`)

// wholeSeconds parses a number of seconds, which spaces and tabs may surround.
func wholeSeconds(text string) (time.Duration, bool) {
	text = strings.Trim(text, " \t")
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		seconds = secondsMax
	}
	return time.Duration(seconds) * time.Second, digits.MatchString(text)
}

// unexpected returns the error about a response with an unexpected status.
func (r *response) unexpected() *noAnswer {
	failure := without("the service answered %d: %s", r.status, r.body)
	if pause, ok := wholeSeconds(r.field("Retry-After")); ok {
		failure.retryAfter = pause
	}
	return failure
}

// transport makes requests to the service, bounded in time and size.
type transport struct {
	url    string
	client *http.Client
	// Functions contain the API key, because fmt prints each field.
	authorize func(http.Header)
	// redact replaces the API key in text of a peer, which may repeat the request.
	redact func([]byte) []byte
}

var apiKeys = regexp.MustCompile(`^[!-~]+$`)

func newTransport(address, apiKey string, allowHTTP bool, authorities *x509.CertPool) (*transport, error) {
	// Files and editors add white space and byte order marks.
	apiKey = strings.TrimFunc(apiKey, func(each rune) bool { return unicode.IsSpace(each) || each == '\ufeff' })
	if !apiKeys.MatchString(apiKey) {
		return nil, errors.New("the API key is empty or contains an invalid character: pass the key that " +
			"`rescind api-keys create` printed")
	}
	address = strings.TrimRight(address, "/")
	if err := checkURL(address, allowHTTP); err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: connectTime}
	client := &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: connectTime,
			TLSClientConfig:    &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
			DisableCompression: true, MaxResponseHeaderBytes: errorMax, MaxIdleConnsPerHost: 2,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	authorize := func(headers http.Header) { headers.Set("Authorization", "Bearer "+apiKey) }
	redact := func(text []byte) []byte { return bytes.ReplaceAll(text, []byte(apiKey), []byte("…")) }
	return &transport{address, client, authorize, redact}, nil
}

func checkURL(address string, allowHTTP bool) error {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Hostname() == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") ||
		parsed.RawQuery != "" || parsed.User != nil {
		return errors.New("the address of the service must be a URL such as https://rescind.example.com")
	}
	ip := net.ParseIP(parsed.Hostname())
	isHere := parsed.Hostname() == "localhost" || (ip != nil && ip.IsLoopback())
	if parsed.Scheme == "http" && !allowHTTP && !isHere {
		return errors.New("without TLS, anyone on the network path can read the API key: use https, or set AllowHTTP")
	}
	return nil
}

// get returns the response to a request, of at most `limit` bytes, within `patience`. With a tag,
// it may be 304. Redirects are not followed.
func (t *transport) get(ctx context.Context, path string, limit int64, tag string, patience time.Duration) (*response, error) {
	headers := http.Header{}
	t.authorize(headers)
	if tag != "" {
		headers.Set("If-None-Match", tag)
	}
	return t.ask(ctx, http.MethodGet, t.url+path, headers, nil, limit, patience)
}

// post sends JSON and returns the response. It may be sent twice, so the request must be
// idempotent.
func (t *transport) post(ctx context.Context, path string, body []byte) (*response, error) {
	// An empty key sends no header, but permits net/http to repeat the request.
	headers := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {}}
	t.authorize(headers)
	return t.ask(ctx, http.MethodPost, t.url+path, headers, body, errorMax, answerTime)
}

// getFar returns the resource at a path, following redirects. The API key is sent to no other
// address.
func (t *transport) getFar(ctx context.Context, path string, limit int64) ([]byte, error) {
	at, headers := t.url+path, http.Header{}
	t.authorize(headers)
	patience := answerTime + time.Duration(limit/baseRate)*time.Second
	for n := 0; n <= redirectsMax; n++ {
		response, err := t.ask(ctx, http.MethodGet, at, headers, nil, limit, patience)
		if err != nil {
			return nil, err
		}
		if response.status == http.StatusOK {
			return response.body, nil
		}
		if at, err = response.target(at); err != nil {
			return nil, err
		}
		headers = http.Header{}
	}
	return nil, without("the service redirects too often")
}

// target returns the address to which a response redirects.
func (r *response) target(from string) (string, error) {
	switch r.status {
	case 301, 302, 303, 307, 308:
	default:
		return "", r.unexpected()
	}
	// The address is valid, because a request to it succeeded.
	base, _ := url.Parse(from)
	to, err := base.Parse(r.field("Location"))
	if err != nil {
		return "", without("the redirect leads to no address")
	}
	if to.Scheme != "https" && base.Scheme == "https" {
		return "", without("the redirect leads to an address without TLS")
	}
	return to.String(), nil
}

func (t *transport) ask(
	ctx context.Context, method, at string, headers http.Header, body []byte, limit int64, patience time.Duration,
) (*response, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	var asked time.Time
	// net/http repeats a request if the server had closed the connection. The repetition counts.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { asked = time.Now() },
	})
	request, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return nil, without("the address of the request is malformed")
	}
	headers.Set("Accept-Encoding", "gzip")
	headers.Set("User-Agent", "rescind-authorizer-go/"+Version)
	request.Header = headers
	received, err := t.client.Do(request)
	if err != nil {
		return nil, described(err)
	}
	defer received.Body.Close()
	for name := range received.Header {
		// net/http does not treat a name with a trailing space as the same header.
		if strings.ContainsAny(name, " \t") {
			return nil, described(nil)
		}
	}
	isGood := received.StatusCode == http.StatusOK || received.StatusCode == http.StatusCreated
	if !isGood {
		limit = errorMax
	}
	content, err := readBody(received, limit)
	if err != nil {
		return nil, err
	}
	if !isGood || method == http.MethodPost {
		content = t.redact(content)
	}
	return &response{asked, received.StatusCode, received.Header, content}, nil
}

// readBody returns the body without its content coding, and decodes at most `limit` bytes.
func readBody(received *http.Response, limit int64) ([]byte, error) {
	isChunked := len(received.TransferEncoding) > 0
	if received.ContentLength < 0 && !isChunked {
		return nil, without("the response does not state its length")
	}
	if received.ContentLength == 0 || received.Body == http.NoBody {
		return nil, nil
	}
	reader := io.Reader(received.Body)
	switch strings.Join(received.Header.Values("Content-Encoding"), ", ") {
	case "", "identity":
	case "gzip":
		unpacked, err := gzip.NewReader(received.Body)
		if err != nil {
			return nil, described(err)
		}
		reader = unpacked
	default:
		return nil, without("the response has a content coding that was not requested")
	}
	content, err := io.ReadAll(io.LimitReader(reader, limit+1))
	if err != nil {
		return nil, described(err)
	}
	if int64(len(content)) > limit {
		return nil, refuse(TooLarge)
	}
	return content, nil
}
