package rescind

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	stateFile   = "floor.json"
	stateClient = "go"
	stateFormat = 1
	othersWrite = 0o022
	temporary   = ".new-"
)

// StateError reports that a saved state cannot be used, and the remedy.
type StateError struct{ Message string }

func (e *StateError) Error() string { return e.Message }

// saved is the persisted state of a client, which prevents rollback after a restart. It contains
// the position, the trust document, and the data to restore the state.
type saved struct {
	Tenant     string    `json:"tenant"`
	Sequence   uint64    `json:"sequence"`
	Chain      string    `json:"chain"`
	IssuedAt   time.Time `json:"issued_at"`
	AnsweredAt time.Time `json:"answered_at"`
	// The signer of the newest head. Empty if the position comes from the trust document.
	Signer string `json:"signer"`
	// The base with this hash and two encoded answers restore the state. Empty if it cannot be
	// restored.
	Base   string          `json:"base"`
	Origin json.RawMessage `json:"origin"`
	Latest json.RawMessage `json:"latest"`
	// The pin, and the trust document in the format of `GET /v1/trust`.
	Pin      string          `json:"pin"`
	Document json.RawMessage `json:"document"`
}

// storedState is the content of the file after its hash.
type storedState struct {
	Client string `json:"client"`
	Format int    `json:"format"`
	saved
}

// stateStore stores the saved state in a folder, in private files. Processes of one authorizer may share
// the folder, and the newest state is kept. Each tenant needs a separate folder.
type stateStore struct {
	folder string
	// The file versions that this object wrote and first read. They avoid unnecessary reads.
	written, began os.FileInfo
}

func (s *stateStore) file() string { return filepath.Join(s.folder, stateFile) }

func (s *stateStore) baseFile(sha256 string) string {
	return filepath.Join(s.folder, "base-"+sha256+".cbor")
}

// load returns the saved state, or nil if there is none.
func (s *stateStore) load() (*saved, error) {
	s.began = s.stamp()
	return s.saved()
}

// stamp identifies the content of the file. It is nil without a file.
func (s *stateStore) stamp() os.FileInfo {
	file, err := os.Stat(s.file())
	if err != nil {
		return nil
	}
	return file
}

func isSameStamp(one, two os.FileInfo) bool {
	if one == nil || two == nil {
		return one == nil && two == nil
	}
	return os.SameFile(one, two) && one.ModTime().Equal(two.ModTime()) && one.Size() == two.Size()
}

func (s *stateStore) saved() (*saved, error) {
	file, err := os.Stat(s.file())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if file.Mode().Perm()&othersWrite != 0 {
		return nil, &StateError{fmt.Sprintf("others can write to %s: run chmod 600 %s", s.file(), s.file())}
	}
	data, err := os.ReadFile(s.file())
	if err != nil {
		return nil, err
	}
	stored, err := parseState(data)
	if err != nil {
		return nil, &StateError{fmt.Sprintf(
			"%s is damaged (%v). Stop the client, remove the folder %s, and start the client again",
			s.file(), err, s.folder)}
	}
	if stored.Client != stateClient {
		return nil, &StateError{fmt.Sprintf(
			"%s was saved by the %s client: use a separate folder for each client", s.file(), stored.Client)}
	}
	return &stored.saved, nil
}

// parseState parses a saved state, of this client or of another one.
func parseState(data []byte) (*storedState, error) {
	sum, rest, _ := bytes.Cut(data, []byte("\n"))
	if of := sha256.Sum256(rest); hex.EncodeToString(of[:]) != string(sum) {
		return nil, errors.New("its hash is wrong")
	}
	// Only the client in Python does not record its name.
	writer := struct{ Client string }{"Python"}
	if err := json.Unmarshal(rest, &writer); err != nil {
		return nil, err
	}
	if writer.Client != stateClient {
		return &storedState{Client: writer.Client}, nil
	}
	stored := &storedState{}
	if err := json.Unmarshal(rest, stored); err != nil {
		return nil, err
	}
	if stored.Format < 1 || stored.Format > stateFormat {
		return nil, errors.New("another version of this program wrote it")
	}
	if chain, err := hex.DecodeString(stored.Chain); err != nil || len(chain) != sha256.Size {
		return nil, errors.New("its chain is not a hash")
	}
	if signer, err := hex.DecodeString(stored.Signer); err != nil || (len(signer) > 0 && !isSafe(signer)) {
		return nil, errors.New("its signer is not a key")
	}
	if stored.document() == nil || checkPin(stored.Pin) != nil {
		return nil, errors.New("its trust document is malformed")
	}
	return stored, nil
}

func (s *saved) position() position {
	at := position{sequence: s.Sequence}
	hex.Decode(at.chain[:], []byte(s.Chain))
	return at
}

// signer returns the signer of the newest head, or nil.
func (s *saved) signer() *key {
	if s.Signer == "" {
		return nil
	}
	var signer key
	hex.Decode(signer[:], []byte(s.Signer))
	return &signer
}

// loadBase returns the base with this hash, or nil if it is missing or damaged.
func (s *stateStore) loadBase(sum string) ([]byte, error) {
	data, err := os.ReadFile(s.baseFile(sum))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if of := sha256.Sum256(data); err == nil && hex.EncodeToString(of[:]) != sum {
		return nil, nil
	}
	return data, err
}

// saveBase stores a base. It is kept until a saved state does not name it.
func (s *stateStore) saveBase(data []byte) error {
	of := sha256.Sum256(data)
	return locked(s.folder, func() error { return replaceFile(s.baseFile(hex.EncodeToString(of[:])), data) })
}

// save replaces the saved state atomically and durably, unless the stored state is newer.
func (s *stateStore) save(next *saved) error {
	return locked(s.folder, func() error {
		if now := s.stamp(); !isSameStamp(now, s.written) {
			if isNewer, err := s.isBehind(next, now); isNewer || err != nil {
				return err
			}
		}
		data, _ := json.Marshal(storedState{stateClient, stateFormat, *next})
		sum := sha256.Sum256(data)
		if err := replaceFile(s.file(), append([]byte(hex.EncodeToString(sum[:])+"\n"), data...)); err != nil {
			return err
		}
		s.written = s.stamp()
		return s.removeOthers(next.Base)
	})
}

// isBehind returns whether another process has saved a newer state.
func (s *stateStore) isBehind(next *saved, now os.FileInfo) (bool, error) {
	held, err := s.saved()
	if err != nil || held == nil {
		return false, err
	}
	pin, root := next.Pin, next.document().roots.pin
	otherPin, otherRoot := held.Pin, held.document().roots.pin
	if pin != otherPin && pin != otherRoot && root != otherPin && root != otherRoot {
		if !isSameStamp(now, s.began) {
			return false, &StateError{"a client with another TrustPin uses the folder: restart this client"}
		}
		return false, nil
	}
	// A newer document may lead back to a lower sequence.
	if theirs, ours := held.document().version, next.document().version; theirs != ours {
		return theirs > ours, nil
	}
	if held.Sequence != next.Sequence {
		return held.Sequence > next.Sequence, nil
	}
	return held.IssuedAt.After(next.IssuedAt), nil
}

// document returns the saved trust document, or nil if it is damaged.
func (s *saved) document() *document {
	documents, err := parseDocuments(s.Document)
	if err != nil || len(documents) != 1 || documents[0].tenant != s.Tenant {
		return nil
	}
	return documents[0]
}

// removeOthers removes unused bases, and files of interrupted processes. Only the lock holder
// creates temporary files, and it has already renamed its own.
func (s *stateStore) removeOthers(but string) error {
	paths, err := filepath.Glob(filepath.Join(s.folder, "base-*.cbor"))
	left, _ := filepath.Glob(filepath.Join(s.folder, temporary+"*"))
	for _, path := range append(paths, left...) {
		if path != s.baseFile(but) {
			if fault := os.Remove(path); fault != nil && !errors.Is(fault, os.ErrNotExist) {
				err = fault
			}
		}
	}
	return err
}

// locked runs do while other processes are locked out of the folder. It creates a missing folder,
// and syncs the folder after replacements.
func locked(folder string, do func() error) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	opened, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer opened.Close()
	if err := syscall.Flock(int(opened.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return opened.Sync()
}

// replaceFile replaces a file atomically with a private file. The content is synced before the
// rename.
func replaceFile(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), temporary)
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if fault := file.Close(); err == nil {
		err = fault
	}
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
