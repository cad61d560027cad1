"""Keeping the trust documents of tenants new: made, renewed, and named by the feed (TRUST-16)."""

from contextlib import suppress
from enum import StrEnum
from functools import partial

from shared.errors import ExpectationLost
from shared.model.audit.audit_log import Action
from shared.model.callers import Caller
from shared.model.trust import WaitingDraft, head_address, waiting_address
from shared.operations.base import audit, tenants
from shared.operations.base.operation import settle
from shared.operations.lists import in_force, published_keys, signers
from shared.operations.lists.storage import Pen
from shared.operations.trust import facts as facts_of
from shared.operations.trust import publishing
from shared.ports import Ports
from shared.ports.store import At, Delete, Expect, Put


class TrustOutcome(StrEnum):
    """The outcome of a look at the documents of a tenant."""

    PUBLISHED = "published"
    KEPT = "kept"
    # The document is due, and people have to sign it.
    WAITS = "waits"


def keep(ports: Ports, tenant_id: str) -> TrustOutcome:
    """Publish the next document if it is due, and let the feed name it and the signing keys.

    Repeated and concurrent calls are harmless. If the roots are elsewhere, a document that is due
    waits for them. Raises `Corrupt`, `Unavailable`.
    """
    _ensure_standby(ports, tenant_id)
    return settle(partial(_kept, ports, tenant_id))


def begin_anew(ports: Ports, caller: Caller) -> bool:
    """Forget the documents of lost roots, so that the next one is the first of others (TRUST-21).

    Clients then need another pin. Returns whether there was a document. Raises `Corrupt`,
    `Unavailable`.
    """

    def attempt() -> bool:
        head = in_force.trust_head(ports, caller.tenant_id)
        if head is None:
            return False
        ports.store.write(
            Delete(head_address(caller.tenant_id), At(head.version)),
            audit.entry(
                ports,
                caller,
                Action.TRUST_BEGIN_ANEW,
                f"trust/{head.version}",
                settings=tenants.settings(ports, caller.tenant_id),
                pin=head.pin,
            ),
        )
        return True

    return settle(attempt)


def _kept(ports: Ports, tenant_id: str) -> TrustOutcome:
    facts, root = facts_of.read(ports, tenant_id), ports.root
    is_online = facts.may_sign(root.public_key if root else None)
    is_due = facts.is_due(ports.now(), is_online=is_online)
    if is_due and is_online and root is not None:
        caller = Caller.inside(tenant_id, name="schedule", handle=facts.settings.handle)
        publishing.make(ports, caller, facts, root)
        return TrustOutcome.PUBLISHED
    if facts.head is not None:
        published_keys.write_named(ports, Pen(ports), facts.settings, facts.head, facts.covers)
    _note(ports, tenant_id, waits=is_due)
    return TrustOutcome.WAITS if is_due else TrustOutcome.KEPT


def _ensure_standby(ports: Ports, tenant_id: str) -> None:
    """Make the standby of a tenant of an earlier release."""
    if signers.standby(ports, tenant_id) is None:
        with suppress(ExpectationLost):
            ports.store.write(signers.new_standby(ports, tenant_id))


def _note(ports: Ports, tenant_id: str, *, waits: bool) -> None:
    """Note since when a document waits, or that none does any more."""
    address = waiting_address(tenant_id)
    found = ports.store.get(address)
    if waits and found is None:
        ports.store.write(Put(address, WaitingDraft(ports.now()).to_item(), Expect.ANYTHING))
    if found is not None and not waits:
        ports.store.write(Delete(address, Expect.ANYTHING))
