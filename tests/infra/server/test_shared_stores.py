"""Servers on stores that the environment names, and that they share."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess

from infra import data_folder
from tests.kit.processes import local_server, run, serve_in_vain


def _rescind(*arguments: str, settings: dict[str, str]) -> CompletedProcess[str]:
    return run("-m", "infra.cli", *arguments, settings=settings)


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
    assert f"data in {settings['RESCIND_STORE']}" in said
    assert '"tenants": []' in tenants
    assert not (tmp_path / "data" / "admin.key").exists()
    assert not (tmp_path / "other").exists()
