package rescind

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	tokenPrefix  = "rescind-token-v1"
	tokenPartMax = 1024
)

// tokenForms are the issuer and the value of each kind. Another spelling of one token would have
// another identifier.
var tokenForms = map[string]*regexp.Regexp{
	"jwt":     regexp.MustCompile(`(?s)\A.+\n.+\z`),
	"biscuit": regexp.MustCompile(`\A\n([0-9a-f]{2})+\z`),
	"ucan":    regexp.MustCompile(`\A\nb[a-z2-7]+\z`),
	"x509":    regexp.MustCompile(`\A[0-9a-f]{64}\n[1-9a-f][0-9a-f]*\z`),
	"other":   regexp.MustCompile(`(?s)\A.*\n.+\z`),
}

// TokenID returns the warrant identifier of a token that others issue, for Check (docs/tokens.md).
// The kind is jwt, biscuit, ucan, x509 or other. It proves nothing: verify the token first.
func TokenID(kind, issuer, value string) (string, error) {
	form, ok := tokenForms[kind]
	if !ok {
		return "", errors.New("rescind: the kind of a token must be jwt, biscuit, ucan, x509 or other")
	}
	for _, part := range []string{issuer, value} {
		isControl := func(each rune) bool { return each < ' ' }
		if len(part) > tokenPartMax || !utf8.ValidString(part) || strings.IndexFunc(part, isControl) >= 0 {
			return "", fmt.Errorf("rescind: issuer and value of a token must be text of at most %d bytes "+
				"without control characters", tokenPartMax)
		}
	}
	named := issuer + "\n" + value
	if !form.MatchString(named) {
		return "", fmt.Errorf("rescind: issuer and value have not the form of the kind %s", kind)
	}
	digest := sha256.Sum256([]byte(tokenPrefix + "\n" + kind + "\n" + named))
	return "svc_wrt_" + kind + "-" + base64.RawURLEncoding.EncodeToString(digest[:]), nil
}
