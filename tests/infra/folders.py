"""Data folders, looked into past the server."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest

from infra import data_folder
from shared import wiring
from shared.model import revocations as model
from shared.model.lists import schedule as srl_schedule
from shared.model.revocations import RevokedWarrant
from shared.model.warrants import WarrantState, warrant_address
from shared.ports import Ports
from shared.ports.store import Change, Expect, Increment, Put
from tests.kit.worlds import close


@contextmanager
def opened(data: Path) -> Iterator[Ports]:
    """The ports on a data folder."""
    ports = wiring.build(wiring.settings(data_folder.environment(data)))
    try:
        yield ports
    finally:
        close(ports)


@contextmanager
def chosen(settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Ports]:
    """The ports that handlers find, which these settings in the environment choose."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    wiring.from_environment.cache_clear()
    ports = wiring.from_environment()
    yield ports
    wiring.from_environment.cache_clear()
    close(ports)


def store_revocations(ports: Ports, tenant_id: str, many: int) -> list[str]:
    """Store revoked warrants with the longest identifiers, which are returned, sorted.

    The next list is made from all records.
    """
    warrant_ids = [f"svc_wrt_{number:064d}" for number in range(many)]
    changes = iter(_revocations(tenant_id, warrant_ids))
    while some := list(islice(changes, 99)):
        ports.store.write(*some)
    counter = model.repaired_counter_address(model.shards(tenant_id)[0])
    amounts = {"count": many, "changes": many}
    ports.store.write(Increment(counter, amounts, Expect.ANYTHING))
    return warrant_ids


def _revocations(tenant_id: str, warrant_ids: list[str]) -> Iterator[Change]:
    item, at = RevokedWarrant().to_item(), datetime.now(UTC).replace(microsecond=0)
    for warrant_id in warrant_ids:
        standing = (
            WarrantState().with_revocation("svc_rev_a", at=at, reason="s", ends_at=None).to_item()
        )
        yield Put(warrant_address(tenant_id, warrant_id), standing, Expect.ABSENT)
        yield Put(model.shard_of(tenant_id, warrant_id).address(warrant_id), item, Expect.ABSENT)
        # So many marks that the list is made from all records.
        yield Put(
            srl_schedule.warrant_mark_address(tenant_id, warrant_id), {"version": 1}, Expect.ABSENT
        )
