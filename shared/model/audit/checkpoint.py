"""Checkpoints: signed statements of size and root of the sealed log (C2SP tlog-checkpoint, LOG-3).

A checkpoint is a signed note (C2SP signed-note): a text, an empty line, and a line for each
signature.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Self

from shared.authorizer.formats import ed25519
from shared.authorizer.formats.ed25519 import is_signed
from shared.model import seeds
from shared.model.audit.merkle import HASH_BYTES

ED25519: Final = b"\x01"
# Of timestamped cosignatures (C2SP tlog-cosignature).
COSIGNATURE: Final = b"\x04"
_KEY_ID_BYTES: Final = 4
_SIGNED: Final = "\u2014 "
_LINES: Final = 3


class NoteKey(NamedTuple):
    """A public key (32 bytes) under the name by which notes mention it, and its type of signature.

    The type is `ED25519` or `COSIGNATURE`.
    """

    name: str
    public_key: bytes
    kind: bytes = ED25519

    @property
    def id(self) -> bytes:
        """The 4 bytes that name the key in a signature."""
        named = self.name.encode() + b"\n" + self.kind + self.public_key
        return hashlib.sha256(named).digest()[:_KEY_ID_BYTES]

    def __str__(self) -> str:
        """Return the verifier key, `<name>+<key id in hex>+<base64>` (C2SP signed-note)."""
        return f"{self.name}+{self.id.hex()}+{_base64(self.kind + self.public_key)}"

    @classmethod
    def parse(cls, text: str, kind: bytes = ED25519) -> Self:
        """Return the key of a verifier key of this type. Raises `ValueError`."""
        name, key_id, encoded = text.split("+", 2)
        data = base64.b64decode(encoded, validate=True)
        key = cls(name, data[1:], kind)
        if str(key) != text or not ed25519.is_safe(key.public_key):
            raise ValueError(f"not a verifier key: the key identifier is not {key_id}")
        if not name or any(each.isspace() or each < " " for each in name):
            raise ValueError("not a verifier key: the name is empty or has a space")
        return key

    def line(self, signature: bytes) -> str:
        """Return the line of a note with this signature, with its line feed."""
        return f"{_SIGNED}{self.name} {_base64(self.id + signature)}\n"


class Checkpoint(NamedTuple):
    """The signed statement of a log: its origin, its number of leaves, and the root over them."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The text that is signed: three lines."""
        return f"{self.origin}\n{self.size}\n{_base64(self.root)}\n"

    def signed(self, signing: Iterable[bytes]) -> str:
        """Return the note, signed with these seeds (32 bytes each) under the origin as name."""
        lines = []
        for seed in signing:
            key = NoteKey(self.origin, base64.b64decode(seeds.public_key(seed)))
            lines.append(key.line(seeds.signature(self.text.encode(), seed=seed)))
        return self.text + "\n" + "".join(lines)

    @classmethod
    def parse(cls, note: str) -> Self:
        """Return the statement of a note, without a look at its signatures. Raises `ValueError`."""
        origin, size, root, *_ = note.split("\n", _LINES)
        checkpoint = cls(origin, int(size), base64.b64decode(root, validate=True))
        if not note.startswith(checkpoint.text + "\n") or len(checkpoint.root) != HASH_BYTES:
            raise ValueError("not a checkpoint")
        return checkpoint


def origin(tenant_id: str, generation: int) -> str:
    """Return the origin of a tenant's log. A new generation begins after a restore (LOG-10)."""
    return f"rescind/{tenant_id}/{generation}"


def is_signed_by(note: str, key: NoteKey) -> bool:
    """Return whether the note has a valid signature by this key."""
    signed = text_of(note).encode()
    return any(is_signed(signed, each, public_key=key.public_key) for each in signatures(note, key))


def text_of(note: str) -> str:
    """Return the text of a note: what its signatures cover."""
    return note.partition("\n\n")[0] + "\n"


def signatures(note: str, key: NoteKey) -> Iterator[bytes]:
    """Yield what the lines of a note have as signatures of this key, valid or not."""
    for each in note.partition("\n\n")[2].split("\n"):
        mark, _, rest = each.partition(f"{key.name} ")
        data = _decoded(rest) if mark == _SIGNED else b""
        if data[:_KEY_ID_BYTES] == key.id:
            yield data[_KEY_ID_BYTES:]


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
