"""The items that docs/data-model.md names, and those that the whole API stores.

`make written` writes the operations with protected effects into APPROVAL-1 from the same calls.
"""

import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import FrameType
from typing import Any, Final

from functions.transparency_log import daily_statements, witnesses, witnessing
from functions.transparency_log.merkle import WIDTH
from functions.trust import publishing
from infra.server.leader import StoreLease
from shared.adapters.stored_usage import StoreUsageCounts
from shared.model import identifiers
from shared.model.audit.witness_policy import Witness, WitnessPolicy
from shared.model.items import Address, Item, Partition, Table
from shared.model.records import Record
from shared.model.tenants import blob_folders
from shared.operations.base import effects, guard
from shared.operations.lists.journal import Journals
from shared.operations.operator import readiness, restored
from shared.ports import Ports
from shared.ports.outside import WitnessAnswer
from shared.ports.store import MOST_CHANGES, Change, Check, Store
from tests.kit import tour
from tests.kit.intercepted import Call, Intercepted, OneByOne
from tests.kit.processes import ROOT
from tests.kit.sealed_log import entry_made
from tests.kit.witnesses import Witnessed
from tests.kit.worlds import Clock, close, embedded

PAGE: Final = ROOT / "docs" / "data-model.md"
CLAUSE: Final = ROOT / "docs" / "spec" / "access.md"
_EFFECT_ROWS: Final = re.compile(r"(\| Effect \|.*\n\| --- .*\n)(?:\|.*\n)*")
_TENANT: Final = re.compile(f"svc_tnt_{identifiers.ULID}")
# The protected effects, by the actions that cover them.
_EFFECTS: Final = {
    "`srl_signers.force_activate`": "another SRL signer becomes active",
    "`admin_keys.create`": "a credential with `admin` or a role becomes valid",
    "`access.change`": "a provider, a role or the policy changes, or a person is enabled",
    "`revocations.unrevoke`, `revocations.unrevoke_others`": "a revocation record is deleted",
    "`settings.weaken`": "a setting is weakened",
    "`signing_keys.revoke_root`": "a root signing key or one of its versions is revoked",
    "`status_signer.rotate`": "the status signer changes",
}
# The sections with items.
TABLES: Final = tuple(f"Table `{table}`" for table in Table)
BLOBS: Final = "Blobs"
_PLACEHOLDERS: Final = {
    "tenant": f"svc_tnt_{identifiers.ULID}",
    "account": f"svc_sa_{identifiers.ULID}",
    "apikey": f"svc_ak_{identifiers.ULID}",
    "maker": f"svc_(?:usr|sa|ak)_{identifiers.ULID}",
    "caller": f"svc_(?:usr|sa|ak)_{identifiers.ULID}",
    "key": f"svc_key_{identifiers.ULID}",
    "revocation": f"svc_rev_{identifiers.ULID}",
    "authorizer": f"svc_azr_{identifiers.ULID}",
    "statuslist": f"svc_tsl_{identifiers.ULID}",
    "webhook": f"svc_whk_{identifiers.ULID}",
    "provider": f"svc_idp_{identifiers.ULID}",
    "person": f"svc_usr_{identifiers.ULID}",
    "owner": f"svc_(?:usr|sa)_{identifiers.ULID}",
    "session": f"svc_ses_{identifiers.ULID}",
    "approval": f"svc_apr_{identifiers.ULID}",
    "manifest": f"svc_man_{identifiers.ULID}",
    "batch": f"svc_bat_{identifiers.ULID}",
    "call": "[0-9a-f]{16}",
    "entry": f"svc_evt_{identifiers.ULID}",
    "warrant": identifiers.WARRANT_ID_PATTERN,
    "ulid": identifiers.ULID,
    "digest": "[0-9a-f]{64}",
    "name": "[a-z0-9-]{1,63}",
    "identity": r"[a-z0-9_+.-]+@[a-z0-9-]{1,63}\.svc",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "month": r"\d{4}-\d\d",
    "day": r"\d{4}-\d\d-\d\d",
    "n": "[0-9a-f]{1,2}",
    "number": r"\d+",
    "blob": r"\d{20}",
    "sequence": r"\d{16}",
    "tile": r"(?:[0-5]|entries)/(?:x\d{3}/)*\d{3}",
    "random": "[0-9a-f]{1,16}",
    "version": r"\d{9}(?:\d{3})?",
    "document": r"\d{20}",
    "type": "root|issuer|notary",
    "status": "active|suspended|rotated|revoked",
}


@dataclass(frozen=True)
class Kind:
    """A row of the page. Of `pk`, `sk` and `names`, each part is a pattern."""

    table: str
    pk: re.Pattern[str]
    sk: re.Pattern[str]
    what: str
    records: tuple[type[Record], ...]
    names: tuple[re.Pattern[str], ...]

    def is_in(self, partition: Partition | Address) -> bool:
        """Whether items in this partition can be of this kind."""
        return self.table in (partition.table, "") and bool(self.pk.fullmatch(partition.pk))

    def is_at(self, address: Address) -> bool:
        """Whether an item at this address is of this kind."""
        return self.is_in(address) and bool(self.sk.fullmatch(address.sk))

    def has(self, item: Item) -> bool:
        """Whether an item has the fields of this kind, and no other."""
        for record in self.records:
            record.from_item(item)
        known = {each.name for record in self.records for each in fields(record)}  # type: ignore[arg-type]
        return all(any(each.fullmatch(name) for each in self.names) for name in {*item} - known)


def section(title: str) -> list[list[str]]:
    """The rows of the table below a heading of the page, as cells."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2]
    lines = text.partition("\n## ")[0].splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return rows[2:]


def kinds(title: str) -> list[Kind]:
    """The kinds of items that a section names."""
    table = title.removeprefix("Table ").strip("`") if title in TABLES else ""
    found = []
    for pk, sk, what, fields_, *_ in section(title):
        names = re.findall(r"`(.+?)`", fields_)
        records = tuple(_records()[name] for name in names if name[0].isupper())
        plain = tuple(pattern(f"`{name}`") for name in names if not name[0].isupper())
        found.append(Kind(table, pattern(pk), pattern(sk), what, records, plain))
    return found


def pattern(cell: str) -> re.Pattern[str]:
    """The expression for the patterns in a cell, one of which must match: `a[#{n}]` or `b`."""
    each = (re.escape(one) for one in re.findall(r"`(.+?)`", cell))
    whole = "|".join(re.sub(r"\\\[(.+)\\\]", r"(?:\1)?", one) for one in each)
    return re.compile(re.sub(r"\\{(\w+)\\}", lambda name: f"(?:{_PLACEHOLDERS[name[1]]})", whole))


def _records() -> dict[str, type[Record]]:
    return {each.__name__: each for each in Record.__subclasses__()}


@dataclass
class Seen:
    """Items and blobs that the whole API stored, and the operations with each protected effect."""

    items: list[tuple[Address, Item]] = field(default_factory=list)
    effects: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    blobs: list[str] = field(default_factory=list)


class Watch:
    """Notes what is written to a store and to buckets, and the effects of the writes."""

    def __init__(self, store: Store, seen: Seen) -> None:
        self._store, self._seen = store, seen

    def __call__(self, call: Call) -> Any:
        """Make a call, and note what it stored."""
        self._note_effects(call)
        answer = call()
        if call.verb == "write":
            changed = [each.address for each in call.arguments if not isinstance(each, Check)]
            self._seen.items += self._store.get_many(changed).items()
        elif call.verb == "lease":
            # Where `DynamoBuckets` keeps it.
            address = Address(Table.KEYS, f"{call.arguments[0]}#bucket")
            self._seen.items.append((address, {"full_at": answer.full_at}))
        return answer

    def _note_effects(self, call: Call) -> None:
        if call.verb != "write" or not _is_guarded():
            return
        changes: Sequence[Change] = call.arguments
        found = (_TENANT.search(f"{each.address.pk}#{each.address.sk}") for each in changes)
        tenant_id = next(each[0] for each in found if each)
        for change in changes:
            actions = effects.find_actions(self._store, tenant_id, change)
            if actions:
                self._seen.effects[", ".join(f"`{each}`" for each in sorted(actions))].add(
                    _function()
                )


# A module of the operations, or the folder of a capability.
_OPERATIONS: Final = re.compile(
    r"shared\.operations\.(?!base\.)(?P<core>[\w.]+)$"
    r"|functions\.(?P<capability>\w+)\.operations$|functions\.(?P<part>\w+\.manifests)$"
)


def _function() -> str:
    """Return the operation that is running."""
    frame: FrameType | None = sys._getframe(1)
    found = ""
    while frame is not None:
        operation = _OPERATIONS.match(frame.f_globals["__name__"])
        if operation:
            found = f"{operation[operation.lastgroup or 0]}.{frame.f_code.co_name}"
        frame = frame.f_back
    return found


def _is_guarded() -> bool:
    """Whether an operation of a caller from outside writes, as `guard_writes` has it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals["__name__"] == guard.__name__:
            return True
        frame = frame.f_back
    return False


def drive(folder: Path) -> Seen:
    """Call the whole API on a store and blobs in `folder`, and note what is stored."""
    seen, clock = Seen(), Clock()
    plain = embedded(folder, clock)
    watch = Watch(plain.store, seen)
    store: Any = OneByOne(plain.store, watch)
    buckets: Any = Intercepted(plain.buckets, watch)
    ports = replace(plain, store=store, buckets=buckets, usage=StoreUsageCounts(store))
    tenant = tour.take(ports, clock)
    _seal(plain, ports, clock, tenant.id)
    restored.mark(ports, copied_at=clock())
    Journals().write_missing_records(ports, tenant.id)
    StoreLease(store).take(wants=True)
    readiness.write(ports)
    tenant.admin.post("/v1/keys", json={"type": "root", "name": "waits"})
    publishing.keep(replace(ports, root=None), tenant.id)
    for part in blob_folders(tenant.id):
        seen.blobs += ports.blobs.names(part)
    close(plain)
    return seen


def _seal(plain: Ports, ports: Ports, clock: Clock, tenant_id: str) -> None:
    """Fill a tile of the sealed log with entries that are not noted, and ask a witness."""
    made = [entry_made(plain, clock, tenant_id)[1] for _ in range(WIDTH)]
    for start in range(0, WIDTH, MOST_CHANGES):
        plain.store.write(*made[start : start + MOST_CHANGES])
    daily_statements.sweep(ports, tenant_id)
    witness = Witness(witnesses.cosigner("w.example", seed=bytes(range(32))), "http://w.example")
    away = Witnessed({witness.url: lambda _: WitnessAnswer(0)})
    witnessing.WitnessRound(ports, away, WitnessPolicy(1, (witness,))).cosign(tenant_id)


def clause(seen: Seen) -> str:
    """The page of APPROVAL-1 as it should be: its table of effects, and the rest as it is."""
    assert {*seen.effects} == {*_EFFECTS}
    rows = (
        f"| {what} | {names} | {', '.join(f'`{each}`' for each in sorted(seen.effects[names]))} |\n"
        for names, what in _EFFECTS.items()
    )
    text = CLAUSE.read_text(encoding="utf-8")
    written, found = _EFFECT_ROWS.subn(lambda kept: kept[1] + "".join(rows), text)
    assert found == 1
    return written


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        driven = drive(Path(folder))
    CLAUSE.write_text(clause(driven), encoding="utf-8")
