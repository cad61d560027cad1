"""Checkpoints: signed statements of size and root of the sealed log (C2SP tlog-checkpoint, LOG-3).

A checkpoint is a signed note (C2SP signed-note): a text, an empty line, and a line for each
signature.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from shared.authorizer.formats.ed25519 import is_signed
from shared.model import seeds
from shared.model.audit.merkle import HASH_BYTES

_ED25519: Final = b"\x01"
_KEY_ID_BYTES: Final = 4
_SIGNED: Final = "\u2014 "
_LINES: Final = 3


class NoteKey(NamedTuple):
    """A public key (32 bytes) under the name by which notes mention it."""

    name: str
    public_key: bytes

    @property
    def id(self) -> bytes:
        """The 4 bytes that name the key in a signature."""
        named = self.name.encode() + b"\n" + _ED25519 + self.public_key
        return hashlib.sha256(named).digest()[:_KEY_ID_BYTES]

    def __str__(self) -> str:
        """Return the verifier key, `<name>+<key id in hex>+<base64>` (C2SP signed-note)."""
        return f"{self.name}+{self.id.hex()}+{_base64(_ED25519 + self.public_key)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the key of a verifier key. Raises `ValueError`."""
        name, key_id, encoded = text.split("+", 2)
        data = base64.b64decode(encoded, validate=True)
        key = cls(name, data[1:])
        if str(key) != text or len(key.public_key) != HASH_BYTES:
            raise ValueError(f"not a verifier key: the key identifier is not {key_id}")
        return key


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
            signature = key.id + seeds.signature(self.text.encode(), seed=seed)
            lines.append(f"{_SIGNED}{key.name} {_base64(signature)}\n")
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
    text, _, signatures = note.partition("\n\n")
    for each in signatures.splitlines():
        mark, _, rest = each.partition(f"{key.name} ")
        data = _decoded(rest) if mark == _SIGNED else b""
        if data[:_KEY_ID_BYTES] == key.id:
            signed = f"{text}\n".encode()
            if is_signed(signed, data[_KEY_ID_BYTES:], public_key=key.public_key):
                return True
    return False


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
