"""The witnesses of a deployment, and their cosignatures of a tenant's log (LOG-31).

A cosignature states when a witness verified that a checkpoint extends the earlier ones. The formats
are defined by C2SP: `tlog-cosignature` with Ed25519, and `add-checkpoint` of `tlog-witness`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Self

from functions.transparency_log import checkpoint
from functions.transparency_log.merkle import HASH_BYTES
from shared.authorizer.formats.ed25519 import is_signed
from shared.authorizer.formats.members import from_base64, to_base64
from shared.errors import DataCorrupt
from shared.model import seeds, times
from shared.model.audit import log_state
from shared.model.audit.witness_policy import COSIGNATURE, NoteKey, Witness, WitnessPolicy, number
from shared.model.items import Address, Item, Value
from shared.model.records import integer

# A log that does not grow is cosigned again after this time, to keep its cosignature fresh.
RENEWED_AFTER: Final = timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class CosignedCheckpoint:
    """A checkpoint and its cosignatures: one line per witness, by verifier key."""

    note: str = ""
    lines: Mapping[str, str] = field(default_factory=dict)

    @property
    def signed_note(self) -> str:
        """The note with all signatures."""
        return self.note + "".join(self.lines[each] for each in sorted(self.lines))

    def is_fresh(self, witness: NoteKey, now: datetime) -> bool:
        """Return whether this witness cosigned the checkpoint recently."""
        at = cosigned_at(self.signed_note, witness)
        return at is not None and now - at < RENEWED_AFTER


@dataclass(frozen=True, slots=True)
class WitnessState:
    """The cosignatures of a tenant's log, and the state of each witness.

    `newest` is the checkpoint of the last requests. `agreed` is the newest checkpoint with a
    quorum. `known` contains, by verifier key, how many leaves of the log of `origin` a witness has
    signed. `problems` contains the reasons of the last refusals.
    """

    origin: str = ""
    newest: CosignedCheckpoint = field(default_factory=CosignedCheckpoint)
    agreed: CosignedCheckpoint = field(default_factory=CosignedCheckpoint)
    known: Mapping[str, int] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    version: int = 0

    def with_request(self, origin: str, note: str) -> Self:
        """Return the state before the requests to cosign this checkpoint."""
        kept = self if origin == self.origin else type(self)(origin, version=self.version)
        text = checkpoint.text_of(note)
        if checkpoint.text_of(kept.newest.note) == text:
            return replace(kept, newest=CosignedCheckpoint(note, kept.newest.lines))
        return replace(kept, newest=CosignedCheckpoint(note))

    def with_cosignature(self, witness: Witness, line: str, size: int) -> Self:
        """Return the state with a witness's cosignature, which covers this number of leaves."""
        key = str(witness.key)
        newest = CosignedCheckpoint(self.newest.note, {**self.newest.lines, key: line})
        problems = {each: why for each, why in self.problems.items() if each != key}
        known = {**self.known, key: size}
        return replace(self, newest=newest, known=known, problems=problems)

    def with_refusal(self, witness: Witness, problem: str) -> Self:
        """Return the state with the reason why a witness did not sign."""
        return replace(self, problems={**self.problems, str(witness.key): problem})

    def knowing(self, witness: Witness, size: int) -> Self:
        """Return the state with the number of leaves that a witness reports as signed."""
        return replace(self, known={**self.known, str(witness.key): size})

    def settle(self, policy: WitnessPolicy) -> Self:
        """Return the state without removed witnesses.

        The newest checkpoint becomes the agreed one if it has a quorum.
        """
        keys = {*policy.keys}
        kept = replace(
            self,
            known={each: size for each, size in self.known.items() if each in keys},
            problems={each: why for each, why in self.problems.items() if each in keys},
        )
        lines = {each: line for each, line in self.newest.lines.items() if each in keys}
        is_agreed = len(lines) >= policy.quorum
        return replace(kept, agreed=self.newest) if is_agreed else kept

    def to_item(self) -> dict[str, Value]:
        """Return the item of the state, the inverse of `from_item`."""
        return {
            "origin": self.origin,
            "newest": {"note": self.newest.note, "lines": {**self.newest.lines}},
            "agreed": {"note": self.agreed.note, "lines": {**self.agreed.lines}},
            "known": {**self.known},
            "problems": {**self.problems},
            "version": self.version,
        }

    @classmethod
    def from_item(cls, item: Item) -> Self:
        """Return the state in an item. Raises `DataCorrupt`."""
        known = _table(item, "known")
        return cls(
            str(item["origin"]) if isinstance(item.get("origin"), str) else "",
            _decode_cosigned(item, "newest"),
            _decode_cosigned(item, "agreed"),
            {key: integer(known, key) for key in known},
            _texts(item, "problems"),
            integer(item, "version"),
        )


def address(tenant_id: str) -> Address:
    """Return the address of the witness state of a tenant's log."""
    return log_state.partition(tenant_id).address("witnesses")


def _decode_cosigned(item: Item, name: str) -> CosignedCheckpoint:
    found = _table(item, name)
    note = found.get("note")
    if not isinstance(note, str):
        raise DataCorrupt("the witness state of a log has no checkpoint")
    return CosignedCheckpoint(note, _texts(found, "lines"))


def _table(item: Item, name: str) -> Item:
    found = item.get(name)
    if not isinstance(found, dict):
        raise DataCorrupt(f"the witness state of a log has no {name}")
    return found


def _texts(item: Item, name: str) -> dict[str, str]:
    return {key: str(text) for key, text in _table(item, name).items()}


# The maximum number of hashes in a proof.
PROOF_MAX: Final = 63

_TIME_BYTES: Final = 8


class AddCheckpointRequest(NamedTuple):
    """Request to a witness to cosign a checkpoint, a signed `note`.

    `proof` shows that its tree extends the tree of `old` leaves, which the witness signed last.
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


def cosign(note: str, name: str, now: datetime, *, seed: bytes) -> str:
    """Return the cosignature line of a witness with this name and seed (32 bytes)."""
    at = int(now.timestamp())
    signature = seeds.signature(_signed_message(note, at), seed=seed)
    return cosigner(name, seed=seed).line(at.to_bytes(_TIME_BYTES, "big") + signature)


def cosigner(name: str, *, seed: bytes) -> NoteKey:
    """Return the key of a witness with this seed."""
    return NoteKey(name, from_base64(seeds.public_key(seed)), COSIGNATURE)


def cosigned_at(note: str, witness: NoteKey) -> datetime | None:
    """Return when a witness last signed the note, or None without a valid signature."""
    moments = [
        int.from_bytes(each[:_TIME_BYTES], "big")
        for each in checkpoint.signatures(note, witness)
        if _is_valid(note, each, witness)
    ]
    return times.from_seconds(max(moments)) if moments else None


def lines_of(note: str, witness: NoteKey) -> str:
    """Return the newest valid cosignature line of a witness, or an empty string."""
    valid = [
        each for each in checkpoint.signatures(note, witness) if _is_valid(note, each, witness)
    ]
    return witness.line(max(valid)) if valid else ""


def agreed_at(
    note: str, witnesses: Iterable[NoteKey], quorum: int, until: datetime
) -> datetime | None:
    """Return when a quorum of these witnesses had signed a note, or None without a quorum.

    It is the time of the oldest cosignature that the quorum needs. Cosignatures after `until` are
    ignored.
    """
    moments = [cosigned_at(note, each) for each in witnesses]
    valid = sorted((each for each in moments if each and each <= until), reverse=True)
    return valid[quorum - 1] if len(valid) >= quorum else None


def _is_valid(note: str, signature: bytes, witness: NoteKey) -> bool:
    at = int.from_bytes(signature[:_TIME_BYTES], "big")
    # The year 9999 ends here, so later times are invalid.
    if not 0 < at < 253_402_300_800:  # noqa: PLR2004
        return False
    signed = _signed_message(note, at)
    return is_signed(signed, signature[_TIME_BYTES:], public_key=witness.public_key)


def _signed_message(note: str, at: int) -> bytes:
    return f"cosignature/v1\ntime {at}\n{checkpoint.text_of(note)}".encode()
