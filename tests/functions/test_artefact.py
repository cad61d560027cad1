"""The built artefact in Lambda's runtime interface emulator, from cold start to answer."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest

from infra import data_folder
from shared.model import revocations
from shared.model.callers import Scope
from shared.model.lists import schedule as srl_schedule
from shared.model.revocations import RevokedWarrant
from shared.operations.access import api_keys
from shared.operations.lists import in_force, marks
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.infra.folders import opened
from tests.kit.artefact import Artefact, built
from tests.kit.lambda_events import (
    GROUPS,
    Answer,
    Group,
    Request,
    assert_error,
    load,
    queued,
    streamed,
)
from tests.kit.log_lines import STAGE, metrics
from tests.kit.processes import HOST, ROOT, environment, free_port
from tests.kit.rie import FunctionError, emulator, wait_until_it_listens
from tests.kit.tenants import Tenant

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

# A build, and many processes: part of `make test-all`.
pytestmark = pytest.mark.slow

# What Lambda takes as an answer, in bytes.
ANSWER_LIMIT = 6_291_556


SIGNED, REGENERATE = "/v1/revocations/srl/signed", "/v1/revocations/srl/regenerate"


@pytest.fixture(scope="session")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    return built(tmp_path_factory)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data_folder.prepare(tmp_path)
    return tmp_path


@pytest.fixture
def ports(data: Path) -> Iterator[Ports]:
    with opened(data) as ports:
        yield ports


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_each_function_answers_from_the_artefact(
    artefact: Artefact, data: Path, ports: Ports, group: Group
) -> None:
    """Cold, each function answers both forms of API Gateway's event; without a key, with 401."""
    authorization = (_admin(ports, Tenant.create(ports)),)
    request = Request("GET", group.path, headers=authorization)
    handler = f"functions.{group.name}.handler.handler"
    with emulator(artefact, handler, data_folder.environment(data)) as function:
        for event in (request.http_api(), request.rest_api()):
            answer = Answer.of(function.invoke(event))
            assert (answer.status, "error" in answer.json()) == (200, False)
        anonymous = Answer.of(function.invoke(Request("GET", group.path).http_api()))
        assert_error(anonymous, 401, "unauthorized")


def test_from_the_schedule_over_the_queue_to_the_list(
    artefact: Artefact, data: Path, ports: Ports
) -> None:
    """EventBridge's event queues who is due; SQS's event publishes them, and twice does no harm."""
    tenants = [Tenant.create(ports, handle) for handle in ("acme", "globex")]
    for tenant in tenants:
        tenant.revoke(ports, "svc_wrt_a")
    settings = data_folder.environment(data)
    schedule = "functions.srl_schedule.handler.handler"
    with _sqs(data) as (client, account):
        url = client.create_queue(QueueName="publication")["QueueUrl"]
        queue = {"RESCIND_QUEUE": f"sqs:{url}"}
        with emulator(artefact, schedule, settings | account | queue) as function:
            assert function.invoke(load("schedule")) == {"queued": 2, "late": 0}
        received = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    bodies = [message["Body"] for message in received["Messages"]]
    assert sorted(bodies) == sorted(tenant.id for tenant in tenants)
    with emulator(artefact, "functions.srl_publication.handler.handler", settings) as publication:
        for outcome in ("published", "not due"):
            assert publication.invoke(queued(*bodies))[outcome] == 2
    for tenant in tenants:
        published = tenant.published(ports)
        assert (published.version, published.revoked_ids) == (2, ["svc_wrt_a"])


def test_from_the_stream_to_the_feed(artefact: Artefact, data: Path, ports: Ports) -> None:
    """F223: the event of the stream publishes a change, and twice does no harm."""
    tenants = [Tenant.create(ports, handle) for handle in ("acme", "globex")]
    for tenant in tenants:
        tenant.revoke(ports, "svc_wrt_a")
    event = streamed(*marks.read_versions(ports))
    handler = "functions.feed_publication.handler.handler"
    settings = data_folder.environment(data) | {"RESCIND_STAGE": STAGE}
    with emulator(artefact, handler, settings) as function:
        for outcome in ("published", "nothing new"):
            assert function.invoke(event)[outcome] == 2
        logged = function.logged()
    figures = [metrics(line) for line in logged]
    assert [each["FeedWoken"] for each in figures if "FeedWoken" in each] == [(1, "Count")] * 4
    assert len([each for each in figures if "ChangePublishedSeconds" in each]) == 2
    for tenant in tenants:
        head = in_force.read_feed_head(ports, tenant.id)
        assert head is not None
        assert head.sequence == 1


def test_a_request_is_one_line_of_standard_output(
    artefact: Artefact, data: Path, ports: Ports
) -> None:
    """In Lambda, what is logged is JSON alone: a line a request, another if it failed."""
    tenant = Tenant.create(ports)
    authorization = _admin(ports, tenant)
    request = Request("GET", "/v1/revocations/srl", headers=(authorization,))
    settings = data_folder.environment(data) | {"RESCIND_STAGE": STAGE}
    with emulator(artefact, "functions.srl.handler.handler", settings) as function:
        served = Answer.of(function.invoke(request.http_api()))
        for blob in (data / "blobs" / "srl").rglob("*.json"):
            blob.unlink()
        failed = Answer.of(function.invoke(request.rest_api()))
        output = function.logged()
    assert (served.status, failed.status) == (200, 503)
    first, outage, second = output
    for line, answer in ((first, served), (second, failed)):
        assert line["message"] == "request"
        assert line["request_id"] == answer.headers["x-request-id"]
        assert (line["tenant_id"], line["status"]) == (tenant.id, answer.status)
    assert (first["outcome"], second["outcome"]) == ("ok", "unavailable")
    assert metrics(outage) == {"RequestsUnavailable": (1, "Count")}
    assert authorization[1].split()[1] not in str(output)


def test_a_schedule_without_settings_fails_by_name(artefact: Artefact) -> None:
    """A schedule that was set up wrongly fails, and the runtime is told every missing setting."""
    with (
        emulator(artefact, "functions.srl_schedule.handler.handler", {}) as function,
        pytest.raises(FunctionError) as failed,
    ):
        function.invoke(load("schedule"))
    assert failed.value.report["errorType"] == "InvalidSettings"
    for name in ("RESCIND_STORE", "RESCIND_BLOBS", "RESCIND_KEY_WRAPPER"):
        assert name in failed.value.report["errorMessage"]


def test_a_list_past_the_limit_is_never_an_answer(
    artefact: Artefact, data: Path, ports: Ports
) -> None:
    """F27: a list that Lambda would refuse to pass on is built there, and answered with a 307.

    F123: the next list after a request for gzip is short enough packed, and passes in base64.
    """
    tenant = Tenant.create(ports)
    authorization = (_admin(ports, tenant),)
    _revoke_many(ports, tenant, 75_000)
    settings = data_folder.environment(data)
    with emulator(artefact, "functions.srl.handler.handler", settings) as function:
        regenerate = Request("POST", REGENERATE, headers=authorization).http_api()
        published = Answer.of(function.invoke(regenerate))
        assert published.json()["revocation_count"] == 75_000
        plain, packed = (
            Request("GET", SIGNED, headers=(*authorization, ("Accept-Encoding", each))).http_api()
            for each in ("identity", "gzip")
        )
        for signed in (plain, packed):
            answer = Answer.of(function.invoke(signed))
            assert (answer.status, answer.body) == (307, b"")
        assert Answer.of(function.invoke(regenerate)).status == 200
        answer = Answer.of(function.invoke(packed))
        assert (answer.status, answer.headers["content-encoding"]) == (200, "gzip")
        body = json.loads(gzip.decompress(answer.body))
        assert len(body["payload"]["RevokedIDs"]) == 75_000
    blobs = [path for path in (data / "blobs").rglob("*") if path.is_file()]
    assert max(path.stat().st_size for path in blobs) > ANSWER_LIMIT


def _admin(ports: Ports, tenant: Tenant) -> tuple[str, str]:
    key = api_keys.create(ports, tenant.operator, name="key", scopes=(Scope.ADMIN,))
    return "Authorization", f"Bearer {key.secret}"


def _revoke_many(ports: Ports, tenant: Tenant, number: int) -> None:
    """Revoke many warrants at once, as records that publication reads."""
    item = RevokedWarrant().to_item()
    names = (f"svc_wrt_{each:026d}" for each in range(number))
    # So many marks that the list is made from all records.
    while batch := list(islice(names, 50)):
        keys = (
            revocations.shard_of(tenant.id, warrant_id).address(warrant_id) for warrant_id in batch
        )
        ports.store.write(
            *(Put(key, item, Expect.ABSENT) for key in keys),
            *(
                Put(
                    srl_schedule.warrant_mark_address(tenant.id, each),
                    {"version": 1},
                    Expect.ABSENT,
                )
                for each in batch
            ),
        )


@contextmanager
def _sqs(folder: Path) -> Iterator[tuple[SQSClient, dict[str, str]]]:
    """SQS in a process of its own: a client of it, and the settings with which others find it."""
    port = free_port()
    account = {
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "pretended",
        "AWS_ENDPOINT_URL": f"http://{HOST}:{port}",
    }
    process = subprocess.Popen(
        [ROOT / ".tools" / "ministack" / "bin" / "ministack"],
        cwd=folder,
        env=environment({"GATEWAY_PORT": str(port), "BIND_HOST": HOST}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_it_listens(process, port)
        client = boto3.client(
            "sqs",
            region_name="eu-west-1",
            endpoint_url=account["AWS_ENDPOINT_URL"],
            aws_access_key_id=account["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=account["AWS_SECRET_ACCESS_KEY"],
        )
        with closing(client):
            yield client, account
    finally:
        process.terminate()
        process.wait(timeout=60)
