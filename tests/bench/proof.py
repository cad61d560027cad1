"""The proof of propagation for 10,000 authorizers: its time, and what it reads (FLEET-10).

Beside it, the time for the signatures of all reports of the largest fleet (TRUST-10).
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final

from functions.revocations.change_schemas import RevocationPropagation
from shared.adapters.dynamodb_items import encode_address, encode_item
from shared.authorizer import reporter
from shared.authorizer.formats.proofs import ProvenReport
from shared.model import times
from shared.model.fleet import authorizers as model
from shared.model.fleet import proofs
from shared.model.fleet import propagation as propagation_model
from shared.model.fleet.advances import PAIRS_MAX
from shared.model.fleet.authorizers import REGISTERED_MAX, Authorizer
from shared.model.fleet.heartbeats import Description, Heartbeat, SignedStatement
from shared.model.fleet.propagation import Published
from shared.model.identifiers import AUTHORIZER
from shared.model.items import Address, Item, Partition
from shared.operations.changes import revocations
from shared.operations.fleet import propagation
from shared.operations.lists import publication
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, Expect, Put, Store
from shared.ports.store import Row as StoredRow
from tests.bench.measure import timed
from tests.bench.report import NotMeasured, Row, progress, took
from tests.bench.revoked import Tenant, tenant
from tests.bench.scratch import scratch
from tests.kit.calls import item_size
from tests.kit.intercepted import Call, OneByOne

_AUTHORIZERS: Final = 10_000
_ROUNDS: Final = 9
_UNITS_MAX: Final = 1_100
_SECONDS_MAX: Final = 2.0
_REPORTS: Final = REGISTERED_MAX
_REPORTS_SECONDS: Final = 300
# What one page of a query has, and what one read unit reads.
_PAGE_BYTES: Final = 2**20
_UNIT_BYTES: Final = 4096


def run(size: int = _AUTHORIZERS, rounds: int = _ROUNDS) -> Iterator[Row]:
    """The proof of propagation for a fleet of this size, of which a tenth lacks the entry."""
    progress(f"{size:,} authorizers")
    with scratch() as folder, tenant(folder / "data", revoked=0) as filled:
        revocation_id = _furnish(filled, size)
        yield from _proven(filled, revocation_id, size, rounds)
    yield _verified(_REPORTS // 20, rounds)
    yield _judged(REGISTERED_MAX, rounds)


def _judged(size: int, rounds: int) -> Row:
    """What it costs to judge the largest fleet that notes what it reported first (FLEET-31)."""
    now = datetime.now(UTC)
    new = Authorizer.new("svc_azr_bench", Description("gateway"), owner="o", now=now)
    for sequence in range(1, 2 * PAIRS_MAX):
        new = new.after(Heartbeat(sequence, "ab" * 32), now, relay="", is_foreign=False)
    entry = Published(PAIRS_MAX, now, {new.sequence or 0: new.chain})

    def judge(advances: bytes) -> float:
        stored = [replace(new, advances=advances).to_item()] * size
        taken = timed(
            lambda: propagation_model.propagation(map(Authorizer.from_item, stored), entry, now)
        )
        return median(taken().cpu for _ in range(rounds))

    before, after = judge(b""), judge(new.advances)
    name = f"judging {size:,} authorizers, with the times of the curve, of that without"
    return Row(name, after * 1000, "ms", f"{before * 1000:.0f} ms", after / before, goal="≤ 1.1")


def _verified(size: int, rounds: int) -> Row:
    """What of a core the service needs for the signatures of the most reports that come (FLEET-8).

    They are those of the most authorizers of a tenant, in the time in which each reports once.
    """
    tenant_id, key = "svc_tnt_bench", reporter.IdentityKey.new()
    new = Authorizer.new(
        "svc_azr_bench",
        Description("gateway", public_key=key.public_key.hex(), is_proven=True),
        owner="authorizers@bench.svc",
        now=datetime.now(UTC),
    )
    stated = ProvenReport(
        tenant_id=tenant_id,
        authorizer_id=new.id,
        number=1,
        trust=1,
        sequence=1,
        chain=bytes(32),
        verified_at=new.seen_at,
        max_staleness=30,
        allow_when_stale=False,
    )
    beats = [
        Heartbeat(None, signed=SignedStatement(signed["report"], signed["signature"]))
        for signed in (key.signed(replace(stated, number=each)) for each in range(1, size + 1))
    ]

    def verify() -> None:
        for each in beats:
            if not isinstance(proofs.reported(each, new, tenant_id=tenant_id), Heartbeat):
                raise NotMeasured("a report was refused")

    share = median(timed(verify)().cpu for _ in range(rounds)) / size * _REPORTS / _REPORTS_SECONDS
    name = f"signatures of {_REPORTS:,} reports in {_REPORTS_SECONDS} s, of a core"
    return Row(name, share * 100, "%", "1 %", share * 100, goal="≤ 1")


def _proven(filled: Tenant, revocation_id: str, size: int, rounds: int) -> Iterator[Row]:
    watched = _Watched(filled.ports.store)
    ports = replace(filled.ports, store=watched)

    def prove() -> bytes:
        found = propagation.progress_of(ports, filled.operator, revocation_id=revocation_id)
        if found.propagation.unknown != size // 10:
            raise NotMeasured("the proof is wrong")
        return RevocationPropagation.of(found).model_dump_json().encode()

    name = f"proof for {size:,} authorizers"
    taken = [timed(prove)() for _ in range(rounds)]
    watched.units = 0
    sent = len(prove())
    said, against = f"{name}, on one machine", f"{_SECONDS_MAX:.0f} s"
    yield took(said, taken, unit=("s", 1.0), against=against, of=_SECONDS_MAX, goal="≤ 1")
    against = f"{_UNITS_MAX:,}"
    share = watched.units / _UNITS_MAX
    yield Row(f"{name}, read units", watched.units, "units", against, share, goal="≤ 1")
    yield Row(f"{name}, one registration", watched.largest / size, "B")
    yield Row(f"{name}, the response", sent, "B")


def _furnish(filled: Tenant, size: int) -> str:
    """Register the authorizers, and publish a revocation that nine of ten hold; return it."""
    ports, caller = filled.ports, filled.operator
    made, _ = revocations.create(ports, caller, warrant_id="svc_wrt_lost", reason="bench")
    published = publication.publish_feed(ports, caller.tenant_id)
    if published is None:
        raise NotMeasured("the tenant has no feed")
    chain, partition = published.head.signed.chain.hex(), model.authorizers(caller.tenant_id)
    fleet = [_authorizer(ports, number, chain) for number in range(size)]
    changes = [Put(partition.address(each.id), each.to_item(), Expect.ABSENT) for each in fleet]
    for first in range(0, size, MOST_CHANGES):
        ports.store.write(*changes[first : first + MOST_CHANGES])
    return made.id


def _authorizer(ports: Ports, number: int, chain: str) -> Authorizer:
    """An authorizer as our client registers it. Each tenth has not reported the entry yet."""
    now = times.whole(ports.now())
    key = f"{number:064x}"
    name = f"gateway-{number:05}"
    described = Description(name, "rescind-authorizer", "1.0.0", key, is_proven=True)
    owner = "authorizers@bench.svc"
    new = Authorizer.new(ports.new_id(AUTHORIZER), described, owner=owner, key_id="", now=now)
    held = (0, "0" * 64) if number % 10 == 0 else (1, chain)
    number = int(now.timestamp() * 1000)
    beat = Heartbeat(*held, now, max_staleness_seconds=30, number=number, trust=1)
    return new.after(beat, now, relay="", is_foreign=False)


class _Watched(OneByOne):
    """A store that counts the read units of what passes, by DynamoDB's rules.

    `largest` are the bytes of the largest partition that is queried.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store, self._watched)
        self.units = self.largest = 0

    def _watched(self, call: Call) -> Any:
        found = call.complete()
        match call.verb:
            case "get":
                self.units += _units(_size(call.arguments[0], found or {}))
            case "get_many":
                asked = dict.fromkeys(call.arguments[0])
                self.units += sum(_units(_size(each, found.get(each, {}))) for each in asked)
            case "query":
                return self._walked(call.arguments[0], list(found))
        return found

    def _walked(self, partition: Partition, rows: list[StoredRow]) -> Iterator[StoredRow]:
        size = sum(_size(partition.address(row.sk), row.item) for row in rows)
        pages = [_PAGE_BYTES] * (size // _PAGE_BYTES)
        self.units += sum(map(_units, [*pages, size % _PAGE_BYTES]))
        self.largest = max(self.largest, size)
        return iter(rows)


def _size(address: Address, item: Item) -> int:
    return item_size({**encode_address(address), **encode_item(item)})


def _units(size: int) -> int:
    return max(1, math.ceil(size / _UNIT_BYTES))
