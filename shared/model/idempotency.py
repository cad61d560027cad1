"""Idempotency records, which prevent repeated changes by one request (API-30)."""

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

from shared.model.callers import Caller
from shared.model.items import Address, Item, Table, Value
from shared.model.records import Record

KEPT: Final = timedelta(hours=24)
# How long an interrupted request blocks its repetitions.
CLAIMED: Final = timedelta(seconds=60)

KEY_PATTERN: Final = "[!-~]{1,255}"
_OUTCOMES: Final = "#once#"
_KEY: Final = re.compile(KEY_PATTERN)


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A request with an `Idempotency-Key`: the address of its outcome, and the hash of its body."""

    address: Address
    body: str

    @classmethod
    def of(cls, caller: Caller, *, method: str, path: str, key: str, body: bytes) -> Self:
        """Return the idempotency key of a request. Each `key` applies to one caller and path.

        Raises `ValueError` if the key is malformed.
        """
        if not _KEY.fullmatch(key):
            raise ValueError("must be 1 to 255 visible ASCII characters")
        # The parts contain no line feeds, so the separator is unambiguous.
        name = f"{caller.holder_id}\n{method}\n{path}\n{key}"
        digest = hashlib.sha256(name.encode()).hexdigest()
        address = Address(Table.KEYS, f"{caller.tenant_id}{_OUTCOMES}{digest}")
        return cls(address, hashlib.sha256(body).hexdigest())


@dataclass(frozen=True, slots=True)
class IdempotencyRecord(Record):
    """The outcome of a request, or the claim of a request in progress.

    `body` is the SHA-256 of the request's body, in hexadecimal. A claim has no `outcome`, and lasts
    until `claimed_until`. The store removes the item some time after `expires`, which is in seconds
    since the epoch.
    """

    body: str
    expires: int
    version: int
    claimed_until: datetime | None = None
    outcome: dict[str, Value] | None = None

    @classmethod
    def for_outcome(
        cls,
        request: IdempotencyKey,
        now: datetime,
        *,
        previous: Self | None,
        outcome: Item | None = None,
    ) -> Self:
        """Return the record that replaces `previous`: an outcome, or a claim without one."""
        return cls(
            request.body,
            int((now + KEPT).timestamp()),
            1 if previous is None else previous.version + 1,
            now + CLAIMED if outcome is None else None,
            None if outcome is None else dict(outcome),
        )

    def is_kept(self, now: datetime) -> bool:
        """Return whether the item is valid: an outcome for `KEPT`, a claim for `CLAIMED`."""
        if self.claimed_until is not None:
            return now < self.claimed_until
        return now.timestamp() < self.expires


def is_outcome_at(address: Address) -> bool:
    """Return whether the item at this address is an `IdempotencyRecord`."""
    return address.table is Table.KEYS and _OUTCOMES in address.pk
