"""A function of this project under Azure Functions, in the ASGI adapter of the vendor."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import azure.functions
import pytest

from functions.revocations import handler
from infra import data_folder
from shared import wiring
from shared.operations.operator import onboarding
from tests.kit.worlds import close

W1 = "svc_wrt_1"


@pytest.fixture
def on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The secret of an admin key, in a store that the environment names."""
    data_folder.prepare(tmp_path)
    for name, value in data_folder.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    wiring.from_environment.cache_clear()
    ports = wiring.from_environment()
    _, created = onboarding.create_tenant(ports, handle="acme")
    yield created.secret
    wiring.from_environment.cache_clear()
    close(ports)


def call(method: str, path: str, secret: str, body: Any = None) -> tuple[int, Any]:
    """What a trigger for HTTP answers; its code is `main = AsgiMiddleware(app).main`."""
    request = azure.functions.HttpRequest(
        method,
        f"https://rescind.azurewebsites.net{path}",
        headers={"authorization": f"Bearer {secret}", "content-type": "application/json"},
        body=b"" if body is None else json.dumps(body).encode(),
    )
    middleware = azure.functions.AsgiMiddleware(handler.app)  # type: ignore[no-untyped-call]
    answer = asyncio.run(middleware.handle_async(request))
    return answer.status_code, json.loads(answer.get_body())


def test_an_endpoint_group_runs_under_another_vendor(on_this_machine: str) -> None:
    """A warrant is revoked and checked, and errors keep their form, without an adapter of ours."""
    created = call("POST", "/v1/revocations", on_this_machine, {"warrant_id": W1, "reason": "r"})
    assert created[0] == 201
    assert call("GET", f"/v1/revocations/check?warrant_id={W1}", on_this_machine)[1]["revoked"]
    status, error = call("GET", f"/v1/revocations/check?warrant_id={W1}", "svc_wrong")
    assert (status, error["error"]["code"]) == (401, "invalid_api_key")
    assert call("GET", "/v1/keys", on_this_machine)[0] == 404
