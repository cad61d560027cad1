"""Extension points of the core, and the capabilities that this process has installed.

A capability is a folder of `functions/` with records and operations of its own, such as webhooks.
Nothing in `shared` imports one. Where the core depends on records of capabilities, it asks the
installed ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from shared.authorizer.formats.trust import KeyUse, LogAnchor
from shared.capabilities.finding import DoctorCheck, LongDoctorCheck
from shared.capabilities.inconsistency import Check
from shared.errors import InvalidSettings
from shared.model.audit.audit_log import AuditAction
from shared.model.audit.log_state import LogSigner, LogState
from shared.model.callers import Caller
from shared.model.identities.approvals import ProtectedAction
from shared.model.items import Address, Item, Value
from shared.model.lists.signers import SrlSigner
from shared.model.seeds import WrappedKeyRecord
from shared.model.tenants import TenantSettings
from shared.ports import Ports
from shared.ports.store import Put

# Seconds between two polls of the feed, unless a capability requires more.
POLL_SECONDS_MIN: Final = 1


@dataclass(frozen=True, slots=True)
class RecoveryContext(ABC):
    """The recovery of a tenant after a restore, as the steps of capabilities use it.

    - `operator` is the caller of each step.
    - `version` and `issued_at` are of the newest SRL. Without one, they are 0 and None.
    - `added_members` are the members that capabilities added to the newest SRL states.
    - `trust_version` is the newest version of a trust document that is known to be published, or 0.
    - `is_copy` is true if newer blobs may have been served in another region, which was copied.
    - `report` is called with a line for the operator after each step.
    """

    ports: Ports
    operator: Caller
    settings: TenantSettings
    version: int
    issued_at: datetime | None
    added_members: Sequence[Mapping[str, Any]]
    trust_version: int
    is_copy: bool
    report: Callable[[str], None]

    @property
    def tenant_id(self) -> str:
        """The tenant to recover."""
        return self.settings.tenant_id

    @abstractmethod
    def entry(self, action: AuditAction, resource_id: str, **details: Value) -> Put:
        """Return the write that stores the audit entry of a step."""


RecoveryStep: TypeAlias = Callable[[RecoveryContext], None]
# Before all other steps; before the publication, until the first recovery after a restore has
# succeeded; before and after each publication; at the end.
RecoveryPhase: TypeAlias = Literal["started", "restored", "publishing", "published", "recorded"]
RecoverySteps: TypeAlias = Sequence[tuple[RecoveryPhase, RecoveryStep]]

# A step for a tenant of a copy, and a step of the schedule for all tenants.
FailoverStep: TypeAlias = Callable[[Ports, str], None]
ScheduleStep: TypeAlias = Callable[[Ports], None]


class WrappedField(NamedTuple):
    """A wrapped field, its binding context, and the public key of the seed in it."""

    field: str
    sealed: bytes
    context: dict[str, str]
    public_key: str | None = None


WrappedFields: TypeAlias = Callable[[Item], Iterable[WrappedField]]


def wrapped_seed(parse: Callable[[Item], WrappedKeyRecord], item: Item) -> Iterator[WrappedField]:
    """Yield the wrapped seed of a key record, if it has one."""
    key = parse(item)
    if key.sealed_seed is not None:
        yield WrappedField("sealed_seed", key.sealed_seed, key.seal_context, key.public_key)


class TrustedSigner(NamedTuple):
    """A key that trust documents name: its address by tenant, the parser of its item, its use."""

    address: Callable[[str], Address]
    parse: Callable[[Item], WrappedKeyRecord]
    use: KeyUse


# Returns the keys (32 bytes each) among these that clients accept as SRL signers of a tenant, or
# None if clients accept any key.
SignerFilter: TypeAlias = Callable[[Ports, str, Collection[bytes]], Collection[bytes] | None]


class SeedReader(Protocol):
    """Unwraps the seed of each SRL signer once."""

    ports: Ports

    def unwrap(self, signer: SrlSigner) -> bytes:
        """Return the seed of an active signer. Raises `SeedUnavailable`, `Unavailable`."""


# Names documents of a tenant in its feed head. Returns whether the feed head changed.
FeedReference: TypeAlias = Callable[[Ports, SeedReader, str], bool]


class AnchorSource(NamedTuple):
    """Blobs of a tenant with log anchors: all names, the name of the newest blob, and a parser."""

    list_names: Callable[[Ports, str], Iterable[str]]
    find_newest: Callable[[Ports, str], str | None]
    parse: Callable[[bytes], LogAnchor | None]


class ProtectedEffect(NamedTuple):
    """An effect that a tenant can protect: the address by tenant, and a test of a change.

    `is_effect` receives the item before and after the change.
    """

    address: Callable[[str], Address]
    action: ProtectedAction
    is_effect: Callable[[Item | None, Item], bool]


def _read_nothing(_ports: Ports, _tenant_id: str) -> None:
    return None


class LogFunctions(NamedTuple):
    """The transparency log, as functions for the core. The defaults describe an empty log.

    - `head` returns the log of a tenant, or None if it is empty. Raises `Unavailable`.
    - `anchor` returns the log anchor for a new trust document or journal record (LOG-12), or None
      if the log is empty. Costs one listing. Raises `DataCorrupt`, `Unavailable`.
    - `signers` returns all signers of a tenant's log. Raises `Unavailable`.
    """

    head: Callable[[Ports, str], LogState | None] = _read_nothing
    anchor: Callable[[Ports, str], LogAnchor | None] = _read_nothing
    signers: Callable[[Ports, str], Iterable[LogSigner]] = lambda _ports, _tenant_id: ()


class RouteTable(Protocol):
    """A router of the web framework, with its routes in their order."""

    routes: list[Any]


def nothing(_capability: object) -> tuple[()]:
    """Return the answer of a capability that adds nothing to an extension point."""
    return ()


class Capability(ABC):
    """The extension points. Each abstract one must be answered, if only by `nothing`.

    A class that omits an abstract one cannot be instantiated, so no process starts with it.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of its folder in `functions/`."""

    @abstractmethod
    def recovery_steps(self) -> RecoverySteps:
        """Return the steps of a recovery, each with its phase."""

    @abstractmethod
    def restore_checks(self) -> Sequence[Callable[[Ports, str], None]]:
        """Return checks that raise `DataCorrupt` if a tenant's records are older than its blobs."""

    @abstractmethod
    def consistency_checks(self) -> Sequence[Check]:
        """Return the checks of a tenant's records. They run after the checks of the core."""

    @abstractmethod
    def doctor_checks(self) -> Sequence[DoctorCheck]:
        """Return the checks of a tenant that the doctor adds to its own."""

    @abstractmethod
    def failover_steps(self) -> Sequence[FailoverStep]:
        """Return the repairs of a tenant's records in a copy, before its recovery (OPS-24)."""

    @abstractmethod
    def schedule_steps(self) -> Sequence[ScheduleStep]:
        """Return the work of the function `srl_schedule`, every five minutes.

        On one machine, `infra/server/timer.py` names its steps.
        """

    @abstractmethod
    def wrapped_kinds(self) -> Sequence[tuple[str, WrappedFields]]:
        """Return the kinds of items with wrapped secrets: the end of the partition key."""

    @abstractmethod
    def trusted_signers(self) -> Sequence[TrustedSigner]:
        """Return the keys that trust documents name."""

    @abstractmethod
    def protected_effects(self) -> Sequence[ProtectedEffect]:
        """Return the effects of writes that the tenant's policy can protect (APPROVAL-1)."""

    def recovery_signers(self) -> Sequence[Callable[[Ports, str], Iterable[bytes]]]:
        """Return readers of the public keys (32 bytes) of SRL signers that records may lack."""
        return ()

    def signer_filters(self) -> Sequence[SignerFilter]:
        """Return the filters of SRL signers. A filter may publish a document first."""
        return ()

    def feed_references(self) -> Sequence[FeedReference]:
        """Return the functions that name documents in feed heads when a signer has a mark."""
        return ()

    def anchor_sources(self) -> Sequence[AnchorSource]:
        """Return the blobs with log anchors."""
        return ()

    def long_doctor_checks(self) -> Sequence[LongDoctorCheck]:
        """Return the doctor's checks that take long. They run once, after the other checks."""
        return ()

    @property
    def logs(self) -> Sequence[LogFunctions]:
        """The transparency log, if this capability has it."""
        return ()

    def list_state_members(self, _ports: Ports, _tenant_id: str, /) -> Mapping[str, Any]:
        """Return the members by name that this capability adds to a tenant's next SRL state."""
        return {}

    def check_state_members(self, _members: Mapping[str, Any], /) -> None:  # noqa: B027
        """Check the added members of an SRL state. Raises `DataCorrupt` if one is malformed."""

    def poll_seconds(self, _ports: Ports, _tenant_id: str, /) -> int:
        """Return the minimum number of seconds between two polls. Raises `Unavailable`."""
        return POLL_SECONDS_MIN

    def prepare_snapshot(self) -> None:  # noqa: B027
        """Import what the first request needs, before Lambda takes a snapshot (docs/adr/22)."""

    def routers(self, function: str) -> Sequence[RouteTable]:  # noqa: ARG002
        """Return the routes that an endpoint group of the core serves for this capability.

        `function` is the folder of the group. Routes in a handler of its own are not among them.
        """
        return ()


class RoutesOnly(Capability):
    """A capability without records: it adds only routes."""

    recovery_steps = restore_checks = failover_steps = schedule_steps = nothing
    consistency_checks = doctor_checks = nothing
    wrapped_kinds = trusted_signers = protected_effects = nothing


class Capabilities:
    """The capabilities of a process. Raises `InvalidSettings` until they are installed."""

    def __init__(self) -> None:
        self._installed: tuple[Capability, ...] | None = None

    def install(self, *capabilities: Capability) -> None:
        """Install all capabilities. The package `functions` does this once."""
        self._installed = capabilities

    def __iter__(self) -> Iterator[Capability]:
        """Return the installed capabilities in their order."""
        if self._installed is None:
            raise InvalidSettings("no capabilities are installed: import the package functions")
        return iter(self._installed)

    @property
    def log(self) -> LogFunctions:
        """The transparency log."""
        return next((log for each in self for log in each.logs), LogFunctions())

    def list_state_members(self, ports: Ports, tenant_id: str) -> dict[str, Any]:
        """Return the members that all capabilities add to the next SRL state of a tenant."""
        added = [each.list_state_members(ports, tenant_id) for each in self]
        return {name: value for members in added for name, value in members.items()}

    def check_state_members(self, members: Mapping[str, Any]) -> None:
        """Check the added members of an SRL state. Raises `DataCorrupt` if one is malformed."""
        for each in self:
            each.check_state_members(members)

    def wrapped_kinds(self) -> dict[str, WrappedFields]:
        """Return the kinds of items with wrapped secrets of all capabilities."""
        return dict(kind for each in self for kind in each.wrapped_kinds())

    def anchor_sources(self) -> list[AnchorSource]:
        """Return the blobs with log anchors of all capabilities."""
        return [source for each in self for source in each.anchor_sources()]

    def publish_references(self, ports: Ports, seeds: SeedReader, tenant_id: str) -> bool:
        """Name the documents of all capabilities in the feed head; return whether it changed."""
        publishers = [publish for each in self for publish in each.feed_references()]
        return True in [publish(ports, seeds, tenant_id) for publish in publishers]

    def poll_seconds(self, ports: Ports, tenant_id: str) -> int:
        """Return the minimum number of seconds between two polls. Raises `Unavailable`."""
        return max(each.poll_seconds(ports, tenant_id) for each in self)

    def routers(self, function: str) -> list[RouteTable]:
        """Return the routes of all capabilities that the function of an endpoint group serves."""
        return [router for each in self for router in each.routers(function)]


INSTALLED = Capabilities()
