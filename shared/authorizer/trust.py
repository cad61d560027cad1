"""The signing keys of a tenant: how a client reads them, and the checks of a warrant (TRUST-4)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Self

from . import events
from . import view as views
from .answers import NoAnswer
from .formats import warrants, wire
from .formats.documents import NotTrusted
from .formats.signing_keys import PublishedKey, PublishedKeys
from .formats.trust import TrustDocument
from .formats.warrants import CLOCK_TOLERANCE, Claims, InvalidWarrant
from .formats.wire import Reference
from .transport import Transport

KEYS_PATH: Final = "/v1/trust/keys"

# The most bytes that are fetched, whatever a head promises: some 300,000 keys.
KEYS_BYTES_MAX: Final = 64 * 2**20

# Seconds until they are asked for again if that fails.
_SECONDS: Final = 5.0

_ANCESTORS_MAX: Final = 32
_ROOT: Final = "root"


class TrustReason(StrEnum):
    """Why a warrant must not be accepted by the bundle, beside the reasons of `WarrantReason`.

    Programs compare these words, so they do not change (TRUST-4).
    """

    KEY = "key"
    REVOKED = "revoked"
    CHAIN = "chain"
    SIGNED_AT = "signed_at"


@dataclass(frozen=True, slots=True)
class Warrant:
    """A warrant that passed all checks but that of revocation: its claims and its keys.

    `keys` are the version that signed it, the parent of its key, and so on up to the root.
    """

    claims: Claims
    keys: tuple[PublishedKey, ...]

    @property
    def id(self) -> str:
        """The identifier by which the warrant is looked up."""
        return self.claims.warrant_id


@dataclass(frozen=True, slots=True)
class Bundle:
    """The signing keys of a tenant: all versions by `kid`, and the present versions by identifier.

    A head names them as `reference`. The document that vouched for it covers those of the hash
    `covered`. `published` are all of them, whose certificates were checked.
    """

    tenant_id: str
    keys: Mapping[bytes, PublishedKey]
    current: Mapping[str, PublishedKey]
    published: PublishedKeys
    reference: Reference
    covered: bytes | None

    @classmethod
    def of(cls, published: PublishedKeys, reference: Reference, covered: bytes | None) -> Self:
        """Return the bundle of keys that were checked."""
        versions = {each.kid: each for each in published.keys}
        current = {each.key_id: each for each in published.keys if each.rotated_at is None}
        return cls(published.tenant_id, versions, current, published, reference, covered)

    def verify(self, warrant: bytes, *, now: datetime) -> Warrant:
        """Return a warrant of the format `cose` that passed all checks of TRUST-4.

        Then ask whether it is revoked. Raises `InvalidWarrant`.
        """
        message, kid = warrants.opened(warrant)
        key = self.keys.get(kid)
        if key is None:
            raise InvalidWarrant(TrustReason.KEY, "the bundle does not have the key")
        claims = warrants.signed_claims(
            message, [key.public_key], tenant_id=self.tenant_id, now=now
        )
        whole = self.current.get(key.key_id)
        if key.is_revoked or whole is None or whole.is_revoked:
            raise InvalidWarrant(TrustReason.REVOKED, "the key that signed it is revoked")
        above = self._ancestors(key)
        _check_signed_at(claims.issued_at, key, whole, above)
        return Warrant(claims, (key, *above))

    def verify_chain(self, chain: Iterable[bytes], *, now: datetime) -> list[Warrant]:
        """Verify each of several warrants, root to leaf. Raises `InvalidWarrant` at the first.

        How the payload of one warrant limits the next is up to the callers' format.
        """
        return [self.verify(each, now=now) for each in chain]

    def _ancestors(self, key: PublishedKey) -> list[PublishedKey]:
        """Return the parent of a key, its parent, and so on, up to a root."""
        above: list[PublishedKey] = []
        last = key
        while last.parent_id is not None:
            parent = self.current.get(last.parent_id)
            if parent is None or len(above) == _ANCESTORS_MAX:
                raise InvalidWarrant(TrustReason.CHAIN, "a key above it is not in the bundle")
            above.append(parent)
            last = parent
        if last.type != _ROOT:
            raise InvalidWarrant(TrustReason.CHAIN, "the keys above it do not lead to a root")
        return above


def _check_signed_at(
    at: datetime, key: PublishedKey, whole: PublishedKey, above: Iterable[PublishedKey]
) -> None:
    """Check that key and ancestors could sign at `at`, as far as clocks tell (WARRANT-6)."""
    ends = [key.rotated_at, key.expires_at, whole.suspended_at]
    ends += [end for each in above for end in (each.suspended_at, each.expires_at)]
    ends += [each.revoked_at or each.created_at for each in above if each.is_revoked]
    if at < key.created_at - CLOCK_TOLERANCE:
        raise InvalidWarrant(TrustReason.SIGNED_AT, "signed before the key was made")
    if any(end is not None and at > end + CLOCK_TOLERANCE for end in ends):
        raise InvalidWarrant(TrustReason.SIGNED_AT, "signed when the key could not sign any more")


class KeyReader:
    """Fetches the keys that heads name (TRUST-9). It belongs to the thread of its transport.

    `emit` gets each failure.
    """

    def __init__(self, transport: Transport, emit: Callable[[events.Event], None]) -> None:
        self._transport = transport
        self._emit = emit
        self._due = views.monotonic()

    def read(
        self, head: wire.SignedHead, document: TrustDocument, held: Bundle | None
    ) -> Bundle | None:
        """Return the keys that a head names, by the document that vouches for it.

        They are those that are `held`, or fetched. None if that fails, and for some seconds then.
        """
        if head.keys is None:
            return None
        if held and (held.reference, held.covered) == (head.keys, document.signing_keys):
            return held
        if views.monotonic() < self._due:
            return None
        try:
            return self._fetched(head.keys, document, held)
        except NotTrusted as refused:
            self._emit(events.Refused(refused.reason.value))
        except NoAnswer as error:
            self._emit(events.Failed(f"the signing keys cannot be read: {error}", _SECONDS))
        self._due = views.monotonic() + _SECONDS
        return None

    def _fetched(self, named: Reference, document: TrustDocument, held: Bundle | None) -> Bundle:
        limit = min(named.number, KEYS_BYTES_MAX)
        blob = self._transport.get_far(f"{KEYS_PATH}/{named.sha256.hex()}", limit=limit)
        keys = PublishedKeys.opened(blob, named, tenant_id=document.tenant_id)
        is_proven = held is not None and held.covered == document.signing_keys
        keys.check(
            document.signing_keys, proven=held.published.proven if held and is_proven else ()
        )
        return Bundle.of(keys, named, document.signing_keys)
