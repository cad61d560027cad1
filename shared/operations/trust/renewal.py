"""Keeping the trust documents of tenants new: made, renewed, and named by the feed (TRUST-16)."""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from shared.authorizer.formats.signing_keys import PublishedKey
from shared.errors import ExpectationLost
from shared.model.callers import Caller
from shared.model.tenants import TenantSettings
from shared.model.trust import waiting
from shared.model.trust.head import TrustHead
from shared.model.trust.waiting import WaitingDraft
from shared.operations.base import tenants
from shared.operations.base.operation import settle
from shared.operations.lists import signers
from shared.operations.lists.storage import Pen
from shared.operations.trust import documents, publishing, signing_keys
from shared.operations.trust import facts as facts_of
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put


class TrustOutcome(StrEnum):
    """The outcome of a look at the documents of a tenant."""

    PUBLISHED = "published"
    KEPT = "kept"
    # The document is due, and people have to sign it.
    WAITS = "waits"


@dataclass(frozen=True, slots=True)
class TrustRound:
    """The result of a look at all tenants: outcomes, and errors, by tenant identifier."""

    outcomes: dict[str, TrustOutcome] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)


def keep(ports: Ports, tenant_id: str) -> TrustOutcome:
    """Publish the next document if it is due, and let the feed name it and the signing keys.

    Repeated and concurrent calls are harmless. If the roots are elsewhere, a document that is due
    waits for them. Raises `Corrupt`, `Unavailable`.
    """
    _ensure_standby(ports, tenant_id)
    return settle(partial(_kept, ports, tenant_id))


def keep_all(ports: Ports, *, until: Callable[[], bool] = lambda: False) -> TrustRound:
    """Keep the documents of all tenants; a failure does not stop the others.

    Stops before the next tenant if `until` returns true. Raises `Unavailable` if the tenants cannot
    be read.
    """
    done = TrustRound()
    for tenant_id in tenants.identifiers(ports):
        if until():
            break
        try:
            done.outcomes[tenant_id] = keep(ports, tenant_id)
        except Exception as error:  # noqa: BLE001 (what stops one tenant must not stop the rest)
            done.failed[tenant_id] = error
    return done


def name(ports: Ports, tenant_id: str) -> bool:
    """Let the feed name the newest document and the signing keys; return whether it did not.

    A tenant without a document has neither. Raises `Corrupt`, `Unavailable`.
    """

    def attempt() -> bool:
        head, settings = ports.gather(
            partial(documents.head, ports, tenant_id), partial(tenants.settings, ports, tenant_id)
        )
        if head is None:
            return False
        covers = signing_keys.covered(ports, tenant_id, head.keys_sha256)
        return _name(ports, settings, head, covers)

    return settle(attempt)


def _name(
    ports: Ports, settings: TenantSettings, head: TrustHead, covers: Collection[PublishedKey]
) -> bool:
    changes = publishing.named(ports, Pen(ports), settings, head, covers)
    if changes:
        ports.store.write(*changes)
    return bool(changes)


def _kept(ports: Ports, tenant_id: str) -> TrustOutcome:
    facts, root = facts_of.read(ports, tenant_id), ports.root
    is_online = facts.may_sign(root.public_key if root else None)
    is_due = facts.is_due(ports.now(), is_online=is_online)
    if is_due and is_online and root is not None:
        caller = Caller.inside(tenant_id, name="schedule", handle=facts.settings.handle)
        publishing.make(ports, caller, facts, root)
        return TrustOutcome.PUBLISHED
    if facts.head is not None:
        _name(ports, facts.settings, facts.head, facts.covers)
    _note(ports, tenant_id, waits=is_due)
    return TrustOutcome.WAITS if is_due else TrustOutcome.KEPT


def _ensure_standby(ports: Ports, tenant_id: str) -> None:
    """Make the standby of a tenant of an earlier release."""
    if signers.standby(ports, tenant_id) is None:
        with suppress(ExpectationLost):
            ports.store.write(signers.new_standby(ports, tenant_id))


def _note(ports: Ports, tenant_id: str, *, waits: bool) -> None:
    """Note since when a document waits, or that none does any more."""
    address = waiting.address(tenant_id)
    found = ports.store.get(address)
    if waits and found is None:
        ports.store.write(Put(address, WaitingDraft(ports.now()).to_item(), Expect.ANYTHING))
    if found is not None and not waits:
        ports.store.write(Delete(address, Expect.ANYTHING))
