"""The OpenAPI document says what really happens (and a fuzzer looks for where it does not)."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.testclient import TestClient

from infra import data_folder, local_app, openapi
from infra.routers import ROUTERS
from shared import wiring
from shared.operations import onboarding
from tests.worlds import close


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The admin key of a tenant behind the local application."""
    folder = tmp_path_factory.mktemp("data")
    data_folder.prepare(folder)
    with pytest.MonkeyPatch.context() as environment:
        for name, value in data_folder.environment(folder).items():
            environment.setenv(name, value)
        wiring.from_environment.cache_clear()
        ports = wiring.from_environment()
        yield onboarding.create_tenant(ports, handle="fuzzed")[1].secret
        close(ports)
        wiring.from_environment.cache_clear()


# Left out: positive_data_acceptance. A schema cannot say that a cursor is ours, that a time lies
# ahead or that a parent exists.
schema = schemathesis.openapi.from_asgi("/openapi.json", local_app.app)


@pytest.mark.slow
@schema.parametrize()
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_api_is_as_documented(case: Any, secret: str) -> None:
    """Whatever is sent, the answer is one that the document has for it."""
    case.call_and_validate(
        headers={"Authorization": f"Bearer {secret}"}, excluded_checks=[positive_data_acceptance]
    )


def test_the_kept_document_is_current() -> None:
    """What is in docs/ is what the code says; `make openapi` writes it anew."""
    assert openapi.PATH.read_text(encoding="utf-8") == openapi.text()


def test_descriptions_are_the_same_on_every_python() -> None:
    """F33: no description has the indentation of the code; Python 3.13 removes it by itself."""
    for path in openapi.document()["paths"].values():
        for described in path.values():
            lines = described["description"].splitlines()
            assert lines == [line.strip() for line in lines]


def test_every_operation_is_complete() -> None:
    """Scopes, the headers of every response, an error body and examples for every error."""
    operations = [
        described for path in openapi.document()["paths"].values() for described in path.values()
    ]
    assert len(operations) == sum(len(router.routes) for router in ROUTERS)
    errors = openapi.document()["components"]["responses"]
    for described in operations:
        assert described["x-scopes"]
        assert {"400", "401", "413", "415", "429", "500", "503"} <= set(described["responses"])
        for response in described["responses"].values():
            error = errors.get(response.get("$ref", "").split("/")[-1])
            assert "X-Request-Id" in (error or response)["headers"]
            assert error is None or error["content"]["application/json"]["examples"]


def test_every_body_has_an_example() -> None:
    """A reader sees what to send; the fuzzer sends it too."""
    document = openapi.document()
    bodies = [
        described["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        for path in document["paths"].values()
        for described in path.values()
        if "requestBody" in described
    ]
    assert bodies
    for reference in bodies:
        assert document["components"]["schemas"][reference.split("/")[-1]]["examples"]


def test_the_documentation_needs_no_network() -> None:
    """Everything that /docs loads comes from this server."""
    client = TestClient(local_app.app)
    page = client.get("/docs").text
    assets = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert assets
    for asset in assets:
        assert asset.startswith("/")
        assert client.get(asset).status_code == 200
    assert json.loads(client.get("/openapi.json").text)["openapi"].startswith("3.1")
