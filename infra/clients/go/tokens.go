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
	jwtSession   = "jwt-session"
	jwtSubject   = "jwt-subject"
	momentMax    = 253402300799 // the last second of the year 9999
)

// tokenForms match the issuer and value of each kind. They allow one spelling only, because another
// spelling would have another identifier.
var tokenForms = map[string]*regexp.Regexp{
	"jwt":      regexp.MustCompile(`(?s)\A.+\n.+\z`),
	jwtSession: regexp.MustCompile(`(?s)\A.+\n.+\z`),
	jwtSubject: regexp.MustCompile(`(?s)\A.+\n.+\z`),
	"biscuit":  regexp.MustCompile(`\A\n([0-9a-f]{2})+\z`),
	"ucan":     regexp.MustCompile(`\A\nb[a-z2-7]+\z`),
	"x509":     regexp.MustCompile(`\A[0-9a-f]{64}\n[1-9a-f][0-9a-f]*\z`),
	"other":    regexp.MustCompile(`(?s)\A.*\n.+\z`),
}

// tokenWords abbreviate kinds in identifiers, which have at most 72 bytes.
var tokenWords = map[string]string{jwtSession: "sid", jwtSubject: "sub"}

// TokenID returns the warrant identifier of a token that others issue, for Check (docs/tokens.md).
// The kind is jwt, jwt-session, jwt-subject, biscuit, ucan, x509 or other. It does not verify the
// token, so verify the token first. issuedBefore is required with jwt-subject and invalid with
// other kinds. It is the `iat` of the token, rounded up, or 0 without `iat`.
func TokenID(kind, issuer, value string, issuedBefore ...int64) (string, error) {
	form, ok := tokenForms[kind]
	if !ok {
		return "", errors.New("rescind: the kind of a token must be jwt, jwt-session, jwt-subject, biscuit, ucan, x509 or other")
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
		return "", fmt.Errorf("rescind: issuer and value do not have the form of the kind %s", kind)
	}
	if (kind == jwtSubject) != (len(issuedBefore) == 1) || len(issuedBefore) > 1 {
		return "", errors.New("rescind: issuedBefore is required with the kind jwt-subject, and with no other")
	}
	for _, each := range issuedBefore {
		if each < 0 || each > momentMax {
			return "", errors.New("rescind: issuedBefore must be seconds from 1970 to 9999")
		}
	}
	digest := sha256.Sum256([]byte(tokenPrefix + "\n" + kind + "\n" + named))
	if word, ok := tokenWords[kind]; ok {
		kind = word
	}
	id := "svc_wrt_" + kind + "-" + base64.RawURLEncoding.EncodeToString(digest[:])
	if len(issuedBefore) == 1 {
		id += fmt.Sprintf("-%012d", issuedBefore[0])
	}
	return id, nil
}
