"""A domain of its own: the path below which API Gateway serves the API is no part of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from functions.signing_keys import handler as signing_keys
from infra import data_folder
from shared.errors import InvalidSettings
from shared.operations.operator import onboarding
from shared.web.app import create_app, lambda_handler
from tests.infra.folders import chosen
from tests.kit.lambda_events import FORMATS, Answer, Caller, Event, Format, Request, assert_error
from tests.sam.tool import reading

SETTING = "RESCIND_BASE_PATH"


def http_api_without_the_mapping(request: Request) -> Event:
    """Format 2.0 as AWS describes it: `rawPath` does not have the mapping, the context has."""
    event = request.http_api()
    event["rawPath"] = event["rawPath"].removeprefix("/team/auth").removeprefix("/auth")
    return event


each_format = pytest.mark.parametrize(
    "form", [*FORMATS, http_api_without_the_mapping], ids=lambda form: form.__name__
)


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An admin key of the one tenant of what the environment names."""
    data_folder.prepare(tmp_path / "data")
    with chosen(data_folder.environment(tmp_path / "data"), monkeypatch) as ports:
        _, created = onboarding.create_tenant(ports, handle="acme")
        yield created.secret


@each_format
@pytest.mark.parametrize("base_path", ["auth", "team/auth"])
def test_the_api_is_below_its_base_path(
    secret: str, monkeypatch: pytest.MonkeyPatch, base_path: str, form: Format
) -> None:
    """F106a: The API works below its base path and at the address of API Gateway."""
    monkeypatch.setenv(SETTING, base_path)
    handler = lambda_handler(create_app(signing_keys.routes))
    admin = Caller(form, secret)
    body = {"type": "root", "name": "k"}
    made = admin.call(handler, "POST", f"/{base_path}/v1/keys", json=body)
    assert made.status == 201, made.body
    for path in (f"/{base_path}/v1/keys/{made.json()['id']}", f"/v1/keys/{made.json()['id']}"):
        assert admin.call(handler, "GET", path).json()["name"] == "k"
    refused = admin.call(handler, "DELETE", f"/{base_path}/v1/keys")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD, POST")


@each_format
def test_another_path_is_no_base_path(
    secret: str, monkeypatch: pytest.MonkeyPatch, form: Format
) -> None:
    """F106: what is not below the base path is unknown, whether or not it begins alike."""
    monkeypatch.setenv(SETTING, "auth")
    handler = lambda_handler(create_app(signing_keys.routes))
    admin = Caller(form, secret)
    for path in ("/other/v1/keys", "/authv1/keys", "/auth", "/auth/", "/auth/auth/v1/keys"):
        assert_error(admin.call(handler, "GET", path), 404, "not_found")


@pytest.mark.slow
def test_the_events_of_sam_reach_the_api(
    secret: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """F106: SAM's own events for a path below the base path, in formats 1.0 and 2.0."""
    monkeypatch.setenv(SETTING, "auth")
    handler = lambda_handler(create_app(signing_keys.routes))
    made = reading(tmp_path, "events", "GET", "/auth/v1/keys?limit=5", secret)
    assert [event["version"] for event in made] == ["1.0", "2.0"]
    for event in made:
        answer = Answer.of(handler(event, None))
        assert answer.json() == {"keys": [], "total": 0, "cursor": None}


@pytest.mark.parametrize("value", ["/auth", "auth/", "a//b", "v1", "v1/keys", "a b", "{proxy+}"])
def test_a_spoilt_base_path_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """F106: a function does not start with a base path that no mapping can have, or below v1."""
    monkeypatch.setenv(SETTING, value)
    with pytest.raises(InvalidSettings, match="RESCIND_BASE_PATH is not valid"):
        lambda_handler(create_app(signing_keys.routes))
