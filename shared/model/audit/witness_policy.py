"""The witnesses of a deployment, as its settings name them (LOG-31).

The keys have the format of signed notes (C2SP signed-note).
"""

import base64
import hashlib
import re
from dataclasses import dataclass
from typing import Final, NamedTuple, Self
from urllib.parse import urlsplit

from shared.authorizer.formats import ed25519
from shared.authorizer.formats.members import to_base64

ED25519: Final = b"\x01"
# The type of timestamped cosignatures (C2SP tlog-cosignature).
COSIGNATURE: Final = b"\x04"
KEY_ID_BYTES: Final = 4
SIGNED: Final = "\u2014 "
WITNESSES_MAX: Final = 16
_NUMBER: Final = re.compile("0|[1-9][0-9]{0,17}", re.ASCII)


class NoteKey(NamedTuple):
    """A public key (32 bytes) with its name in notes and its signature type.

    The type is `ED25519` or `COSIGNATURE`.
    """

    name: str
    public_key: bytes
    kind: bytes = ED25519

    @property
    def id(self) -> bytes:
        """The 4 bytes that identify the key in a signature."""
        named = self.name.encode() + b"\n" + self.kind + self.public_key
        return hashlib.sha256(named).digest()[:KEY_ID_BYTES]

    def __str__(self) -> str:
        """Return the verifier key, `<name>+<key id in hex>+<base64>` (C2SP signed-note)."""
        return f"{self.name}+{self.id.hex()}+{to_base64(self.kind + self.public_key)}"

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
        """Return the line of a note with this signature, including its line feed."""
        return f"{SIGNED}{self.name} {to_base64(self.id + signature)}\n"


class Witness(NamedTuple):
    """A witness: its verifier key, of type cosignature, and its URL prefix."""

    key: NoteKey
    url: str


@dataclass(frozen=True, slots=True)
class WitnessPolicy:
    """The witnesses, and the number of cosignatures that a checkpoint needs."""

    quorum: int
    witnesses: tuple[Witness, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The sorted verifier keys, for a trust document (TRUST-6)."""
        return tuple(sorted(str(each.key) for each in self.witnesses))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the policy `<quorum> <verifier key> <URL> [<verifier key> <URL> …]`.

        Raises `ValueError`, which describes the problem.
        """
        quorum, *rest = text.split()
        if len(rest) % 2 or not 0 < len(rest) <= 2 * WITNESSES_MAX:
            raise ValueError(
                f"the quorum must be followed by 1 to {WITNESSES_MAX} pairs of key and URL"
            )
        count, witnesses = number(quorum), list[Witness]()
        for key, url in zip(rest[::2], rest[1::2], strict=True):
            try:
                parsed = NoteKey.parse(key, COSIGNATURE)
            except ValueError:
                raise ValueError(f"{key} is not the verifier key of a witness (type 4)") from None
            parts = urlsplit(url)
            is_http = parts.scheme in ("http", "https") and parts.hostname
            if not is_http or parts.query or parts.fragment:
                raise ValueError(f"{url} is not a URL such as https://witness.example")
            witnesses.append(Witness(parsed, url.rstrip("/")))
        if not 1 <= count <= len(witnesses):
            raise ValueError("the quorum must be at least 1, and at most the number of witnesses")
        if len({each.key for each in witnesses}) != len(witnesses):
            raise ValueError("a witness is repeated")
        return cls(count, tuple(witnesses))


def number(text: str) -> int:
    """Parse a number of leaves. Raises `ValueError` for other spellings."""
    if not _NUMBER.fullmatch(text):
        raise ValueError("a number of leaves has decimal digits, and no 0 in front")
    return int(text)
