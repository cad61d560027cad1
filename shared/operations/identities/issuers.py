"""Issuers of tokens: their published metadata and their keys.

All instances together fetch each URL of an issuer at most once a minute. To claim a fetch, an
instance writes `tried` with the record that it read as a precondition. An instance that loses the
claim waits for the winner only if it does not know the required key.
"""

import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

from shared.authorizer.formats import strict_json
from shared.authorizer.formats.jwk_sets import KeySet
from shared.errors import DataCorrupt, InvalidRequest, PreconditionFailed, RescindError, Unavailable
from shared.model import outbound
from shared.model.identities import key_sets
from shared.model.identities import providers as model
from shared.model.identities.claims import ProviderMetadata
from shared.model.identities.key_sets import AT_WORK_SECONDS, IssuerKeys
from shared.model.identities.providers import IdentityProvider
from shared.model.outbound import DeliveryOutcome
from shared.operations.base import tenants
from shared.ports import Ports
from shared.ports.store import Expect, Put, VersionIs

_log = logging.getLogger(__name__)

_PATH: Final = "/.well-known/openid-configuration"
# Seconds between two reads while a process waits for the keys of another one.
_LOOK_SECONDS: Final = 0.25
# The most documents that a process caches.
_REMEMBERED_MAX: Final = 64
# How long the endpoints of an issuer are used before they are discovered again.
_DAY: Final = timedelta(days=1)


def discover(ports: Ports, issuer: str) -> ProviderMetadata:
    """Return the published metadata of an issuer (OpenID Connect Discovery 1.0).

    Raises `InvalidRequest` if it is not an issuer, `Unavailable` if it does not respond.
    """
    try:
        outbound.checked_url(issuer, any_port=True)
    except ValueError as error:
        raise InvalidRequest(f"issuer {error}.") from None
    if "?" in issuer:
        raise InvalidRequest("issuer must have no query.")
    answer = ports.outbound().ask(_configuration_at(issuer))
    if answer.outcome is DeliveryOutcome.BLOCKED:
        raise InvalidRequest(
            "The issuer's address is not public; the operator can allow it with "
            "RESCIND_OUTBOUND_ALLOWED_NETWORKS."
        )
    if (
        answer.outcome is DeliveryOutcome.NO_RESPONSE
        or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    ):
        raise Unavailable(f"The issuer does not respond at {_PATH}; try again later.")
    return _parse_metadata(issuer, answer.body if answer.status == HTTPStatus.OK else b"")


def current(ports: Ports, provider: IdentityProvider) -> IdentityProvider:
    """Return a provider with the newest endpoints that `refresh` found.

    The endpoints do not change if the newest document could not be bound. Sends no request.
    """
    now, uri = ports.now(), _configuration_at(provider.issuer)
    if _is_new(provider, now):
        return provider
    known = ports.issuer_keys.get(uri)
    if known is None or not known.is_fresh(now, max_age=_DAY):
        known = _read_stored(ports, uri)
        if known is None:
            return provider
        _remember(ports, uri, known)
    try:
        metadata = _parse_metadata(provider.issuer, (known.document or "").encode())
    except InvalidRequest:
        return provider
    return provider.with_endpoints(metadata)


def refresh(ports: Ports, provider: IdentityProvider) -> None:
    """Fetch the discovery document of a provider if it is a day old. Raises `Unavailable`."""
    now, uri = ports.now(), _configuration_at(provider.issuer)
    if _is_new(provider, now):
        return
    known = _read_stored(ports, uri)
    if known is None or not known.is_fresh(now, max_age=_DAY):
        _refresh(ports, uri, known, _configuration)


def refresh_all(ports: Ports, is_over: Callable[[], bool]) -> int:
    """Refresh the providers of all tenants until `is_over`; return the number of failures.

    The order of tenants is random, so no tenant is always last if time is short.
    """
    failed = 0
    for tenant_id in sorted(tenants.identifiers(ports), key=lambda _: secrets.randbits(64)):
        for row in ports.store.query(model.providers(tenant_id)):
            if is_over():
                return failed
            try:
                refresh(ports, IdentityProvider.from_item(row.item))
            except RescindError:
                failed += 1
                _log.exception("cannot refresh an identity provider")
    return failed


def _is_new(provider: IdentityProvider, now: datetime) -> bool:
    """Return whether the endpoints of a provider still come from its binding."""
    return provider.jwks is not None or now - provider.created_at < _DAY


def _parse_metadata(issuer: str, body: bytes) -> ProviderMetadata:
    """Return the metadata in a discovery document. Raises `InvalidRequest`."""
    document = parse_object(body)
    if document is None or document.get("issuer") != issuer:
        raise InvalidRequest(f"The document at {_PATH} names another issuer; compare the two.")
    keys = _endpoint(document, "jwks_uri")
    if keys is None:
        raise InvalidRequest("The issuer publishes no jwks_uri.")
    device_endpoint = None
    # An unusable optional endpoint counts as absent.
    with suppress(InvalidRequest):
        device_endpoint = _endpoint(document, "device_authorization_endpoint")
    return ProviderMetadata(
        authorization_endpoint=_endpoint(document, "authorization_endpoint"),
        device_authorization_endpoint=device_endpoint,
        token_endpoint=_endpoint(document, "token_endpoint"),
        jwks_uri=keys,
    )


def keys_of(ports: Ports, uri: str, kid: str) -> KeySet:
    """Return the keys at a URL. They include `kid` unless the issuer has no such key.

    Raises `Unavailable` if that is unknown at present.
    """
    known = ports.issuer_keys.get(uri)
    if known is None or not _decides(ports, known, kid):
        # Other processes renew the stored record, too.
        known = _read_stored(ports, uri)
        if known is None or not _decides(ports, known, kid):
            known = _refresh(ports, uri, known, _key_set)
        if kid not in _keys(ports, known):
            known = _wait_for_refresh(ports, uri, known)
        _remember(ports, uri, known)
    keys = _keys(ports, known)
    if kid not in keys and not known.has_succeeded:
        raise Unavailable("Cannot read the keys of the issuer; try again later.")
    return keys


def is_decided(ports: Ports, uri: str, kid: str) -> bool:
    """Return whether this process can decide without a fetch whether an issuer has a key."""
    known = ports.issuer_keys.get(uri)
    return known is not None and _decides(ports, known, kid)


def fetched_at(ports: Ports, uri: str) -> datetime | None:
    """Return the fetch time of the keys that this process has for a URL, or None."""
    known = ports.issuer_keys.get(uri)
    return None if known is None else known.fetched


def _decides(ports: Ports, record: IssuerKeys, kid: str) -> bool:
    """Return whether a record has a key, or the issuer had no such key less than a minute ago."""
    now, has_key = ports.now(), kid in _keys(ports, record)
    if record.may_be_tried(now):
        return has_key and record.is_fresh(now)
    return has_key or record.has_succeeded


def _remember(ports: Ports, uri: str, keys: IssuerKeys) -> None:
    if len(ports.issuer_keys) >= _REMEMBERED_MAX:
        ports.issuer_keys.clear()
    ports.issuer_keys[uri] = keys


def _refresh(
    ports: Ports, uri: str, previous: IssuerKeys | None, fetch: Callable[[Ports, str], str | None]
) -> IssuerKeys:
    """Fetch a document if this process wins the claim; return the newest record."""
    if previous is not None and not previous.may_be_tried(ports.now()):
        return previous
    mine = IssuerKeys.trying(previous, ports.now())
    try:
        _write(ports, uri, mine, previous)
    except PreconditionFailed:
        theirs = _read_stored(ports, uri)
        if theirs is None:
            raise Unavailable from None
        return theirs
    fetched = mine.tried_with(fetch(ports, uri))
    # Even if another process has the claim by now, the fetched keys are correct.
    with suppress(PreconditionFailed):
        _write(ports, uri, fetched, mine)
    return fetched


def _wait_for_refresh(ports: Ports, uri: str, keys: IssuerKeys) -> IssuerKeys:
    """Return the record after the current fetch has ended, or after its time limit."""
    for _ in range(int(AT_WORK_SECONDS / _LOOK_SECONDS)):
        if not keys.is_being_fetched(ports.now()):
            break
        ports.sleep(_LOOK_SECONDS)
        newest = _read_stored(ports, uri)
        if newest is not None and newest.version != keys.version:
            return newest
    return keys


def _write(ports: Ports, uri: str, record: IssuerKeys, previous: IssuerKeys | None) -> None:
    expect = Expect.ABSENT if previous is None else VersionIs(previous.version)
    ports.store.write(Put(key_sets.address(uri), record.to_item(), expect))


def _read_stored(ports: Ports, uri: str) -> IssuerKeys | None:
    return IssuerKeys.from_optional(ports.store.get(key_sets.address(uri)))


def _key_set(ports: Ports, uri: str) -> str | None:
    """Return the document at a URL, or None if it has no keys at present."""
    answer = ports.outbound().ask(uri)
    if answer.status != HTTPStatus.OK:
        return None
    try:
        document = answer.body.decode()
        key_sets.parse(document)
    except ValueError:
        return None
    return document


def _configuration(ports: Ports, uri: str) -> str | None:
    """Return the document at a URL, or None if it is not an object at present."""
    answer = ports.outbound().ask(uri)
    is_object = answer.status == HTTPStatus.OK and parse_object(answer.body) is not None
    return answer.body.decode() if is_object else None


def _configuration_at(issuer: str) -> str:
    return f"{issuer.rstrip('/')}{_PATH}"


def _keys(ports: Ports, record: IssuerKeys) -> KeySet:
    try:
        return record.keys(ports.now())
    except ValueError:
        raise DataCorrupt from None


def parse_object(body: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a response, or None for any other body."""
    try:
        document = strict_json.parse_foreign(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _endpoint(document: Mapping[str, Any], name: str) -> str | None:
    url = document.get(name)
    if url is None:
        return None
    try:
        return outbound.checked_url(url if isinstance(url, str) else "", any_port=True)
    except ValueError as error:
        raise InvalidRequest(f"{name} of the issuer {error}.") from None
