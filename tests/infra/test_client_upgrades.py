"""Clients of the release before at this service, and the upgrade of clients and relays."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import releases
from tests.infra.following import Asked, Server, following, soon

pytestmark = pytest.mark.slow

_RELEASE = "0.3.0"
_KEYS = "/revocations/srl/keys"


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the release before."""
    return releases.source(_RELEASE, tmp_path_factory.mktemp("before"))


@pytest.fixture
def settings(server: Server) -> dict[str, Any]:
    """What the operator of the release before told an authorizer."""
    key = server.call("POST", "/api-keys", name="gateway", scopes=["authorizer"])
    return {
        "url": server.url,
        "api_key": key["key"],
        "tenant": server.call("GET", "/tenant/settings")["tenant_id"],
        "public_keys": [server.call("GET", _KEYS)["keys"][0]["public_key"]],
    }


@contextmanager
def _client(folder: Path, settings: dict[str, Any], **more: Any) -> Iterator[Asked]:
    options = settings | {"package": "shared.authorizer"} | more
    with following(Path(sys.executable), folder, **options) as client:
        yield client


def _follows(server: Server, client: Asked, name: str) -> None:
    server.revoke(name)
    soon(partial(client.refuses, name))
    soon(lambda: client.check("svc_wrt_other") == "clear")
    assert client.status["refusals"] == {}


def test_clients_of_the_release_before_follow_a_week_of_rotations(
    server: Server, settings: dict[str, Any], before: Path, tmp_path: Path
) -> None:
    """F740a, SIGNER-6: A client of the release before follows this service through rotations.

    It ignores the documents. A restart with its floor, and a newcomer, change nothing.
    """
    for day in range(7):
        folder = tmp_path / ("floor" if day != 3 else "newcomer")
        with _client(folder, settings, source=before) as client:
            _follows(server, client, f"svc_wrt_{day}-a")
            server.call("POST", f"{_KEYS}/rotate")
            _follows(server, client, f"svc_wrt_{day}-b")


def test_an_upgraded_client_needs_no_new_setting(
    server: Server, settings: dict[str, Any], before: Path, tmp_path: Path
) -> None:
    """TRUST-20, F740b: A client that is upgraded takes its floor over, and learns the pin from it.

    It goes on through rotations and a theft, also after restarts. The release before can read its
    floor, should the upgrade be taken back.
    """
    floor = tmp_path / "floor"
    with _client(floor, settings, source=before) as client:
        server.call("POST", f"{_KEYS}/rotate")
        _follows(server, client, "svc_wrt_a")
    with _client(floor, settings) as client:
        assert client.check("svc_wrt_a") == "revoked"
        _follows(server, client, "svc_wrt_b")
        server.call("POST", f"{_KEYS}/rotate")
        _follows(server, client, "svc_wrt_c")
    with _client(floor, settings, source=before) as client:
        assert client.check("svc_wrt_c") == "revoked"
        _follows(server, client, "svc_wrt_d")
    for number in range(2):
        with _client(floor, settings) as client:
            server.call("POST", f"{_KEYS}/rotate", compromised=True)
            name = f"svc_wrt_stolen-{number}"
            server.revoke(name)
            soon(partial(client.refuses, name))
            soon(lambda: client.check("svc_wrt_other") == "clear")
