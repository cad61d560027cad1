"""The witnesses of a deployment, and their cosignatures of a tenant's log (LOG-31)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Self
from urllib.parse import urlsplit

from shared.errors import Corrupt
from shared.model.audit import checkpoint, cosignatures, head
from shared.model.audit.checkpoint import NoteKey
from shared.model.items import Address, Item, Value
from shared.model.records import integer

# A log that does not grow is signed again after this time, so that its cosignature stays fresh.
RENEWED_AFTER: Final = timedelta(hours=6)
WITNESSES_MAX: Final = 16


class Witness(NamedTuple):
    """A witness: its verifier key, of type cosignature, and the prefix of its addresses."""

    key: NoteKey
    url: str


@dataclass(frozen=True, slots=True)
class WitnessPolicy:
    """The witnesses that are asked, and how many of them must have signed a checkpoint."""

    quorum: int
    witnesses: tuple[Witness, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The verifier keys, sorted, as a trust document has them (TRUST-6)."""
        return tuple(sorted(str(each.key) for each in self.witnesses))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the policy in `<quorum> <verifier key> <URL> [<verifier key> <URL> …]`.

        Raises `ValueError`, which says what is wrong.
        """
        quorum, *rest = text.split()
        if len(rest) % 2 or not 0 < len(rest) <= 2 * WITNESSES_MAX:
            raise ValueError(f"after the quorum, 1 to {WITNESSES_MAX} pairs of key and URL follow")
        pairs = zip(rest[::2], rest[1::2], strict=True)
        found = cls(cosignatures.number(quorum), tuple(_witness(*each) for each in pairs))
        if not 1 <= found.quorum <= len(found.witnesses):
            raise ValueError("the quorum is at least 1, and at most the number of witnesses")
        if len({each.key for each in found.witnesses}) != len(found.witnesses):
            raise ValueError("each witness comes once")
        return found


def _witness(key: str, url: str) -> Witness:
    try:
        parsed = NoteKey.parse(key, checkpoint.COSIGNATURE)
    except ValueError:
        raise ValueError(f"{key} is not the verifier key of a witness (type 4)") from None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{url} is not a URL such as https://witness.example")
    return Witness(parsed, url.rstrip("/"))


@dataclass(frozen=True, slots=True)
class Cosigned:
    """A checkpoint and its cosignatures: a line of each witness that signed, by verifier key."""

    note: str = ""
    lines: Mapping[str, str] = field(default_factory=dict)

    @property
    def whole(self) -> str:
        """The note with all signatures."""
        return self.note + "".join(self.lines[each] for each in sorted(self.lines))

    def is_fresh(self, witness: NoteKey, now: datetime) -> bool:
        """Return whether this witness signed the checkpoint not long ago."""
        at = cosignatures.cosigned_at(self.whole, witness)
        return at is not None and now - at < RENEWED_AFTER


@dataclass(frozen=True, slots=True)
class LogWitnessing:
    """The cosignatures of a tenant's log, and the state of each witness.

    `newest` is the checkpoint that they were asked about last, and `agreed` the newest one that has
    a quorum. `known` has by verifier key how many leaves of the log of `origin` a witness has
    signed, and `problems` why it did not sign the last time.
    """

    origin: str = ""
    newest: Cosigned = field(default_factory=Cosigned)
    agreed: Cosigned = field(default_factory=Cosigned)
    known: Mapping[str, int] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    version: int = 0

    def asked(self, origin: str, note: str) -> Self:
        """Return the same, before the witnesses are asked about this checkpoint."""
        kept = self if origin == self.origin else type(self)(origin, version=self.version)
        text = checkpoint.text_of(note)
        if checkpoint.text_of(kept.newest.note) == text:
            return replace(kept, newest=Cosigned(note, kept.newest.lines))
        return replace(kept, newest=Cosigned(note))

    def signed(self, witness: Witness, line: str, size: int) -> Self:
        """Return the same with the cosignature of a witness, which then knows this many leaves."""
        key = str(witness.key)
        newest = Cosigned(self.newest.note, {**self.newest.lines, key: line})
        problems = {each: why for each, why in self.problems.items() if each != key}
        known = {**self.known, key: size}
        return replace(self, newest=newest, known=known, problems=problems)

    def refused(self, witness: Witness, problem: str) -> Self:
        """Return the same with the reason why a witness did not sign."""
        return replace(self, problems={**self.problems, str(witness.key): problem})

    def knowing(self, witness: Witness, size: int) -> Self:
        """Return the same with the number of leaves that a witness says it has signed."""
        return replace(self, known={**self.known, str(witness.key): size})

    def settled(self, policy: WitnessPolicy) -> Self:
        """Return the same without other witnesses, and with the newest one agreed if it is."""
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
        """Return the item that `from_item` turns back into an equal value."""
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
        """Return what an item has. Raises `Corrupt`."""
        known = _table(item, "known")
        return cls(
            str(item["origin"]) if isinstance(item.get("origin"), str) else "",
            _cosigned(item, "newest"),
            _cosigned(item, "agreed"),
            {key: integer(known, key) for key in known},
            _texts(item, "problems"),
            integer(item, "version"),
        )


def address(tenant_id: str) -> Address:
    """Return where it is stored what witnesses said of a tenant's log."""
    return head.partition(tenant_id).address("witnesses")


def _cosigned(item: Item, name: str) -> Cosigned:
    found = _table(item, name)
    note = found.get("note")
    if not isinstance(note, str):
        raise Corrupt("what witnesses said of a log has no checkpoint")
    return Cosigned(note, _texts(found, "lines"))


def _table(item: Item, name: str) -> Item:
    found = item.get(name)
    if not isinstance(found, dict):
        raise Corrupt(f"what witnesses said of a log has no {name}")
    return found


def _texts(item: Item, name: str) -> dict[str, str]:
    return {key: str(text) for key, text in _table(item, name).items()}
