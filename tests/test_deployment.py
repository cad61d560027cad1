"""What a store says of the deployment that it belongs to, and a process that changes nothing."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

import pytest

from infra import data_folder
from shared import wiring
from shared.adapters import fenced
from shared.adapters.aws.dynamodb_buckets import DynamoBuckets
from shared.errors import InvalidSettings, ReadOnly, StaleProcess, Unavailable
from shared.model import deployment as model
from shared.model.api_keys import usage
from shared.model.deployment import SCHEMA, Deployment, DeploymentPart
from shared.model.items import Address, Item, Partition, Table
from shared.operations.base import tenants
from shared.operations.lists import publication
from shared.operations.operator import deployment, failover, onboarding
from shared.ports import Ports
from shared.ports.store import ColumnPage, Delete, Expect, Put, Store
from shared.ports.token_buckets import UsageDelta
from shared.settings import Mode
from shared.settings import mode as load_mode
from tests.kit.api import Client, serve
from tests.kit.aws import aws
from tests.kit.faults import Script, scripted
from tests.kit.tenants import item_at
from tests.kit.worlds import Clock, embedded

WARRANT = "svc_wrt_00000000000000000000000000000001"


@pytest.fixture(params=["sqlite", "dynamodb"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Settings that name stores of one engine."""
    data_folder.prepare(tmp_path)
    here = data_folder.environment(tmp_path)
    if request.param == "sqlite":
        yield here
        return
    with aws() as account:
        yield here | {"RESCIND_STORE": f"dynamodb:{account.table_prefix}"}


def _says(settings: dict[str, str], **fields: Any) -> None:
    with closing(wiring.assemble(wiring.settings(settings))) as ports:
        item = replace(Deployment(), **fields).to_item()
        ports.store.write(Put(model.ADDRESS, item, Expect.ANYTHING))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"schema": SCHEMA + 1}, f"has schema {SCHEMA + 1}; this release supports schemas"),
        ({"part": DeploymentPart.MOVED, "moved_to": "a"}, "was migrated to another store"),
        (
            {"part": DeploymentPart.RECEIVING, "receipt": "a"},
            "a migration to this store is not complete",
        ),
    ],
)
def test_a_store_that_must_not_be_used_is_refused(
    settings: dict[str, str], fields: dict[str, Any], said: str
) -> None:
    """F402a, OPS-12, OPS-13: No process uses a store of a newer schema, or one not in charge."""
    _says(settings, **fields)
    with pytest.raises(InvalidSettings, match=said):
        wiring.build(wiring.settings(settings))


def test_a_store_in_charge_is_used(settings: dict[str, str]) -> None:
    """OPS-12: A store of this schema, or of an earlier one, is used, and then marked once."""
    with closing(wiring.build(wiring.settings(settings))) as ports:
        assert deployment.read_deployment(ports).version == 0
        for _ in range(2):
            deployment.mark_schema(ports)
            assert deployment.read_deployment(ports) == Deployment(schema=SCHEMA, version=1)
    _says(settings, schema=0, version=4)
    with closing(wiring.build(wiring.settings(settings))) as ports:
        deployment.mark_schema(ports)
        assert deployment.read_deployment(ports) == Deployment(schema=SCHEMA, version=5)


def test_a_store_that_does_not_answer_is_not_taken_for_one_in_charge(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F402b: If the store does not say whether it is in charge, the process does not use it."""
    assembled = wiring.assemble(wiring.settings(settings))

    def fail(_address: Address) -> None:
        raise Unavailable

    monkeypatch.setattr(assembled.store, "get", fail)
    monkeypatch.setattr(wiring, "assemble", lambda _settings: assembled)
    with pytest.raises(Unavailable):
        wiring.build(wiring.settings(settings))


@pytest.mark.parametrize("item", [False, True], ids=["no item", "an item"])
def test_a_new_tenant_raises_no_schema(settings: dict[str, str], item: bool) -> None:
    """F585e, OPS-12: Two releases may work on one store until an operator raises its schema.

    A tenant that is created meanwhile does not.
    """
    with closing(wiring.build(wiring.settings(settings))) as ports:
        onboarding.create_tenant(ports, handle="acme")
        assert deployment.read_deployment(ports).schema == SCHEMA
        earlier = Put(model.ADDRESS, Deployment(schema=SCHEMA - 1).to_item(), Expect.PRESENT)
        ports.store.write(earlier if item else Delete(model.ADDRESS, Expect.PRESENT))
        before = deployment.read_deployment(ports)
        onboarding.create_tenant(ports, handle="globex")
        assert deployment.read_deployment(ports).schema == before.schema

        deployment.mark_schema(ports)
        assert deployment.read_deployment(ports).schema == SCHEMA


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process asks the store before each call whether it may use it."""
    monkeypatch.setattr(fenced, "AGE_SECONDS_MAX", -1.0)


@pytest.mark.usefixtures("often")
def test_a_running_process_stops_using_data_of_a_newer_release(settings: dict[str, str]) -> None:
    """F585a, OPS-12: A running process uses no data of a schema that it does not know.

    Each request gets a 503: nothing is changed, and no warrant is called "not revoked".
    """
    with closing(wiring.build(wiring.settings(settings))) as ports:
        secret = onboarding.create_tenant(ports, handle="acme")[1].secret
        caller, body = Client(serve(ports), secret), {"warrant_id": WARRANT, "reason": "stolen"}
        made = caller.post("/v1/revocations", json=body).json()
        _says(settings, schema=SCHEMA + 1)
        answers = [
            caller.get("/v1/revocations/check", params={"warrant_id": WARRANT}),
            caller.delete(f"/v1/revocations/{made['id']}"),
            caller.post("/v1/revocations", json=body | {"warrant_id": "svc_wrt_other"}),
        ]
        assert {each.status_code for each in answers} == {503}
        assert {each.headers["retry-after"] for each in answers} == {"30"}
        with pytest.raises(StaleProcess):
            publication.publish_due(ports)
        _says(settings)
        check = caller.get("/v1/revocations/check", params={"warrant_id": WARRANT})
        assert check.json()["revoked"] is True


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("mode", ["open", "read-only"])
def test_a_running_process_does_not_use_a_store_that_was_left(
    settings: dict[str, str], mode: str
) -> None:
    """F585b, OPS-13: A running process neither changes nor reads a store that was moved.

    It would say that what is revoked in the other store is not, and that nothing is newer.
    """
    with closing(wiring.build(wiring.settings(settings))) as ports:
        onboarding.create_tenant(ports, handle="acme")
    with closing(wiring.build(wiring.settings(settings | {"RESCIND_MODE": mode}))) as ports:
        assert [each.handle for each in tenants.directory(ports)] == ["acme"]
        _says(settings, part=DeploymentPart.MOVED, moved_to="a")
        with pytest.raises(StaleProcess):
            next(iter(tenants.directory(ports)))
        with pytest.raises(StaleProcess):
            ports.store.write(Delete(model.ADDRESS, Expect.PRESENT))


def test_a_process_asks_once_for_all_its_threads(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F585c, OPS-12: However many calls a process makes, it asks once in five seconds."""
    assembled = wiring.assemble(wiring.settings(settings))
    asked = []

    class Counted:
        def __getattr__(self, name: str) -> Any:
            return getattr(assembled.store, name)

        def get(self, address: Address) -> Item | None:
            asked.append(address)
            return assembled.store.get(address)

    with closing(assembled):
        moment = [0.0, 0.0]
        monkeypatch.setattr(fenced, "_moment", lambda: tuple(moment))
        store = fenced.DeploymentFence(cast("Store", Counted()), Deployment()).store
        other = Address(Table.KEYS, "other")
        store.get(other)
        assert asked == [other]
        with ThreadPoolExecutor(8) as pool:
            moment[:] = [6.0, 6.0]
            list(pool.map(store.get, [other] * 32))
        assert asked.count(model.ADDRESS) == 1
        # A process that was frozen counts no time by the one clock, and much by the other.
        for later in ([6.0, 12.0], [12.0, 12.0]):
            moment[:] = later
            store.get(other)
        assert asked.count(model.ADDRESS) == 3


@pytest.mark.usefixtures("often")
def test_a_store_that_does_not_say_is_not_used(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F585d: If the store does not say later on whether it may be used, calls fail."""
    assembled = wiring.assemble(wiring.settings(settings))
    monkeypatch.setattr(wiring, "assemble", lambda _settings: assembled)
    with closing(wiring.build(wiring.settings(settings))) as ports:

        def fail(_address: Address) -> None:
            raise Unavailable

        monkeypatch.setattr(assembled.store, "get", fail)
        with pytest.raises(Unavailable):
            ports.store.write(Put(model.ADDRESS, {}, Expect.ANYTHING))
    monkeypatch.undo()


def _frozen(settings: dict[str, str]) -> Ports:
    return wiring.build(wiring.settings(settings | {"RESCIND_MODE": "read-only"}))


def test_a_read_only_process_reads_and_never_writes(settings: dict[str, str]) -> None:
    """F403a, OPS-14: A read-only process answers what it can read, and each write is refused."""
    with closing(wiring.build(wiring.settings(settings))) as ports:
        made, created = onboarding.create_tenant(ports, handle="acme")
    address = created.api_key.address
    with closing(_frozen(settings)) as ports:
        partition = Partition(address.table, address.pk)
        item = item_at(ports, address)
        assert ports.store.get_many([address]) == {address: item}
        assert [each.sk for each in ports.store.query(partition)] == [address.sk]
        assert ports.store.count(partition) == 1
        assert [*ports.store.column(partition, "name")] == [
            ColumnPage([address.sk], {address.sk: "admin"})
        ]
        assert (address, item) in [*ports.store.everything(Table.KEYS)]
        before = {table: dict(ports.store.everything(table)) for table in Table}
        with pytest.raises(ReadOnly):
            onboarding.mint_admin_key(ports, handle="acme")
        with pytest.raises(ReadOnly):
            onboarding.create_tenant(ports, handle="globex")
        assert before == {table: dict(ports.store.everything(table)) for table in Table}
    assert made.handle == "acme"


def test_requests_to_a_read_only_process(settings: dict[str, str]) -> None:
    """F403b, OPS-14: While the service is read-only, checks are answered and changes get a 503."""
    with closing(wiring.build(wiring.settings(settings))) as ports:
        secret = onboarding.create_tenant(ports, handle="acme")[1].secret
    with closing(_frozen(settings)) as ports:
        caller = Client(serve(ports), secret)
        checked = caller.get("/v1/revocations/check", params={"warrant_id": WARRANT})
        assert (checked.status_code, checked.json()["revoked"]) == (200, False)
        body = {"warrant_id": WARRANT, "reason": "stolen"}
        refused = caller.post("/v1/revocations", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
        assert refused.headers["retry-after"] == "30"


def test_the_mode_is_one_of_two() -> None:
    """OPS-14: A wrong mode is a wrong setting: it is not taken for `open`."""
    assert load_mode({}) is Mode.OPEN
    with pytest.raises(
        InvalidSettings, match="RESCIND_MODE is not valid; set it to open or read-only"
    ):
        load_mode({"RESCIND_MODE": "readonly"})


# --- a standby ---

HERE: Final = {"AWS_REGION": "eu-west-1"}
THERE: Final = {"AWS_REGION": "eu-central-1", "RESCIND_MODE": Mode.STANDBY.value}


@pytest.mark.parametrize(
    ("process", "region", "writes"),
    [
        (HERE, None, True),
        (HERE, "eu-west-1", True),
        (HERE, "eu-central-1", False),
        (HERE, failover.NOBODY, False),
        (THERE, None, False),
        (THERE, "eu-west-1", False),
        (THERE, "eu-central-1", True),
        (THERE, failover.NOBODY, False),
        ({"RESCIND_MODE": Mode.STANDBY.value}, None, False),
        ({}, None, True),
    ],
)
def test_one_region_at_most_is_written_in(
    settings: dict[str, str], process: dict[str, str], region: str | None, writes: bool
) -> None:
    """OPS-25, F650a: Of two regions one writes: that which the store names, else no standby."""
    _says(settings, region=region)
    chosen = {name: value for name, value in settings.items() if not name.startswith("AWS_")}
    with closing(wiring.build(wiring.settings(chosen | process))) as ports:
        assert ports.is_in_charge() is writes
        probe = Put(Address(Table.KEYS, "probe"), {}, Expect.ANYTHING)
        with nullcontext() if writes else pytest.raises(ReadOnly):
            ports.store.write(probe)


@pytest.mark.slow_on("dynamodb")
@pytest.mark.usefixtures("often")
def test_a_standby_answers_and_changes_nothing(settings: dict[str, str]) -> None:
    """OPS-25, F650b: A standby answers checks and serves lists, and refuses changes with 503.

    As soon as the store names its region it takes them.
    """
    with closing(wiring.build(wiring.settings(settings))) as ports:
        tenant, created = onboarding.create_tenant(ports, handle="acme")
        first = Client(serve(ports), created.secret)
        body = {"warrant_id": WARRANT, "reason": "stolen"}
        assert first.post("/v1/revocations", json=body).is_success
    with closing(wiring.build(wiring.settings(settings | THERE))) as ports:
        caller = Client(serve(ports), created.secret)
        check = caller.get("/v1/revocations/check", params={"warrant_id": WARRANT})
        assert (check.status_code, check.json()["revoked"]) == (200, True)
        assert caller.get("/v1/revocations/srl").is_success
        refused = caller.post("/v1/revocations", json=body | {"warrant_id": "svc_wrt_b"})
        assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
        used = ports.store.get(usage(tenant.tenant_id).address(created.api_key.id))
        ports.usage.add(UsageDelta(tenant.tenant_id, created.api_key.id, 1, ports.now()))
        assert ports.store.get(usage(tenant.tenant_id).address(created.api_key.id)) == used
        _says(settings, region="eu-central-1")
        assert caller.post("/v1/revocations", json=body | {"warrant_id": "svc_wrt_b"}).is_success


def test_an_answer_of_a_standby_is_as_old_as_its_list(tmp_path: Path, clock: Clock) -> None:
    """OPS-25, F650c: `Age` of a standby counts from before the list that arrived was issued.

    When that list has expired, a check is refused: it would miss what was revoked since.
    """
    ports = replace(embedded(tmp_path, clock), is_in_charge=lambda: False)
    _, created = onboarding.create_tenant(ports, handle="acme")
    caller = Client(serve(ports), created.secret)
    clock.advance(minutes=10)
    answer = caller.get("/v1/revocations/srl")
    assert answer.headers["age"] == str(11 * 60)
    check = {"params": {"warrant_id": WARRANT}}
    assert caller.get("/v1/revocations/check", **check).json()["revoked"] is False
    clock.advance(minutes=50)
    assert caller.get("/v1/revocations/check", **check).status_code == 503
    body = {"warrant_ids": [WARRANT]}
    assert caller.post("/v1/revocations/check-batch", json=body).status_code == 503


@pytest.fixture
def standby(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Script:
    """The calls of a standby, whose tenant has had no list for two hours."""
    plain = embedded(tmp_path, clock)
    onboarding.create_tenant(plain, handle="acme")
    clock.advance(hours=2)
    calls = Script()
    ports = replace(scripted(plain, calls), is_in_charge=lambda: False)
    monkeypatch.setattr(wiring, "from_environment", lambda: ports)
    return calls


@pytest.mark.parametrize(
    ("module", "event"),
    [
        (
            "feed_publication.handler",
            {"Records": [{"dynamodb": {"Keys": {"sk": {"S": "svc_tnt_a#00"}}}}]},
        ),
        ("srl_publication.handler", {"Records": [{"body": "svc_tnt_a"}]}),
        ("transparency_log.audit_log_sealing_handler", {}),
        ("trust.trust_renewal_handler", {}),
        ("webhooks.webhook_delivery_handler", {}),
    ],
)
def test_the_functions_of_a_standby_do_nothing(standby: Script, module: str, event: Any) -> None:
    """OPS-25, F650d: What streams, queues and schedules call does nothing on a standby."""
    handler = import_module(f"functions.{module}").handler
    assert not any(handler(event, None).values())
    assert standby.calls == []


def test_the_schedule_of_a_standby_says_whether_lists_arrive(standby: Script) -> None:
    """OPS-25, F650f: The schedule of a standby reports late lists, and writes nothing."""
    schedule = import_module("functions.srl_schedule.handler")
    assert schedule.handler({}, None) == {"queued": 0, "late": 1}
    assert "write" not in standby.calls


def test_the_buckets_of_a_standby_are_its_own() -> None:
    """F650e: The rate limit of a standby takes no tokens from that of the region in charge."""
    with aws() as account:
        for region in ("", "eu-central-1"):
            buckets = DynamoBuckets(
                account.dynamodb, table_prefix=account.table_prefix, region=region
            )
            buckets.lease("svc_tnt_a", 5, now=1_800_000_000_000)
        found = account.dynamodb.scan(TableName=f"{account.table_prefix}keys")["Items"]
        named = sorted(each["pk"]["S"] for each in found)
        assert named == ["svc_tnt_a#bucket", "svc_tnt_a#eu-central-1#bucket"]
