"""The key sets that issuers publish, for verification of their tokens (RFC 7517)."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Final, Self

from shared.authorizer.formats import strict_json
from shared.authorizer.formats.jwk_sets import KeySet, usable_keys
from shared.model.items import Address, Table
from shared.model.records import Record

# How long keys are used without a refresh, and how long if the issuer does not respond.
_FRESH: Final = timedelta(hours=1)
_USABLE: Final = timedelta(hours=24)
# The minimum interval between fetches of an issuer's keys, and the maximum duration of one fetch.
_PAUSE: Final = timedelta(minutes=1)
AT_WORK_SECONDS: Final = 6
# The item is removed when it is no longer useful.
_KEPT: Final = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class IssuerKeys(Record):
    """The newest `document` of an issuer at a URL, with keys or endpoints, and the newest attempt.

    `fetched` is the start of the attempt that returned the document. It equals `tried` if the
    newest attempt succeeded. The store may remove the item after `expires`, in seconds since the
    epoch.
    """

    document: str | None
    fetched: datetime | None
    tried: datetime
    version: int
    expires: int

    @classmethod
    def trying(cls, previous: Self | None, now: datetime) -> Self:
        """Return the record of an attempt that begins now."""
        expires = int((now + _KEPT).timestamp())
        now = now.replace(microsecond=0)
        if previous is None:
            return cls(None, None, now, 1, expires)
        return cls(previous.document, previous.fetched, now, previous.version + 1, expires)

    def tried_with(self, document: str | None) -> Self:
        """Return the record after the attempt, with its document or None."""
        found = (self.document, self.fetched) if document is None else (document, self.tried)
        return replace(self, document=found[0], fetched=found[1], version=self.version + 1)

    def may_be_tried(self, now: datetime) -> bool:
        """Return whether a fetch may start. A clock that was set back does not block it."""
        return abs(now - self.tried) >= _PAUSE

    def is_being_fetched(self, now: datetime) -> bool:
        """Return whether the newest attempt may be in progress."""
        at_work = timedelta(seconds=AT_WORK_SECONDS)
        return not self.has_succeeded and abs(now - self.tried) < at_work

    @property
    def has_succeeded(self) -> bool:
        """Whether the newest attempt returned a document."""
        return self.fetched == self.tried

    def is_fresh(self, now: datetime, *, max_age: timedelta = _FRESH) -> bool:
        """Return whether the document may be used without a refresh."""
        return self.fetched is not None and abs(now - self.fetched) < max_age

    def keys(self, now: datetime) -> KeySet:
        """Return the keys; none if they are too old. Raises `ValueError` if they are malformed."""
        if self.document is None or self.fetched is None or abs(now - self.fetched) >= _USABLE:
            return {}
        return parse(self.document)


def address(uri: str) -> Address:
    """Return the address of the record of the keys at a URL."""
    return Address(Table.KEYS, f"jwks#{sha256(uri.encode()).hexdigest()}")


@lru_cache(maxsize=16)
def parse(document: str) -> KeySet:
    """Return the usable keys of a JSON Web Key Set. Raises `ValueError` for other documents."""
    return usable_keys(strict_json.parse_foreign(document.encode()))
