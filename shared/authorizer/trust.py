"""The trust bundle of a tenant, and the checks of a warrant by it (TRUST-1, TRUST-4).

    bundle = read(transport.get, held=None)
    warrant = bundle.verify(message, now=now)
    client.check([warrant.id])

Everything but `read` is pure: the time and the bytes are arguments.
"""

import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Protocol
from urllib.parse import quote

from .formats import ed25519, warrants, wire
from .formats.signing_keys import PublishedKey, PublishedKeys
from .formats.warrants import CLOCK_TOLERANCE, Claims, InvalidWarrant
from .formats.wire import Reference

PATH: Final = "/v1/trust-bundle"

# A page has up to 1000 keys of less than 1 KiB, and some hundred list signers.
_PAGE_BYTES_MAX: Final = 2 * 2**20
# More keys than any tenant has, at a thousand on a page.
_PAGES_MAX: Final = 1000
_ANCESTORS_MAX: Final = 32
_ROOT: Final = "root"
_ENDS: Final = ("expires_at", "rotated_at", "suspended_at", "revoked_at")
_REVOKED: Final = "revoked"
_OK: Final = 200
_NOT_MODIFIED: Final = 304


class TrustReason(StrEnum):
    """Why a warrant must not be accepted by the bundle, beside the reasons of `WarrantReason`.

    Programs compare these words, so they do not change (TRUST-4).
    """

    KEY = "key"
    REVOKED = "revoked"
    CHAIN = "chain"
    SIGNED_AT = "signed_at"


class BundleChanged(Exception):
    """The keys changed while the pages were read: begin again."""


class NoBundle(Exception):
    """The service did not return a bundle."""


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
    """The keys of a tenant: all versions by `kid`, and the present versions by identifier.

    `signers` are the public keys of the list signers that are not revoked. `etag` is that of the
    first page.
    """

    tenant_id: str
    revision: str
    keys: Mapping[bytes, PublishedKey]
    current: Mapping[str, PublishedKey]
    signers: tuple[bytes, ...]
    etag: str | None = None
    name: tuple[Reference, bytes | None] | None = None
    published: PublishedKeys | None = None

    @classmethod
    def named(cls, keys: PublishedKeys, reference: Reference, covered: bytes | None) -> "Bundle":
        """Return the checked keys of a blob that a head names, by a document that covers them."""
        versions = {each.kid: each for each in keys.keys}
        current = {each.key_id: each for each in keys.keys if each.rotated_at is None}
        return cls(keys.tenant_id, "", versions, current, (), None, (reference, covered), keys)

    @classmethod
    def of(cls, pages: Iterable[Mapping[str, Any]], *, etag: str | None = None) -> "Bundle":
        """Return the bundle in the parsed pages, the first page first.

        Raises `BundleChanged` if the pages have different revisions, `ValueError` if one is
        malformed.
        """
        pages = list(pages)
        try:
            tenant_id, revision = (_text(pages[0], name) for name in ("tenant_id", "revision"))
            if any(each["revision"] != revision for each in pages):
                raise BundleChanged
            keys = [_key(each) for page in pages for each in page["keys"]]
            signers = tuple(_signers(pages[0]["list_signers"]))
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ValueError(f"not a trust bundle: {type(error).__name__}") from None
        versions = {each.kid: each for each in keys}
        current = {each.key_id: each for each in keys if each.rotated_at is None}
        return cls(tenant_id, revision, versions, current, signers, etag)

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


class BundleResponse(Protocol):
    """A response of the service; names of headers are in lower case."""

    @property
    def status(self) -> int:
        """Its status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers."""
        ...

    @property
    def body(self) -> bytes:
        """Its body."""
        ...


class Get(Protocol):
    """GET of a path, of at most `limit` bytes, as `Transport.get` does it."""

    def __call__(self, path: str, *, limit: int, etag: str | None = None) -> BundleResponse:
        """Return the response; `etag` is sent in `If-None-Match`."""
        ...


def read(get: Get, *, held: Bundle | None) -> Bundle:
    """Return the present bundle: `held` if the service says that it has not changed.

    Raises `NoBundle`, `BundleChanged`, and what `get` raises.
    """
    first = get(PATH, limit=_PAGE_BYTES_MAX, etag=held.etag if held else None)
    if first.status == _NOT_MODIFIED and held is not None:
        return held
    pages = [_page(first)]
    while (cursor := pages[-1].get("cursor")) is not None:
        if len(pages) == _PAGES_MAX:
            raise NoBundle("the bundle has too many pages")
        path = f"{PATH}?cursor={quote(str(cursor), safe='')}"
        pages.append(_page(get(path, limit=_PAGE_BYTES_MAX)))
    try:
        return Bundle.of(pages, etag=first.headers.get("etag"))
    except ValueError as error:
        raise NoBundle(str(error)) from None


def _page(response: BundleResponse) -> Mapping[str, Any]:
    if response.status != _OK:
        raise NoBundle(f"the service returned {response.status}")
    try:
        page = json.loads(response.body)
    except (ValueError, RecursionError):
        page = None
    if not isinstance(page, dict):
        raise NoBundle("the service did not return a page")
    return page


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


def _signers(entries: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    for each in entries:
        public_key = _public_key(each)
        if each["status"] != _REVOKED:
            yield public_key


def _key(members: Mapping[str, Any]) -> PublishedKey:
    """Return the key in an entry of a page. Raises `ValueError` if it is malformed."""
    version, parent_id = members["key_version"], members["parent_id"]
    if type(version) is not int or not isinstance(parent_id, str | None):
        raise ValueError("a member of a key is of another type")
    expires, rotated, suspended, revoked = (_moment(members, name) for name in _ENDS)
    return PublishedKey(
        _text(members, "key_id"),
        version,
        _text(members, "type"),
        _text(members, "status"),
        _public_key(members),
        wire.moment(members, "created_at"),
        parent_id,
        expires,
        rotated,
        suspended,
        revoked,
    )


def _public_key(members: Mapping[str, Any]) -> bytes:
    public_key = binascii.a2b_base64(_text(members, "public_key"), strict_mode=True)
    if not ed25519.is_safe(public_key):
        raise ValueError("a public key is not acceptable")
    return public_key


def _text(members: Mapping[str, Any], name: str) -> str:
    value = members[name]
    if not isinstance(value, str):
        raise TypeError(name)
    return value


def _moment(members: Mapping[str, Any], name: str) -> datetime | None:
    return None if members.get(name) is None else wire.moment(members, name)
