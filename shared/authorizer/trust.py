"""The signing keys of a tenant, fetched by a client, and the checks of a warrant (TRUST-4)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Self

from . import events
from . import view as views
from .follower import FeedFollower
from .formats import warrants
from .formats.documents import NotTrusted
from .formats.signing_keys import PublishedKey, PublishedKeys
from .formats.warrants import CLOCK_TOLERANCE, Claims, InvalidWarrant
from .formats.wire import HashReference
from .transport import Transport
from .view import Snapshot

KEYS_PATH: Final = "/v1/trust/keys"

# Maximum size of a key bundle, regardless of the feed head: about 300,000 keys.
KEYS_BYTES_MAX: Final = 64 * 2**20

# Seconds until a failed request for keys is repeated.
_RETRY_SECONDS: Final = 5.0

_ANCESTORS_MAX: Final = 32
_ROOT: Final = "root"


class TrustReason(StrEnum):
    """Why the key bundle rejects a warrant, in addition to the reasons of `WarrantReason`.

    Programs compare these values, so they do not change (TRUST-4).
    """

    KEY = "key"
    REVOKED = "revoked"
    CHAIN = "chain"
    SIGNED_AT = "signed_at"


@dataclass(frozen=True, slots=True)
class VerifiedWarrant:
    """A warrant that passed all checks except revocation, with its claims and keys.

    `keys` contains the key version that signed it, then the parent key, and so on up to the root.
    """

    claims: Claims
    keys: tuple[PublishedKey, ...]

    @property
    def id(self) -> str:
        """The identifier to check for revocation."""
        return self.claims.warrant_id


@dataclass(frozen=True, slots=True)
class KeyBundle:
    """Signing keys of a tenant: all versions by `kid`, and the current versions by identifier.

    A feed head names them as `reference`. `covered` is the hash of the keys that the trust document
    covers. `published` contains all keys, with verified certificates.
    """

    tenant_id: str
    keys: Mapping[bytes, PublishedKey]
    current: Mapping[str, PublishedKey]
    published: PublishedKeys
    reference: HashReference
    covered: bytes | None

    @property
    def key_references(self) -> tuple[HashReference, bytes | None]:
        """The names of the keys in a feed head and in a trust document."""
        return self.reference, self.covered

    @classmethod
    def of(cls, keys: PublishedKeys, reference: HashReference, covered_hash: bytes | None) -> Self:
        """Return the bundle of verified keys."""
        versions = {each.kid: each for each in keys.keys}
        current = {each.key_id: each for each in keys.keys if each.rotated_at is None}
        return cls(keys.tenant_id, versions, current, keys, reference, covered_hash)

    def verify(self, warrant: bytes, *, now: datetime) -> VerifiedWarrant:
        """Return a warrant of the format `cose` that passed all checks of TRUST-4.

        The caller must then check it for revocation. Raises `InvalidWarrant`.
        """
        message, kid = warrants.parse_warrant(warrant)
        key = self.keys.get(kid)
        if key is None:
            raise InvalidWarrant(TrustReason.KEY, "the bundle does not have the key")
        claims = warrants.signed_claims(
            message, [key.public_key], tenant_id=self.tenant_id, now=now
        )
        current_version = self.current.get(key.key_id)
        if key.is_revoked or current_version is None or current_version.is_revoked:
            raise InvalidWarrant(TrustReason.REVOKED, "the key that signed it is revoked")
        ancestors = self._ancestors(key)
        # The key and its ancestors must have been able to sign at that time (WARRANT-6).
        end_times = [key.rotated_at, key.expires_at, current_version.suspended_at]
        end_times += [end for each in ancestors for end in (each.suspended_at, each.expires_at)]
        end_times += [each.revoked_at or each.created_at for each in ancestors if each.is_revoked]
        if claims.issued_at < key.created_at - CLOCK_TOLERANCE:
            raise InvalidWarrant(TrustReason.SIGNED_AT, "signed before the key was created")
        if any(end is not None and claims.issued_at > end + CLOCK_TOLERANCE for end in end_times):
            raise InvalidWarrant(
                TrustReason.SIGNED_AT, "signed after the key or an ancestor could sign"
            )
        return VerifiedWarrant(claims, (key, *ancestors))

    def verify_chain(self, chain: Iterable[bytes], *, now: datetime) -> list[VerifiedWarrant]:
        """Verify several warrants, root to leaf. Raises `InvalidWarrant` at the first failure.

        The caller's format defines how the payload of one warrant limits the next.
        """
        return [self.verify(each, now=now) for each in chain]

    def _ancestors(self, key: PublishedKey) -> list[PublishedKey]:
        """Return the ancestors of a key, from its parent to a root."""
        ancestors: list[PublishedKey] = []
        descendant = key
        while descendant.parent_id is not None:
            parent = self.current.get(descendant.parent_id)
            if parent is None or len(ancestors) == _ANCESTORS_MAX:
                raise InvalidWarrant(
                    TrustReason.CHAIN, "an ancestor of the key is not in the bundle"
                )
            ancestors.append(parent)
            descendant = parent
        if descendant.type != _ROOT:
            raise InvalidWarrant(
                TrustReason.CHAIN, "the ancestors of the key do not lead to a root"
            )
        return ancestors


class KeyFetcher:
    """Fetches the keys that feed heads name (TRUST-9), after the state of `follower` is applied.

    `transport` belongs to this object alone, so polls never wait for keys. `emit` receives each
    failure. Without `is_wanted`, there are no keys. One thread calls `fetch_if_due`. Any thread may
    read `keys`.
    """

    def __init__(
        self, transport: Transport, follower: FeedFollower, emit: Callable[[events.Event], None]
    ) -> None:
        self.transport = transport
        self.is_wanted = False
        self._follower = follower
        self._emit = emit
        # Keys, and the newest view with a feed head that names them.
        self._held: tuple[KeyBundle | None, Snapshot] = None, Snapshot()
        self._due_at = views.monotonic()

    @property
    def keys(self) -> KeyBundle | None:
        """The keys that the newest feed head names, or older keys while valid (TRUST-5)."""
        (keys, view), now = self._held, self._follower.view
        # A thief of an SRL signer may have named older keys with other states.
        is_same = view.state and now.state and view.state.signed_by == now.state.signed_by
        is_current = keys is not None and keys.key_references == self._wanted_references(now)
        return keys if is_current or (is_same and view.is_fresh()) else None

    def is_due(self) -> bool:
        """Return whether to fetch keys now. Otherwise extend the validity of current keys."""
        keys, view = self._held[0], self._follower.view
        references = self._wanted_references(view)
        if keys and keys.key_references == references:
            self._held = keys, view
            return False
        return references is not None and views.monotonic() >= self._due_at

    def fetch_if_due(self) -> None:
        """Fetch the keys of the newest feed head if due. Pause after a failure."""
        view = self._follower.view
        references = self._wanted_references(view)
        if references is None or not self.is_due():
            return
        try:
            reference, covered_hash = references
            limit = min(reference.number, KEYS_BYTES_MAX)
            blob = self.transport.get_far(f"{KEYS_PATH}/{reference.sha256.hex()}", limit=limit)
            tenant_id, held = self._follower.trust.tenant_id, self._held[0]
            keys = PublishedKeys.from_blob(blob, reference, tenant_id=tenant_id)
            is_covered = held is not None and held.covered == covered_hash
            keys.check(covered_hash, proven=held.published.proven if held and is_covered else ())
            self._held = KeyBundle.of(keys, reference, covered_hash), view
        except Exception as error:  # noqa: BLE001 (otherwise the thread ends, and keys stay old)
            self._due_at = views.monotonic() + _RETRY_SECONDS
            failure = events.PollFailed(f"cannot fetch the signing keys: {error}", _RETRY_SECONDS)
            rejection = isinstance(error, NotTrusted) and events.ResponseRejected(
                error.reason.value
            )
            self._emit(rejection or failure)
        self.transport.close()

    def _wanted_references(self, view: Snapshot) -> tuple[HashReference, bytes | None] | None:
        """Return the keys' reference in a feed head, and the hash that the document covers."""
        state, held = view.state, self._follower.trust.held
        if not (self.is_wanted and state and state.head.keys and held):
            return None
        return state.head.keys, held.document.signing_keys
