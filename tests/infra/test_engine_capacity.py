"""What a check reads, as another engine of DynamoDB's interface counts it."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.adapters import dynamodb
from shared.adapters.dynamodb import DynamoStore
from shared.operations.changes import revocations
from shared.ports import Ports
from tests.infra.engine import MARKS, the_engine
from tests.kit.aws import create_tables, pretend_credentials, table_prefix
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock, embedded
from tests.operations.revoked_keys import fill

_STAGE = "capacity"
_READS = ("GetItem", "BatchGetItem", "Query")

pytestmark = MARKS


class Capacity:
    """Adds up the read units of which the engine tells."""

    def __init__(self, client: Any) -> None:
        self.units = 0.0
        for verb in _READS:
            client.meta.events.register(f"provide-client-params.dynamodb.{verb}", self._ask)
            client.meta.events.register(f"after-call.dynamodb.{verb}", self._add)

    def _ask(self, params: dict[str, Any], **_: Any) -> dict[str, Any]:
        return params | {"ReturnConsumedCapacity": "TOTAL"}

    def _add(self, parsed: dict[str, Any], **_: Any) -> None:
        consumed = parsed["ConsumedCapacity"]
        self.units += sum(
            each["CapacityUnits"] for each in ([consumed] if "TableName" in consumed else consumed)
        )


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Ports, Capacity]]:
    with ExitStack() as stack:
        group, endpoint = the_engine(tmp_path)
        stack.callback(group.kill)
        group.start()
        pretend_credentials(monkeypatch)
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        client = stack.enter_context(closing(dynamodb.connect()))
        create_tables(client, stage=_STAGE)
        store = DynamoStore(client, table_prefix=table_prefix(_STAGE))
        yield replace(embedded(tmp_path, Clock()), store=store), Capacity(client)


def test_a_check_takes_three_units_whatever_was_revoked(engine: tuple[Ports, Capacity]) -> None:
    """F126b: On another engine, too, a check reads three units at most for its verdict."""
    ports, capacity = engine
    tenant = Tenant.create(ports)
    key, other = tenant.key(ports), tenant.key(ports)
    revoked, holds = tenant.sign(ports, key), tenant.sign(ports, other)
    tenant.revoke_key(ports, key)
    for more in (0, 5000):
        fill(ports, tenant, more)
        for warrant_id, units in (("svc_wrt_unknown", 2), (holds, 3), (revoked, 3)):
            before = capacity.units
            verdict = revocations.check(ports, tenant.operator, warrant_id=warrant_id)
            assert verdict.revoked == (warrant_id == revoked)
            assert capacity.units - before == units
