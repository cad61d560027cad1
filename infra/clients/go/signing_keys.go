package rescind

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
)

const (
	coveredPrefix   = "rescind-keys-v1\n"
	certifiedPrefix = "rescind-key-v1\n"
)

// SigningKey is a version of a signing key (TRUST-9). Missing times are zero.
type SigningKey struct {
	ID, Type, Status, Parent                                string
	Version                                                 uint64
	PublicKey                                               ed25519.PublicKey
	CreatedAt, ExpiresAt, RotatedAt, SuspendedAt, RevokedAt time.Time
	hasParent                                               bool
	certifiedBy                                             string
	certificate                                             []byte
}

// IsRevoked returns whether all signatures of this version are invalid. An unknown status counts as
// revoked.
func (k *SigningKey) IsRevoked() bool {
	return k.Status != "active" && k.Status != "suspended" && k.Status != "rotated"
}

func (k *SigningKey) name() string { return fmt.Sprintf("%s#%d", k.ID, k.Version) }

// parent returns the identifier of the parent for CBOR.
func (k *SigningKey) parent() any {
	if k.hasParent {
		return k.Parent
	}
	return nil
}

// openSigningKeys returns the keys in a blob that a head references.
func openSigningKeys(blob []byte, named reference, tenant string, covered *hash) ([]*SigningKey, error) {
	if uint64(len(blob)) > named.number {
		return nil, refuse(TooLarge)
	}
	if sha256.Sum256(blob) != named.sha256 {
		return nil, refuse(Hash)
	}
	// The hash fixes the bytes, so a non-canonical encoding is harmless.
	members, err := readFields(blob, false)
	if err != nil {
		return nil, err
	}
	items := members.list("Keys", kindMap)
	keys := make([]*SigningKey, len(items))
	for n, each := range items {
		keys[n] = members.asTable(each).signingKey()
		if n > 0 && !keys[n-1].isBefore(keys[n]) {
			members.fail()
		}
	}
	owner := members.text("Tenant")
	if err := members.err(); err != nil {
		return nil, err
	}
	if owner != tenant {
		return nil, refuse(Tenant)
	}
	if covered != nil {
		return keys, checkCertificates(keys, *covered, tenant)
	}
	return keys, nil
}

func (k *SigningKey) isBefore(next *SigningKey) bool {
	order := strings.Compare(k.ID, next.ID)
	return order < 0 || (order == 0 && k.Version < next.Version)
}

func (f *fields) signingKey() *SigningKey {
	public := f.key("PublicKey")
	key := &SigningKey{
		ID: f.text("Id"), Type: f.text("Type"), Status: f.text("Status"), Version: f.number("Version"),
		PublicKey: public[:], CreatedAt: f.moment("CreatedAt"),
		ExpiresAt: f.momentIf("ExpiresAt"), RotatedAt: f.momentIf("RotatedAt"),
		SuspendedAt: f.momentIf("SuspendedAt"), RevokedAt: f.momentIf("RevokedAt"),
	}
	if key.hasParent = f.has("Parent"); key.hasParent {
		key.Parent = f.text("Parent")
	}
	if f.has("Certificate") {
		certificate := f.table("Certificate")
		key.certifiedBy, key.certificate = certificate.text("By"), certificate.bytes("Signature")
		if len(key.certificate) != ed25519.SignatureSize {
			f.fail()
		}
	}
	return key
}

func (f *fields) momentIf(name string) (moment time.Time) {
	if f.has(name) {
		return f.moment(name)
	}
	return moment
}

// checkCertificates checks that the signer of the head cannot add keys alone. The trust document
// must cover each key, or a chain of certificates must lead to it from a covered key (TRUST-15).
func checkCertificates(keys []*SigningKey, covered hash, tenant string) error {
	ready, lasting := []*SigningKey{}, []any{}
	waiting := map[string][]*SigningKey{}
	for _, each := range keys {
		if each.certificate != nil {
			waiting[each.certifiedBy] = append(waiting[each.certifiedBy], each)
			continue
		}
		ready = append(ready, each)
		lasting = append(lasting, []any{each.ID, each.Version, each.Type, each.parent(), []byte(each.PublicKey)})
	}
	if sha256.Sum256(append([]byte(coveredPrefix), encode(lasting)...)) != covered {
		return refuse(Certificate)
	}
	for n := 0; n < len(ready); n++ {
		for _, each := range waiting[ready[n].name()] {
			if !each.isCertifiedBy(ready[n], tenant) {
				return refuse(Certificate)
			}
			ready = append(ready, each)
		}
		delete(waiting, ready[n].name())
	}
	if len(ready) != len(keys) {
		return refuse(Certificate)
	}
	return nil
}

// isCertifiedBy returns whether `signer` certifies this key, and is entitled to. It must be a
// version of the parent for the first version, and the previous version for a later one.
func (k *SigningKey) isCertifiedBy(signer *SigningKey, tenant string) bool {
	isOfParent := k.hasParent && k.Parent == signer.ID && (signer.Type == "root" || signer.Type == "issuer")
	isNext := k.ID == signer.ID && k.Version == signer.Version+1 && k.Type == signer.Type && k.parent() == signer.parent()
	if (k.Version == 1 && !isOfParent) || (k.Version != 1 && !isNext) {
		return false
	}
	data := encode(map[string]any{
		"Tenant": tenant, "Id": k.ID, "Version": k.Version, "Type": k.Type, "Parent": k.parent(),
		"PublicKey": []byte(k.PublicKey), "By": signer.name(),
	})
	var by key
	copy(by[:], signer.PublicKey)
	return isSigned(certifiedPrefix, data, k.certificate, by)
}
