"""The key bundle of a tenant, which feed heads name by its hash (TRUST-9).

The newest trust document covers the keys of its time. A later key is in the bundle if a key in the
bundle certifies it (TRUST-15). Any other key waits for the next trust document.
"""

import hashlib
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from functions.trust import documents
from functions.trust.records import TrustHead, keys_blob
from functions.trust.trust_bundle import TrustedKey
from shared.authorizer.formats import signing_keys as formats
from shared.authorizer.formats.documents import NotTrusted
from shared.authorizer.formats.members import MalformedBytes
from shared.authorizer.formats.signing_keys import PublishedKey, PublishedKeys
from shared.authorizer.formats.wire import HashReference
from shared.capabilities import SeedReader
from shared.errors import BlobExists, DataCorrupt, NotFound
from shared.model import signing_keys
from shared.model.callers import Caller, Scope
from shared.model.lists.head import StoredBody
from shared.model.signing_keys import SigningKey
from shared.model.tenants import TenantSettings
from shared.operations.base import tenants
from shared.operations.base.operation import operation, settle, wait_for_writes
from shared.operations.lists import in_force, records, storage
from shared.ports import Ports
from shared.ports.store import Change

# Reads of the keys while a rotation is only partly visible.
_ATTEMPTS: Final = 2


def read_keys(ports: Ports, tenant_id: str) -> tuple[PublishedKey, ...]:
    """Read all versions of all signing keys, with their certificates, each once.

    Raises `DataCorrupt`, `Unavailable`.
    """
    versions: list[SigningKey] = []
    for attempt in range(_ATTEMPTS):
        if attempt:
            wait_for_writes()
        versions = list(SigningKey.from_rows(ports.store.query(signing_keys.keys(tenant_id))))
        numbers = Counter(each.current_id or each.id for each in versions)
        newest = {each.id: each.key_version for each in versions if each.current_id is None}
        if numbers == newest:
            break
    # While a rotation is only partly visible, the superseded version may be found twice: as the
    # key, and as a separate record. Clients reject a bundle that contains a version twice. Of two
    # records, the record that cannot sign takes precedence.
    versions.sort(key=lambda each: each.current_id is not None)
    by_name = {each.as_published.name: each for each in versions}
    # Read after the keys. The record of a revoked key may still look active, but its marker does
    # not.
    markers = frozenset(records.read_revoked_signers(ports, tenant_id))
    # Only a repair leaves a version without a public key. It cannot verify signatures.
    return tuple(
        each.as_published._replace(status=TrustedKey.of(each, markers=markers).status.value)
        for each in by_name.values()
        if each.public_key
    )


def publish_key_reference(ports: Ports, seeds: SeedReader, tenant_id: str) -> bool:
    """Name the newest trust document and the key bundle in the feed head.

    Returns whether the feed head changed. A tenant without a trust document has neither. Raises
    `DataCorrupt`, `Unavailable`.
    """

    def attempt() -> bool:
        head, settings = ports.gather(
            partial(documents.read_head, ports, tenant_id),
            partial(tenants.settings, ports, tenant_id),
        )
        if head is None:
            return False
        covers = read_covered_keys(ports, tenant_id, head.keys_sha256)
        changes = key_reference_changes(ports, seeds, settings, head, covers)
        if changes:
            ports.store.write(*changes)
        return bool(changes)

    return settle(attempt)


def key_reference_changes(
    ports: Ports,
    seeds: SeedReader,
    settings: TenantSettings,
    head: TrustHead,
    covers: Collection[PublishedKey],
) -> list[Change]:
    """Return the writes that name the newest trust document and the key bundle in the feed head.

    Returns an empty list if the feed head is up to date, or if the tenant has no feed yet. `covers`
    are the keys that the document covers. Raises `DataCorrupt`, `Unavailable`.
    """
    tenant_id = settings.tenant_id
    # Read before the keys, which are then newer than the bundle of any earlier feed head.
    newest, (_, signer) = ports.gather(
        partial(in_force.read_feed_head, ports, tenant_id),
        partial(in_force.read_head_and_signer, ports, tenant_id),
    )
    if newest is None:
        return []
    signed_head = newest.signed_head
    keys = signed_head.keys
    if head.keys_sha256:
        bundle = encode_vouched_keys(tenant_id, read_keys(ports, tenant_id), covers)
        keys = store_blob(ports, bundle, signed_head.keys)
    end = replace(signed_head, trust=head.reference, keys=keys)
    if end == signed_head:
        return []
    return storage.reference_changes(seeds, newest, settings, signer, end)


@operation(*Scope)
def read_key_blob(ports: Ports, caller: Caller, *, sha256: bytes) -> tuple[StoredBody, bytes]:
    """Read the stored key bundle with this hash.

    Raises `NotFound`, `DataCorrupt`, `Unavailable`.
    """
    name = keys_blob(caller.tenant_id, sha256)
    blob = ports.blobs.get(name)
    if blob is None:
        raise NotFound("There are no signing keys with this hash; poll the feed for the newest.")
    if hashlib.sha256(blob).digest() != sha256:
        raise DataCorrupt("a key bundle was altered")
    return StoredBody(name, len(blob)), blob


def store_blob(
    ports: Ports, blob: PublishedKeys, reference: HashReference | None = None
) -> HashReference:
    """Store a key bundle unless `reference` names it; return its reference.

    Raises `OutOfSpace`, `Unavailable`.
    """
    data = blob.encode()
    made = formats.reference(data)
    if made != reference:
        # A blob with this name has the same bytes.
        with suppress(BlobExists):
            ports.blobs.put(keys_blob(blob.tenant_id, made.sha256), data)
    return made


def read_covered_keys(ports: Ports, tenant_id: str, sha256: bytes) -> tuple[PublishedKey, ...]:
    """Return the keys that a trust document covers, from the bundle published with it.

    Returns an empty tuple if `sha256` is empty, because a restore lost that bundle. Raises
    `DataCorrupt` if the bundle is missing or altered; `Unavailable`.
    """
    if not sha256:
        return ()
    data = ports.blobs.get(keys_blob(tenant_id, sha256))
    try:
        if data is None or formats.reference(data).sha256 != sha256:
            raise DataCorrupt("the key bundle that the trust document covers is missing or altered")
        found = PublishedKeys.decode(data)
    except MalformedBytes as error:
        raise DataCorrupt("the key bundle that the trust document covers is malformed") from error
    return tuple(each for each in found.keys if each.certificate is None)


def encode_vouched_keys(
    tenant_id: str, keys: Collection[PublishedKey], covers: Collection[PublishedKey]
) -> PublishedKeys:
    """Return the bundle of the keys that a client with the trust document accepts.

    `covers` are the keys that the document covers. Raises `DataCorrupt` if a client would reject
    the bundle.
    """
    names = {each.name for each in covers}
    ready = [each._replace(certificate=None) for each in keys if each.name in names]
    led = formats.vouching(ready, (each for each in keys if each.name not in names))
    blob = PublishedKeys(tenant_id, (*ready, *(key for _, key in led)))
    try:
        blob.check(formats.covering(covers))
    except NotTrusted as error:
        raise DataCorrupt(
            "a signing key contradicts its certificate or the trust document"
        ) from error
    return blob
