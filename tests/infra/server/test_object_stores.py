"""Servers outside AWS that share PostgreSQL and keep their lists in an object store."""

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

import httpx2
import pytest
from botocore.session import get_session

from shared import wiring
from shared.adapters.aws import clients
from shared.operations.base import tenants
from shared.operations.lists import in_force
from tests.engines.clouds import Cloud, container
from tests.engines.programs import azurite, ministack
from tests.kit import postgresql
from tests.kit.processes import free_port, local_server, run, serve_in_vain

# Given a folder of its own, the settings of an object store that runs until the end.
Started: TypeAlias = Callable[[Path, pytest.MonkeyPatch], Iterator[dict[str, str]]]

pytestmark = pytest.mark.slow


def _s3(folder: Path, environment: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    with ministack(folder) as settings, ExitStack() as stack:
        _set(environment, settings)
        # The session in use may hold the credentials of another test.
        environment.setattr(clients, "_session", get_session)
        bucket = stack.enter_context(Cloud().bucket())
        endpoint = settings["RESCIND_TEST_S3_ENDPOINT"]
        yield settings | {"AWS_ENDPOINT_URL_S3": endpoint, "RESCIND_BLOBS": f"s3:{bucket}"}


def _azure(folder: Path, environment: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    with azurite(folder) as settings:
        _set(environment, settings)
        with container() as location:
            endpoint = settings["RESCIND_TEST_AZURE_ENDPOINT"]
            yield settings | {
                "AZURE_STORAGE_ENDPOINT": endpoint,
                "RESCIND_BLOBS": f"azure:{location}",
            }


def _set(environment: pytest.MonkeyPatch, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        environment.setenv(name, value)


@contextmanager
def _shared(folder: Path) -> Iterator[dict[str, str]]:
    """The settings of a store and a key that all servers share."""
    with postgresql.server().database(f"objects-{free_port()}") as url:
        yield {"RESCIND_STORE": url, "RESCIND_KEY_WRAPPER": f"file:{folder / 'master.key'}"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Those of a server that has been set up, but for its blobs."""
    folder = tmp_path_factory.mktemp("shared")
    with _shared(folder) as settings:
        (folder / "blobs").mkdir(mode=0o700)
        blobs = {"RESCIND_BLOBS": f"file:{folder / 'blobs'}"}
        assert run("-m", "infra.cli", "setup", settings=settings | blobs).returncode == 0
        yield settings


@pytest.mark.parametrize("start", [_s3, _azure])
def test_lists_are_in_an_object_store(
    start: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F640a: A server on PostgreSQL publishes lists to S3 or Azure, and serves them from there.

    Whoever has the signed address of a list needs nothing else.
    """
    with ExitStack() as stack:
        objects = stack.enter_context(contextmanager(start)(tmp_path, monkeypatch))
        settings = objects | stack.enter_context(_shared(tmp_path))
        made = run("-m", "infra.cli", "setup", "--tenant", "acme", settings=settings)
        assert made.returncode == 0, made.stderr
        with local_server(tmp_path / "server", settings=settings) as server:
            http = stack.enter_context(
                httpx2.Client(
                    base_url=f"{server.url}/v1/revocations",
                    headers={"Authorization": f"Bearer {made.stdout.strip()}"},
                )
            )
            revoked = http.post(
                f"{server.url}/v1/revocations", json={"warrant_id": "svc_wrt_a", "reason": "lost"}
            )
            assert revoked.status_code == 201, revoked.text
            assert http.post("/srl/regenerate").is_success
            served = http.get("/srl", headers={"Accept-Encoding": "identity"})
        assert "svc_wrt_a" in served.text
        _set(monkeypatch, settings)
        ports = wiring.assemble(wiring.settings(settings))
        stack.callback(ports.close)
        head = in_force.read_srl_head(ports, tenants.find(ports, "acme").tenant_id)
        signed = ports.blobs.url(head.blob, ttl_seconds=60)
        assert httpx2.get(signed).content == served.content


_NOBODY = "http://127.0.0.1:9"
_SIGNED = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "r"}
_KEY = {"AZURE_STORAGE_ACCOUNT_KEY": base64.b64encode(bytes(32)).decode()}


@pytest.mark.parametrize(
    ("blobs", "settings", "said"),
    [
        ("s3:bucket", {}, "AWS_DEFAULT_REGION is not set"),
        ("s3:bucket", _SIGNED | {"AWS_ENDPOINT_URL_S3": "minio:9000"}, "AWS_ENDPOINT_URL_S3"),
        ("s3:bucket", _SIGNED | {"AWS_ENDPOINT_URL_S3": _NOBODY}, "Could not connect"),
        ("azure:account/box", _KEY | {"AZURE_STORAGE_ENDPOINT": _NOBODY}, f"GET {_NOBODY}"),
    ],
)
def test_a_server_says_what_its_blobs_lack(
    shared: dict[str, str], blobs: str, settings: dict[str, str], said: str
) -> None:
    """F640b: A server whose lists cannot be read does not start, and says why in words."""
    alone = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null"}
    ended = serve_in_vain(settings=shared | alone | {"RESCIND_BLOBS": blobs} | settings)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("Cannot start:\n")
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
