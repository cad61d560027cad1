"""Rules by which a client accepts trust documents and feed heads (TRUST-12 to TRUST-14).

All functions are pure: the time and the bytes are arguments. States are immutable. `follow` returns
a new state or raises, so an error leaves the client's state intact.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Self

from . import documents as formats
from . import ed25519, wire
from .documents import NotTrusted, RootReason, SignedDocument, decode_payload
from .trust import KeyUse, RootSet
from .wire import FeedPosition, SignedHead

# The longest lifetime of a document.
LIFETIME_MAX: Final = timedelta(days=400)

# After these rejections of a feed head, a client fetches documents and checks the head again.
OF_DOCUMENTS: Final = frozenset({RootReason.SIGNATURE, RootReason.TRUST_EXPIRED, RootReason.BEHIND})

_PIN: Final = re.compile("[0-9a-f]{64}", re.ASCII)
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class JudgedHead(NamedTuple):
    """A feed head signed with `key` by a trusted signer. Its own checks are still to come."""

    head: SignedHead
    key: bytes


@dataclass(frozen=True, slots=True)
class TrustState:
    """The trust of a client in one tenant: the roots of `held`, or initially of the pin.

    Save `held` before a state takes effect. Otherwise an older document could be accepted after a
    restart. Raises `ValueError` for an invalid pin.
    """

    tenant_id: str
    pin: str
    held: SignedDocument | None = None

    def __post_init__(self) -> None:
        if not _PIN.fullmatch(self.pin):
            raise ValueError("a pin must be 64 hexadecimal digits: see `rescind trust show`")

    @property
    def version(self) -> int:
        """The version of the current document, or 0 without one. Parameter of `GET /v1/trust`."""
        return self.held.document.version if self.held else 0

    @property
    def expires_at(self) -> datetime:
        """The time from which no feed head clears a warrant. In the past without a document."""
        return self.held.document.expires_at if self.held else _NEVER

    @property
    def pins(self) -> frozenset[str]:
        """The pins that lead to the current document."""
        return frozenset({self.pin, *([self.held.document.roots.pin] if self.held else [])})

    def to_json(self) -> dict[str, str]:
        """Return the pin and the current document as JSON for `from_json`."""
        held = [self.held] if self.held else []
        return {"pin": self.pin, "documents": formats.answer(held).decode()}

    @classmethod
    def from_json(cls, tenant_id: str, members: Mapping[str, str]) -> Self:
        """Return the state from its JSON.

        Raises `KeyError`, `TypeError` or `ValueError` if it is damaged or belongs to a different
        tenant.
        """
        try:
            (held,) = formats.documents(bytes(members["documents"], "ascii"))
        except NotTrusted as error:
            raise ValueError(f"its trust document was rejected: {error}") from None
        if held.document.tenant_id != tenant_id:
            raise ValueError("its trust document belongs to another tenant")
        return cls(tenant_id, members["pin"], held)

    def with_pin(self, pin: str) -> Self:
        """Return the state for a client with this pin.

        The document is dropped unless the pin matches the state or the roots of the document.
        """
        return replace(self, pin=pin, held=self.held if pin in self.pins else None)

    def keys_for_use(self, use: str) -> tuple[bytes, ...]:
        """Return the keys (32 bytes each) for this use, or an empty tuple without a document."""
        return self.held.document.keys_for_use(use) if self.held else ()

    def position(
        self, signed_by: bytes | None, saved_position: FeedPosition | None
    ) -> FeedPosition | None:
        """Return the lowest acceptable position of the feed (TRUST-14).

        `saved_position` is the position of the newest accepted feed head, and `signed_by` the key
        that signed it. If the document no longer names this key, the feed state clears no warrants,
        and the position comes from the document.
        """
        if self.held is None or (saved_position and signed_by in self.keys_for_use(KeyUse.LISTS)):
            return saved_position
        return self.held.document.feed

    def judge(
        self, payload: bytes, signature: bytes, now: datetime, likely: bytes | None = None
    ) -> JudgedHead:
        """Return a feed head that the current document vouches for (TRUST-13).

        The key `likely` is tried first. docs/spec/feed.md defines the further checks of a head.
        After a reason of `OF_DOCUMENTS`, read `GET /v1/trust` and check the head again. Raises
        `NotTrusted`.
        """
        data = wire.signed_part(payload)
        keys = sorted(self.keys_for_use(KeyUse.LISTS), key=lambda each: each != likely)
        signers = (each for each in keys if ed25519.is_signed(data, signature, public_key=each))
        key = next(signers, None)
        if self.held is None or key is None:
            raise NotTrusted(RootReason.SIGNATURE)
        head = decode_payload(SignedHead.decode, payload)
        if now >= self.expires_at:
            raise NotTrusted(RootReason.TRUST_EXPIRED)
        if head.trust is not None:
            if head.trust.number > self.version:
                raise NotTrusted(RootReason.BEHIND)
            if head.trust.number == self.version and head.trust != self.held.reference:
                raise NotTrusted(RootReason.EQUIVOCATION)
        return JudgedHead(head, key)


def follow(state: TrustState, documents: Sequence[SignedDocument], now: datetime) -> TrustState:
    """Return the state after a response with these documents, or `state` itself without news.

    Raises `NotTrusted`. The whole response is then discarded.
    """
    if any(each.document.tenant_id != state.tenant_id for each in documents):
        raise NotTrusted(RootReason.TENANT)
    if not documents:
        return state
    held = state.held
    for each in documents:
        held = _next_document(held, each, state.pin)
    if held is None:
        raise NotTrusted(RootReason.ROOT)
    if documents[-1].document.version < held.document.version:
        raise NotTrusted(RootReason.ROLLBACK)
    if held is state.held:
        return state
    issued_at, expires_at = held.document.issued_at, held.document.expires_at
    if not timedelta(0) < expires_at - issued_at <= LIFETIME_MAX:
        raise NotTrusted(RootReason.LIFETIME)
    if issued_at > now + wire.FUTURE_MAX:
        raise NotTrusted(RootReason.FUTURE)
    return replace(state, held=held)


def _next_document(
    document: SignedDocument | None, next_: SignedDocument, pin: str
) -> SignedDocument | None:
    """Return the current document after the next document of a response."""
    roots = next_.document.roots
    if document is None:
        return _require_signed(next_, roots) if roots.pin == pin else None
    version = document.document.version
    if next_.document.version < version or next_.payload == document.payload:
        return document
    # A document is evidence against the roots only if they signed it.
    _require_signed(next_, document.document.roots)
    if next_.document.version == version:
        raise NotTrusted(RootReason.EQUIVOCATION)
    return next_ if roots == document.document.roots else _require_signed(next_, roots)


def _require_signed(document: SignedDocument, roots: RootSet) -> SignedDocument:
    if not document.is_signed_by(roots):
        raise NotTrusted(RootReason.ROOT)
    return document
