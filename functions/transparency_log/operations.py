"""Read the transparency log, and rotate its signer (LOG-6, LOG-7, LOG-9)."""

from dataclasses import dataclass, replace
from typing import Final

from functions.transparency_log import checkpoint as model
from functions.transparency_log import log, outside, signers, witnessing
from functions.transparency_log.checkpoint import AuditSigner
from functions.transparency_log.head import LogHead
from functions.transparency_log.merkle import TileAddress
from shared.errors import Conflict, NotFound
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.identifiers import AUDIT_ENTRY, is_identifier
from shared.model.items import Item
from shared.operations.audit import audit_log as audit_entries
from shared.operations.base import audit, tenants
from shared.operations.base.idempotency import Keep, OutcomeCodec, idempotent, item
from shared.operations.base.operation import operation
from shared.ports import Ports
from shared.ports.store import Change, Expect, Put, VersionIs

READERS = (Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)

_UNWITNESSED = "No quorum of witnesses has signed a checkpoint; see RESCIND_WITNESSES."
_NOTHING = "The tenant has no checkpoint yet; retry in a minute."


@dataclass(frozen=True, slots=True)
class InclusionProof:
    """The proof that an entry is in the log: its leaf index, its commitment, the path to the root.

    `record` has 56 bytes. Each hash of `path` has 32 bytes, in order from the leaf to the root.
    """

    entry_id: str
    index: int
    record: bytes
    path: list[bytes]
    checkpoint: str


@dataclass(frozen=True, slots=True)
class AuditSigners:
    """The audit signers of a tenant, in order of creation, and the origin of its log."""

    origin: str
    signers: list[AuditSigner]


@operation(*READERS)
def checkpoint(ports: Ports, caller: Caller, *, with_cosignatures: bool = False) -> str:
    """Return the newest checkpoint, or the newest with a quorum of cosignatures (LOG-32).

    Raises `NotFound` if there is none yet, `DataCorrupt` if the log was cut (LOG-12).
    """
    newest = _require_log_head(outside.head(ports, caller.tenant_id)).checkpoint
    if not with_cosignatures:
        return newest
    cosigned = witnessing.quorum_checkpoint(ports, caller.tenant_id)
    if cosigned is None:
        raise NotFound(_UNWITNESSED)
    return cosigned


@operation(*READERS)
def tile(ports: Ports, caller: Caller, *, place: TileAddress) -> bytes:
    """Return a tile or a bundle. Raises `NotFound` if the log is too short."""
    content = log.LogTree(ports, caller.tenant_id, _head(ports, caller)).tile(place)
    if content is None:
        raise NotFound
    return content


@operation(*READERS)
def keys(ports: Ports, caller: Caller) -> AuditSigners:
    """Return the audit signers that sign, or have signed, checkpoints of the tenant."""
    head, known = ports.gather(
        lambda: log.head(ports, caller.tenant_id), lambda: signers.all_of(ports, caller.tenant_id)
    )
    generation = head.generation if head else log.FIRST_GENERATION
    return AuditSigners(model.origin(caller.tenant_id, generation), known)


@operation(*READERS)
def proof(ports: Ports, caller: Caller, *, entry_id: str) -> InclusionProof:
    """Return the inclusion proof of an entry.

    Raises `NotFound` if it is missing or not appended.
    """
    if not is_identifier(entry_id, kind=AUDIT_ENTRY):
        raise NotFound
    head = _head(ports, caller)
    if not audit_entries.read_entries(ports, caller.tenant_id, [entry_id]):
        raise NotFound
    index = log.find(ports, caller.tenant_id, head, entry_id)
    if index is None:
        raise NotFound("The entry is not in the transparency log yet; retry in a minute.")
    (record,) = log.data(ports, caller.tenant_id, head, index, index + 1)
    path = log.LogTree(ports, caller.tenant_id, head).path(index)
    return InclusionProof(entry_id, index, record, path, head.checkpoint)


def _restore_result(_ports: Ports, _caller: Caller, outcome: Item) -> AuditSigners:
    stored = outcome["signers"]
    items = [each for each in stored if isinstance(each, dict)] if isinstance(stored, list) else []
    return AuditSigners(str(outcome["origin"]), [AuditSigner.from_item(each) for each in items])


_KEPT: Final = OutcomeCodec[AuditSigners](
    lambda result: {
        "origin": result.origin,
        "signers": [item(each, but=["sealed_seed"]) for each in result.signers],
    },
    _restore_result,
)


@idempotent(Scope.ADMIN, keeps=_KEPT)
def rotate(ports: Ports, caller: Caller, keep: Keep[AuditSigners]) -> AuditSigners:
    """Rotate the audit signer. The old one also signs for one audit retention (LOG-9).

    After that, the next rotation removes its seed. Raises `Conflict` if too many signers
    are signing, because each signature delays each pass.
    """
    settings = tenants.settings(ports, caller.tenant_id)
    now, origin = ports.now(), keys(ports, caller).origin
    known = signers.read_settled(ports, caller.tenant_id)
    if sum(each.signs(now) for each in known) >= signers.SIGNING_MAX:
        raise Conflict(f"At most {signers.SIGNING_MAX} audit signers sign at the same time.")
    is_first = log.head(ports, caller.tenant_id) is None
    new = replace(signers.make(ports, caller.tenant_id), precedes_log=is_first)
    changes: list[Change] = [Put(new.address, new.to_item(), Expect.ABSENT)]
    rotated = list[AuditSigner]()
    for signer in known:
        after = signer
        if signer.retired_at is None:
            after = signer.retire(retired_at=now + settings.audit_retention)
        elif not signer.signs(now) and signer.sealed_seed is not None:
            after = signer.without_seed()
        if after != signer:
            changes.append(Put(after.address, after.to_item(), VersionIs(signer.version)))
        rotated.append(after)
    entry = audit.entry(
        ports,
        caller,
        AuditAction.AUDIT_LOG_ROTATE_KEY,
        new.id,
        settings=settings,
        public_key=new.public_key,
        replaced=[each.id for each in known if each.retired_at is None],
    )
    result = AuditSigners(origin, [*rotated, new])
    ports.store.write(*changes, entry, signers.mark(caller.tenant_id), *keep(result))
    return result


def _head(ports: Ports, caller: Caller) -> LogHead:
    return _require_log_head(log.head(ports, caller.tenant_id))


def _require_log_head(head: LogHead | None) -> LogHead:
    if head is None or not head.size:
        raise NotFound(_NOTHING)
    return head
