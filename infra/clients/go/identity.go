package rescind

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	identityFile       = "identity.key"
	registrationPrefix = "rescind-register-v1\n"
	reportPrefix       = "rescind-report-v1\n"
	momentForm         = "2006-01-02T15:04:05Z"
)

// identity is the key that signs an authorizer's registrations and heartbeats (TRUST-10).
type identity struct{ private ed25519.PrivateKey }

// identityOf returns the identity in a folder. It creates one if there is none.
func identityOf(folder string) (*identity, error) {
	path := filepath.Join(folder, identityFile)
	own, err := readIdentity(path)
	if !errors.Is(err, os.ErrNotExist) {
		return own, err
	}
	err = locked(folder, func() error {
		// Another process may have created it before the lock.
		if own, err = readIdentity(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		data, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			return err
		}
		own = &identity{private}
		return replaceFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: data}))
	})
	return own, err
}

func readIdentity(path string) (*identity, error) {
	file, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if file.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others can read %s: run chmod 600 %s", path, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(data); block != nil {
		parsed, _ := x509.ParsePKCS8PrivateKey(block.Bytes)
		if private, ok := parsed.(ed25519.PrivateKey); ok {
			return &identity{private}, nil
		}
	}
	return nil, fmt.Errorf("%s is not an Ed25519 key in PEM. Delete the file, and ask the operator of the "+
		"service to remove the registration of this authorizer", path)
}

// proof returns the proof of a registration, in the format of the request.
func (i *identity) proof(tenant, name string, now time.Time) map[string]any {
	payload := encode(map[string]any{
		"Tenant": tenant, "Name": name, "PublicKey": []byte(i.private.Public().(ed25519.PublicKey)),
		"IssuedAt": now.UTC().Format(momentForm),
	})
	return map[string]any{"payload": toBase64(payload), "signature": i.sign(registrationPrefix, payload)}
}

func (i *identity) sign(prefix string, payload []byte) string {
	return toBase64(ed25519.Sign(i.private, append([]byte(prefix), payload...)))
}

// claimed returns the lowest number from 1 that no other process has claimed in the folder, and its
// lock file. Closing the file releases the number.
func claimed(folder string) (int, *os.File, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return 0, nil, err
	}
	for number := 1; ; number++ {
		path := filepath.Join(folder, fmt.Sprintf("process-%d.lock", number))
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return 0, nil, err
		}
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return number, file, nil
		}
		file.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return 0, nil, err
		}
	}
}
