"""The facts for a trust document: a tenant's signers, feed, log, and root keys."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from functions.trust import documents, published_keys
from functions.trust.records import RENEWED_AFTER, TrustHead
from shared.authorizer.formats import wire
from shared.authorizer.formats.documents import SignedDocument
from shared.authorizer.formats.following import TrustState, follow
from shared.authorizer.formats.signing_keys import PublishedKey, covering
from shared.authorizer.formats.trust import (
    SIGNERS_MAX,
    DocumentSigner,
    KeyUse,
    LogAnchor,
    RootSet,
    TrustDocument,
    Witnesses,
)
from shared.authorizer.formats.wire import FeedPosition
from shared.capabilities import INSTALLED
from shared.model import times
from shared.model.feed import FeedHead
from shared.model.lists.signers import SrlSignerStatus
from shared.model.tenants import TenantSettings
from shared.operations.base import tenants
from shared.operations.lists import in_force, signers
from shared.ports import Ports

_IN_USE = (SrlSignerStatus.ACTIVE, SrlSignerStatus.PENDING)


@dataclass(frozen=True, slots=True)
class SignerUses:
    """Keys (32 bytes) by use: the document must name all of `needed`, and may name `spare`.

    `spare` are retired keys that are not revoked, newest first. The next document also names the
    keys of `listed`, because their last SRL may still be in a cache.
    """

    needed: Mapping[bytes, KeyUse]
    spare: Mapping[bytes, KeyUse]
    listed: tuple[bytes, ...]

    def are_those_of(self, document: TrustDocument) -> bool:
        """Return whether a document names each needed key, and otherwise only `spare` keys."""
        named = {each.key: each.uses for each in document.signers}
        known = {key: (use.value,) for key, use in {**self.spare, **self.needed}.items()}
        return self.needed.keys() <= named.keys() and named.items() <= known.items()


@dataclass(frozen=True, slots=True)
class TrustFacts:
    """The facts that the next document relies on. Its write has `head` as a precondition.

    - `chain` are the documents of the trust chain from the first root, newest last.
    - `newest` is the feed head, or None if the tenant has no feed yet.
    - `witnesses` are the current witnesses of this service.
    - `keys` are the signing keys, and `covers` the keys that the newest document covers.
    """

    settings: TenantSettings
    head: TrustHead | None
    chain: tuple[SignedDocument, ...]
    newest: FeedHead | None
    uses: SignerUses
    log: LogAnchor | None
    witnesses: Witnesses | None
    keys: tuple[PublishedKey, ...]
    covers: tuple[PublishedKey, ...]

    @property
    def tenant_id(self) -> str:
        """The tenant of the document."""
        return self.settings.tenant_id

    @property
    def newest_document(self) -> TrustDocument | None:
        """The newest document."""
        return self.chain[-1].document if self.chain else None

    @property
    def feed_position(self) -> FeedPosition:
        """The end of the feed."""
        if self.newest is None:
            return FeedPosition(0, wire.first_chain(self.tenant_id))
        return FeedPosition(self.newest.sequence, self.newest.signed_head.chain)

    def reachable_document(self, now: datetime, *more: SignedDocument) -> SignedDocument | None:
        """Return the end of the trust chain from the first root, extended by `more`.

        Raises `NotTrusted`.
        """
        chain = (*self.chain, *more)
        start = TrustState(self.tenant_id, chain[0].document.roots.pin)
        return follow(start, chain, now).held

    def may_sign(self, root: bytes | None) -> bool:
        """Return whether the root with this key alone can sign the next document."""
        if root is None or self.newest_document is None:
            return root is not None
        roots = self.newest_document.roots
        return roots.threshold == 1 and root in roots.keys

    def is_due(self, now: datetime, *, is_online: bool) -> bool:
        """Return whether the next document is due, because of its age or changed keys.

        A document that people must sign is due in the last third of the current lifetime.
        """
        if self.head is None or self.newest_document is None or self.head.floor > self.head.version:
            return True
        document = self.newest_document
        if not self.uses.are_those_of(document) or document.witnesses != self.witnesses:
            return True
        # Without a certificate, a signing key waits for the next document.
        blob = published_keys.encode_vouched_keys(self.tenant_id, self.keys, self.covers)
        if len(blob.keys) < len(self.keys):
            return True
        if not is_online:
            return now >= self.head.warns_at
        issued_at = self.head.issued_at
        return times.is_ahead(issued_at, now) or now >= issued_at + RENEWED_AFTER

    def draft(
        self, roots: RootSet, *, version: int, lifetime: timedelta, now: datetime
    ) -> TrustDocument:
        """Return the next document, valid for `lifetime` from `now` on."""
        issued_at, uses = times.truncate_to_second(now), self.uses
        # At most 256 signers. The keys of the newest lists come after the needed ones.
        listed = uses.listed[: SIGNERS_MAX - len(uses.needed)]
        named = {**uses.needed, **{each: uses.spare[each] for each in listed}}
        return TrustDocument(
            self.tenant_id,
            version,
            issued_at,
            issued_at + lifetime,
            roots,
            tuple(sorted(DocumentSigner(key, (use.value,)) for key, use in named.items())),
            self.feed_position,
            self.log,
            self.witnesses,
            covering(self.keys),
        )


def read_facts(ports: Ports, tenant_id: str) -> TrustFacts:
    """Read the facts for the next document. Raises `DataCorrupt`, `Unavailable`."""
    # Read the signers after the head: a document that names fewer is then not the newest.
    head, settings = ports.gather(
        partial(documents.read_head, ports, tenant_id),
        partial(tenants.settings, ports, tenant_id),
    )
    chain, newest = ports.gather(
        lambda: documents.read_all(ports, tenant_id, head.versions_after(0) if head else ()),
        partial(in_force.read_feed_head, ports, tenant_id),
    )
    uses, anchor = ports.gather(
        partial(_uses, ports, tenant_id), partial(INSTALLED.log.anchor, ports, tenant_id)
    )
    keys, covers = ports.gather(
        partial(published_keys.read_keys, ports, tenant_id),
        lambda: (
            published_keys.read_covered_keys(ports, tenant_id, head.keys_sha256) if head else ()
        ),
    )
    policy = ports.witnesses
    witnesses = None if policy is None else Witnesses(policy.keys, policy.quorum)
    return TrustFacts(settings, head, tuple(chain), newest, uses, anchor, witnesses, keys, covers)


def _uses(ports: Ports, tenant_id: str) -> SignerUses:
    standby, records = ports.gather(
        partial(signers.read_standby, ports, tenant_id),
        partial(signers.read_unarchived, ports, tenant_id),
    )
    added = [signer for each in INSTALLED for signer in each.trusted_signers()]
    addresses = [each.address(tenant_id) for each in added]
    stored, auditors = ports.gather(
        partial(ports.store.get_many, addresses),
        partial(INSTALLED.log.signers, ports, tenant_id),
    )
    now = ports.now()
    of_lists = [*([standby] if standby else []), *(x for x in records if x.status in _IN_USE)]
    retired = [each for each in records if each.status is SrlSignerStatus.RETIRED]
    needed = {each.public_bytes: KeyUse.LISTS for each in of_lists}
    needed |= {each.public_bytes: KeyUse.LOG for each in auditors if each.signs(now)}
    for address, signer in zip(addresses, added, strict=True):
        if address in stored:
            needed[signer.parse(stored[address]).public_bytes] = signer.use
    spare = {each.public_bytes: KeyUse.LISTS for each in retired}
    spare |= {each.public_bytes: KeyUse.LOG for each in auditors if not each.signs(now)}
    listed = tuple(each.public_bytes for each in signers.filter_listed(retired, now))
    return SignerUses(needed, spare, listed)
