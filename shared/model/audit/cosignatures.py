"""Cosignatures: a witness states when it saw that a checkpoint extends those before (LOG-31).

The formats are those of C2SP: `tlog-cosignature` with Ed25519, and `add-checkpoint` of
`tlog-witness`.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple, Self

from shared.authorizer.formats.ed25519 import is_signed
from shared.authorizer.formats.members import from_base64, to_base64
from shared.model import seeds, times
from shared.model.audit import checkpoint
from shared.model.audit.checkpoint import NoteKey
from shared.model.audit.merkle import HASH_BYTES

# The most hashes of a proof, and bytes of a request or an answer.
PROOF_MAX: Final = 63
BYTES_MAX: Final = 64 * 1024

_TIME_BYTES: Final = 8
_NUMBER: Final = re.compile("0|[1-9][0-9]{0,17}", re.ASCII)


class Submission(NamedTuple):
    """The request that a witness sign a checkpoint, a signed `note`.

    `proof` shows that its tree extends that of `old` leaves, which the witness signed last.
    """

    old: int
    proof: tuple[bytes, ...]
    note: str

    def encode(self) -> bytes:
        """Return the body of the request."""
        lines = "".join(f"{to_base64(each)}\n" for each in self.proof)
        return f"old {self.old}\n{lines}\n{self.note}".encode()

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Return the request in a body. Raises `ValueError` if it is malformed."""
        head, blank, note = body.decode().partition("\n\n")
        first, *lines = head.split("\n")
        word, _, old = first.partition(" ")
        if word != "old" or not blank or len(lines) > PROOF_MAX:
            raise ValueError("not a request to sign a checkpoint")
        proof = tuple(map(from_base64, lines))
        if any(len(each) != HASH_BYTES for each in proof):
            raise ValueError("a hash has 32 bytes")
        return cls(number(old), proof, note)


def number(text: str) -> int:
    """Return the number of leaves in a text. Raises `ValueError` if it is written otherwise."""
    if not _NUMBER.fullmatch(text):
        raise ValueError("a number of leaves has decimal digits, and no 0 in front")
    return int(text)


def cosigned(note: str, name: str, now: datetime, *, seed: bytes) -> str:
    """Return the line with which a witness of this name and seed (32 bytes) signs a note."""
    at = int(now.timestamp())
    signature = seeds.signature(_signed(note, at), seed=seed)
    return cosigner(name, seed=seed).line(at.to_bytes(_TIME_BYTES, "big") + signature)


def cosigner(name: str, *, seed: bytes) -> NoteKey:
    """Return the key of a witness with this seed."""
    return NoteKey(name, from_base64(seeds.public_key(seed)), checkpoint.COSIGNATURE)


def cosigned_at(note: str, witness: NoteKey) -> datetime | None:
    """Return when a witness signed the note last, or None if it has no valid signature of it."""
    moments = [
        int.from_bytes(each[:_TIME_BYTES], "big")
        for each in checkpoint.signatures(note, witness)
        if _is_valid(note, each, witness)
    ]
    return times.from_seconds(max(moments)) if moments else None


def lines_of(note: str, witness: NoteKey) -> str:
    """Return the lines of a note that are valid cosignatures of a witness, of its newest time."""
    valid = [
        each for each in checkpoint.signatures(note, witness) if _is_valid(note, each, witness)
    ]
    return witness.line(max(valid)) if valid else ""


def agreed_at(
    note: str, witnesses: Iterable[NoteKey], quorum: int, until: datetime
) -> datetime | None:
    """Return when a quorum of these witnesses had signed a note; None without a quorum.

    It is the time of the oldest cosignature that the quorum needs. One after `until` counts not.
    """
    moments = [cosigned_at(note, each) for each in witnesses]
    valid = sorted((each for each in moments if each and each <= until), reverse=True)
    return valid[quorum - 1] if len(valid) >= quorum else None


def _is_valid(note: str, signature: bytes, witness: NoteKey) -> bool:
    at = int.from_bytes(signature[:_TIME_BYTES], "big")
    # Later times are none: the year 9999 ends there.
    if not 0 < at < 253_402_300_800:  # noqa: PLR2004
        return False
    signed = _signed(note, at)
    return is_signed(signed, signature[_TIME_BYTES:], public_key=witness.public_key)


def _signed(note: str, at: int) -> bytes:
    return f"cosignature/v1\ntime {at}\n{checkpoint.text_of(note)}".encode()
