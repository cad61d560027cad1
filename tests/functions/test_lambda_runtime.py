"""The functions in the Lambda runtime's own client, as processes."""

from pathlib import Path

import pytest

from infra import data_folder
from shared.model.callers import Scope
from shared.operations import api_keys
from tests.infra.folders import opened
from tests.lambda_events import GROUPS, Answer, Group, Request, assert_error, load, queued
from tests.lambda_runtime import FunctionError, runtime
from tests.log_lines import STAGE, metrics, read
from tests.operations.tenants import Tenant

# Many processes, or many requests: part of `make test-all`.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_each_function_runs_in_the_lambda_runtime(tmp_path: Path, group: Group) -> None:
    """The runtime's own client loads the function by its name and gets its answers."""
    data_folder.prepare(tmp_path)
    with opened(tmp_path) as ports:
        tenant = Tenant.create(ports)
        key = api_keys.create(ports, tenant.operator, name="key", scopes=(Scope.ADMIN,))
    authorization = (("Authorization", f"Bearer {key.secret}"),)
    request = Request("GET", group.path, headers=authorization)
    settings = data_folder.environment(tmp_path)
    with runtime(f"functions.{group.name}.handler.handler", settings) as function:
        for event in (request.http_api(), request.rest_api()):
            answer = Answer.of(function.invoke(event))
            assert (answer.status, "error" in answer.json()) == (200, False)
        stranger = Answer.of(function.invoke(Request("GET", group.path).http_api()))
        assert_error(stranger, 401, "unauthorized")


def test_the_worker_runs_in_the_lambda_runtime(tmp_path: Path) -> None:
    """The runtime's own client gives the worker its messages; what is due is published, once."""
    data_folder.prepare(tmp_path)
    with opened(tmp_path) as ports:
        tenant = Tenant.create(ports)
        tenant.revoke(ports, "svc_wrt_a")
    settings = data_folder.environment(tmp_path) | {"SVC_STAGE": STAGE}
    with runtime("functions.srl_publication.handler.handler", settings) as function:
        assert function.invoke(queued(tenant.id))["published"] == 1
        assert function.invoke(queued(tenant.id, "nobody"))["failed"] == 1
        told = [read(line) for line in function.output.read_text().splitlines()]
    assert [line.get("outcome") for line in told] == ["published", "not due", None]
    assert metrics(told[0])["Published"] == (1, "Count")
    assert metrics(told[2]) == {"PublicationFailed": (1, "Count")}
    with opened(tmp_path) as ports:
        assert tenant.published(ports).revoked_ids == ["svc_wrt_a"]


def test_a_request_is_one_line_of_standard_output(tmp_path: Path) -> None:
    """In Lambda, what is logged is JSON alone: a line a request, another where it failed."""
    data_folder.prepare(tmp_path)
    with opened(tmp_path) as ports:
        tenant = Tenant.create(ports)
        key = api_keys.create(ports, tenant.operator, name="key", scopes=(Scope.ADMIN,))
    headers = (("Authorization", f"Bearer {key.secret}"),)
    request = Request("GET", "/v1/revocations/srl", headers=headers)
    settings = data_folder.environment(tmp_path) | {"SVC_STAGE": STAGE}
    with runtime("functions.srl.handler.handler", settings) as function:
        served = Answer.of(function.invoke(request.http_api()))
        for blob in (tmp_path / "blobs" / "srl").rglob("*.json"):
            blob.unlink()
        failed = Answer.of(function.invoke(request.rest_api()))
        told = [read(line) for line in function.output.read_text().splitlines()]
    assert (served.status, failed.status) == (200, 503)
    first, outage, second = told
    for line, answer in ((first, served), (second, failed)):
        assert line["message"] == "request"
        assert line["request_id"] == answer.headers["x-request-id"]
        assert (line["tenant_id"], line["status"]) == (tenant.id, answer.status)
    assert (first["outcome"], second["outcome"]) == ("ok", "unavailable")
    assert metrics(outage) == {"Unavailable": (1, "Count")}
    assert key.secret not in str(told)


def test_a_schedule_without_a_queue_fails_by_name(tmp_path: Path) -> None:
    """The runtime's own client gives the schedule its event, and is told what it lacks."""
    data_folder.prepare(tmp_path)
    settings = data_folder.environment(tmp_path)
    with (
        runtime("functions.srl_schedule.handler.handler", settings) as function,
        pytest.raises(FunctionError, match="SVC_QUEUE is not set"),
    ):
        function.invoke(load("schedule"))


def test_a_schedule_without_settings_fails_by_name() -> None:
    """A schedule that was set up wrongly fails, and the runtime is told every missing setting."""
    with (
        runtime("functions.srl_schedule.handler.handler", {}) as function,
        pytest.raises(FunctionError) as failed,
    ):
        function.invoke(load("schedule"))
    assert failed.value.report["errorType"] == "InvalidSettings"
    for name in ("SVC_STORE", "SVC_BLOBS", "SVC_KEYS"):
        assert name in failed.value.report["errorMessage"]


def test_a_function_that_is_not_there_is_told_at_its_start() -> None:
    """A name under which there is no function fails the start, before any event is taken."""
    with (
        runtime("functions.nothing.handler.handler", {}) as function,
        pytest.raises(FunctionError) as failed,
    ):
        function.invoke(load("schedule"))
    assert failed.value.report["errorType"] == "Runtime.ImportModuleError"
