"""Servers on stores that the environment names, and that they share."""

from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from subprocess import CompletedProcess

import httpx2
import pytest

from infra import data_folder
from infra.server.console import SESSION
from tests.kit.processes import LocalServer, local_server, run, serve_in_vain
from tests.kit.waiting import soon


@dataclass
class Replicas:
    """Two servers on the same stores, and the admin key of their tenant."""

    a: LocalServer
    b: LocalServer
    settings: dict[str, str]
    key: str

    def call(self, server: LocalServer, method: str, path: str, **body: object) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx2.request(method, f"{server.url}{path}", headers=headers, json=body or None)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Stores that do not exist yet."""
    folder = tmp_path_factory.mktemp("stores") / "data"
    folder.mkdir(mode=0o700)
    return data_folder.environment(folder, folder.parent / "secret.key")


def _rescind(*arguments: str, settings: dict[str, str]) -> CompletedProcess[str]:
    return run("-m", "infra.cli", *arguments, settings=settings)


@pytest.fixture(scope="module")
def replicas(
    settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replicas]:
    made = _rescind("setup", "--tenant", "acme", settings=settings)
    assert made.returncode == 0, made.stderr
    folder = tmp_path_factory.mktemp("replicas")
    with ExitStack() as stack:
        a, b = (
            stack.enter_context(local_server(folder / name, settings=settings)) for name in "ab"
        )
        yield Replicas(a, b, settings, made.stdout.strip())


def test_only_setup_makes_what_servers_share(tmp_path: Path) -> None:
    """F613a: `serve` creates no key for stores that the environment names; `setup` does, once."""
    (tmp_path / "data").mkdir(mode=0o700)
    settings = data_folder.environment(tmp_path / "data", tmp_path / "key")
    refused = serve_in_vain(settings=settings)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "run: rescind setup" in refused.stderr
    assert list((tmp_path / "data").iterdir()) == []
    with ThreadPoolExecutor(2) as pool:
        both = list(
            pool.map(lambda _: _rescind("setup", "--tenant", "acme", settings=settings), range(2))
        )
    assert [each.returncode for each in both] == [0, 0], both
    # One of them made the tenant and printed its key.
    assert sorted(bool(each.stdout) for each in both) == [False, True]
    key = (tmp_path / "key").read_bytes()
    again = _rescind("setup", "--tenant", "acme", settings=settings)
    assert (again.returncode, again.stdout) == (0, "")
    assert "rescind admin-key acme" in again.stderr
    assert (tmp_path / "key").read_bytes() == key


def test_a_folder_needs_no_setup() -> None:
    """F613b: `setup` without stores in the environment is refused."""
    refused = _rescind("setup", settings={"RESCIND_DATA": "data"})
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "SVC_STORE" in refused.stderr


def test_a_store_that_cannot_be_used_is_not_said_to_be_unset(tmp_path: Path) -> None:
    """F659c: A command names `--data` only if the environment names no store."""
    settings = data_folder.environment(tmp_path, tmp_path / "key")
    refused = _rescind("doctor", settings=settings)
    assert f"{tmp_path / 'key'} cannot be read" in refused.stderr
    assert "--data" not in refused.stderr
    assert "--data" in _rescind("doctor", settings={}).stderr


def test_shared_stores_get_no_tenant_by_themselves(tmp_path: Path) -> None:
    """F612b: On shared stores `serve` creates neither a tenant nor a file with an admin key."""
    (tmp_path / "data").mkdir(mode=0o700)
    settings = data_folder.environment(tmp_path / "data", tmp_path / "key")
    assert _rescind("setup", settings=settings).returncode == 0
    # That of the image does not count.
    named = settings | {"RESCIND_DATA": str(tmp_path / "other")}
    with local_server(tmp_path / "server", settings=named) as server:
        said = server.output.read_text()
        tenants = _rescind("tenant", "list", "-o", "json", settings=named).stdout
    assert "There is no tenant yet; to create one, run: rescind setup --tenant NAME" in said
    assert f"data in {settings['SVC_STORE']}" in said
    assert '"tenants": []' in tenants
    assert not (tmp_path / "data" / "admin.key").exists()
    assert not (tmp_path / "other").exists()


def test_what_one_server_revokes_the_others_refuse(replicas: Replicas) -> None:
    """F612c: A revocation at one server is refused at once at another, and is in its feed."""
    made = replicas.call(replicas.a, "POST", "/v1/revocations", warrant_id="svc_wrt_a", reason="s")
    assert made.status_code == 201, made.text
    checked = replicas.call(replicas.b, "GET", "/v1/revocations/check?warrant_id=svc_wrt_a")
    assert checked.json()["revoked"] is True, checked.text

    def has_it() -> bool:
        news = replicas.call(replicas.b, "GET", "/v1/revocations/feed?after=0")
        entries = news.json()["entries"] if news.status_code == HTTPStatus.OK else []
        return any(b"svc_wrt_a" in b64decode(each) for each in entries)

    soon(has_it)


def test_a_code_signs_in_once_at_all_servers(replicas: Replicas) -> None:
    """F614a: Of many requests with one code to two servers, one gets a key."""
    done = _rescind("console", "acme", settings=replicas.settings)
    assert done.returncode == 0, done.stderr
    code = done.stdout.strip().partition("/#code=")[2]

    def use(server: LocalServer) -> int:
        sent = httpx2.post(
            f"{server.url}{SESSION}", json={"code": code}, headers={"Origin": server.url}
        )
        return sent.status_code

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(use, [replicas.a, replicas.b] * 3)) == [201, *[401] * 5]
