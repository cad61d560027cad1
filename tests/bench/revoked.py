"""A tenant with as many revoked warrants as are asked for, in a data folder."""

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

from infra import data_folder
from shared.adapters.local.sqlite_schema import encode_item
from shared.model import revocations as model
from shared.model.callers import Caller
from shared.model.items import Address, Partition, Table
from shared.model.revocations import RevokedWarrant
from shared.operations.changes import revocations
from shared.operations.operator import onboarding
from shared.ports import Ports
from shared.ports.store import Expect, Increment
from tests.infra.folders import opened
from tests.kit.sqlite_files import insert

HANDLE = "bench"


@dataclass(frozen=True)
class Tenant:
    """A tenant on the embedded adapters."""

    ports: Ports
    operator: Caller


@contextmanager
def tenant(folder: Path, *, revoked: int) -> Iterator[Tenant]:
    """A new tenant in a new data folder."""
    data_folder.prepare(folder)
    with opened(folder) as ports:
        onboarding.create_tenant(ports, handle=HANDLE)
        operator = onboarding.operator(ports, handle=HANDLE)
        shards = _insert(folder / "svc.db", operator.tenant_id, revoked)
        for pk, number in shards.items():
            counter = model.repaired_counter_address(Partition(Table.REVOCATIONS, pk))
            ports.store.write(
                Increment(counter, {"count": number, "changes": number}, Expect.ANYTHING)
            )
        yield Tenant(ports, operator)


def revoke(ports: Ports, caller: Caller, names: Iterator[str], number: int) -> None:
    """Revoke so many of the warrants, each as a caller would."""
    for warrant_id in islice(names, number):
        revocations.create(ports, caller, warrant_id=warrant_id, reason="bench")


def warrant_ids(letter: str = "0") -> Iterator[str]:
    """Identifiers as long and as random as those that people use, each once for each letter."""
    for number in count():
        # Numbers in order would be packed, and compared, much faster.
        yield f"svc_wrt_{letter}{hashlib.sha256(b'%d' % number).hexdigest()[:25]}"


def _insert(database: Path, tenant_id: str, number: int) -> Counter[str]:
    """Put so many rows into the store as the adapter encodes them; how many went to each shard.

    Revoking a million warrants one by one takes an hour, and a publication reads no more than this.
    """
    item = encode_item(RevokedWarrant().to_item())
    shards: Counter[str] = Counter()

    def rows() -> Iterator[tuple[Address, str]]:
        for warrant_id in islice(warrant_ids(), number):
            key = model.shard_of(tenant_id, warrant_id).address(warrant_id)
            shards[key.pk] += 1
            yield key, item

    with closing(sqlite3.connect(database)) as connection, connection:
        insert(connection, rows())
    return shards
