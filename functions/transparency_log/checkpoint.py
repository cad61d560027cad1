"""Checkpoints: the signed size and root of the transparency log (C2SP tlog-checkpoint, LOG-3).

A checkpoint is a signed note (C2SP signed-note): a text, an empty line, and a line for each
signature. An audit signer is a key that signs checkpoints (LOG-9). The newest checkpoint is also
kept outside the store, in the name of a blob (LOG-12).
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Final, NamedTuple, Self

from functions.transparency_log import merkle
from functions.transparency_log.head import LogHead
from functions.transparency_log.merkle import HASH_BYTES
from shared.authorizer.formats.ed25519 import is_signed
from shared.authorizer.formats.members import to_base64
from shared.authorizer.formats.trust import LogAnchor
from shared.errors import DataCorrupt
from shared.model import seeds, times
from shared.model.audit.witness_policy import KEY_ID_BYTES, SIGNED, NoteKey
from shared.model.items import Address, Partition, Table
from shared.model.records import SPARSE, Record
from shared.model.seeds import KeyPurpose, WrappedKeyRecord

_LINES: Final = 3


class Checkpoint(NamedTuple):
    """The signed state of a log: its origin, its number of leaves, and their root."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The signed text: three lines."""
        return f"{self.origin}\n{self.size}\n{to_base64(self.root)}\n"

    def sign(self, signing: Iterable[bytes]) -> str:
        """Return the note, signed with these seeds (32 bytes each). Its key name is the origin."""
        lines = []
        for seed in signing:
            key = NoteKey(self.origin, base64.b64decode(seeds.public_key(seed)))
            lines.append(key.line(seeds.signature(self.text.encode(), seed=seed)))
        return self.text + "\n" + "".join(lines)

    @classmethod
    def parse(cls, note: str) -> Self:
        """Return the checkpoint of a note without checking its signatures. Raises `ValueError`."""
        origin, size, root, *_ = note.split("\n", _LINES)
        checkpoint = cls(origin, int(size), base64.b64decode(root, validate=True))
        if not note.startswith(checkpoint.text + "\n") or len(checkpoint.root) != HASH_BYTES:
            raise ValueError("not a checkpoint")
        return checkpoint


def origin(tenant_id: str, generation: int) -> str:
    """Return the origin of a tenant's log. A restore starts a new log generation (LOG-10)."""
    return f"rescind/{tenant_id}/{generation}"


def is_signed_by(note: str, key: NoteKey) -> bool:
    """Return whether the note has a valid signature of this key."""
    signed = text_of(note).encode()
    return any(is_signed(signed, each, public_key=key.public_key) for each in signatures(note, key))


def text_of(note: str) -> str:
    """Return the text of a note, which its signatures cover."""
    return note.partition("\n\n")[0] + "\n"


def signatures(note: str, key: NoteKey) -> Iterator[bytes]:
    """Yield the signatures of this key in a note, valid or not."""
    for each in note.partition("\n\n")[2].split("\n"):
        mark, _, rest = each.partition(f"{key.name} ")
        try:
            data = base64.b64decode(rest, validate=True) if mark == SIGNED else b""
        except ValueError:
            continue
        if data[:KEY_ID_BYTES] == key.id:
            yield data[KEY_ID_BYTES:]


@dataclass(frozen=True, slots=True)
class AuditSigner(WrappedKeyRecord, Record):
    """A key that signs checkpoints.

    `public_key` is base64 of the 32 raw bytes. `retired_at` is None for the current signer. A
    replaced signer also signs until that time, together with its successor. `precedes_log` is true
    if the key was created before the log had a head. Such a key does not prove that a head existed.
    """

    PURPOSE: ClassVar = KeyPurpose.AUDIT

    id: str
    tenant_id: str
    public_key: str
    created_at: datetime
    sealed_seed: bytes | None = field(repr=False)
    version: int = 1
    retired_at: datetime | None = None
    precedes_log: bool = field(default=False, metadata=SPARSE)

    @property
    def address(self) -> Address:
        """The address of the record."""
        return signers(self.tenant_id).address(self.id)

    def key(self, origin: str) -> NoteKey:
        """Return the public key for notes of this origin."""
        return NoteKey(origin, self.public_bytes)

    def signs(self, now: datetime) -> bool:
        """Return whether the key signs checkpoints at `now`."""
        return not times.has_passed(self.retired_at, now)

    def retire(self, *, retired_at: datetime) -> Self:
        """Return the retired key."""
        return replace(self, version=self.version + 1, retired_at=retired_at)

    def without_seed(self) -> Self:
        """Return the key without its seed, because it no longer signs."""
        return replace(self, version=self.version + 1, sealed_seed=None)


def signers(tenant_id: str) -> Partition:
    """Return the partition of a tenant's audit signers, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#audit-keys")


_GENERATIONS: Final = 10**8
_SIZES: Final = 10**16


class PinnedCheckpoint(NamedTuple):
    """The state of a log: its generation, its number of leaves, and their root.

    States compare in the order in which the log grows.
    """

    generation: int
    size: int
    root: bytes

    @classmethod
    def of(cls, head: LogHead) -> Self:
        """Return the checkpoint of a log head."""
        return cls(head.generation, head.size, head.root)

    @classmethod
    def empty(cls, generation: int) -> Self:
        """Return the checkpoint of a generation without leaves."""
        return cls(generation, 0, merkle.EMPTY)

    @classmethod
    def from_anchor(cls, anchor: LogAnchor, tenant_id: str) -> Self:
        """Return the checkpoint in an anchor of this tenant's log.

        Raises `DataCorrupt` for another log.
        """
        generation = anchor.origin.rpartition("/")[2]
        if not generation.isdecimal() or anchor.origin != origin(tenant_id, int(generation)):
            raise DataCorrupt(
                f"it names the transparency log {anchor.origin}, which does not belong to "
                f"{tenant_id}"
            )
        return cls(int(generation), anchor.size, anchor.root)

    def anchor(self, tenant_id: str) -> LogAnchor:
        """Return the checkpoint as an anchor for trust documents and journal records (TRUST-6)."""
        return LogAnchor(origin(tenant_id, self.generation), self.size, self.root)

    def members(self) -> dict[str, Any]:
        """Return the member `Log` of an SRL state."""
        return {"Generation": self.generation, "Size": self.size, "Root": self.root}

    @classmethod
    def list_in_states(cls, added_members: Iterable[Mapping[str, Any]]) -> list[Self]:
        """Return the checkpoints among the members that capabilities added to SRL states.

        Raises `DataCorrupt`.
        """
        try:
            logs = [each["Log"] for each in added_members if "Log" in each]
            return [cls(int(x["Generation"]), int(x["Size"]), bytes(x["Root"])) for x in logs]
        except (KeyError, TypeError, ValueError):
            raise DataCorrupt("an SRL state is malformed") from None

    def name(self, tenant_id: str) -> str:
        """Return the name of the blob. The newest blob is the first or second in its folder."""
        generation, size = _GENERATIONS - self.generation, _SIZES - self.size
        return f"{folder(tenant_id)}/{generation:08d}-{size:016d}-{self.root.hex()}"

    @classmethod
    def parse(cls, name: str) -> Self:
        """Return the checkpoint in the name of a blob. Raises `DataCorrupt`."""
        try:
            generation, size, root = name.rpartition("/")[2].split("-")
            return cls(_GENERATIONS - int(generation), _SIZES - int(size), bytes.fromhex(root))
        except ValueError:
            raise DataCorrupt(
                "a blob in the folder of checkpoints has an unexpected name"
            ) from None


def folder(tenant_id: str) -> str:
    """Return the folder of a tenant's checkpoints."""
    return f"checkpoints/{tenant_id}"
