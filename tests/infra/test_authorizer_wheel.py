"""The wheel of the client, installed in an empty environment, away from the checkout."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from importlib.metadata import Distribution
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Final

import pytest

from tests.authorizer.feeds import TENANT
from tests.authorizer.service import KEY, PIN, Service, serving
from tests.infra.following import UV, Server, following, installed, soon
from tests.kit.processes import ROOT, environment

pytestmark = pytest.mark.slow

_PAGES: Final = ("README.md", "docs/authorizers.md", "infra/clients/python/README.md")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel, and what the wheel says that it needs."""
    return installed(tmp_path_factory.mktemp("client"))


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(Service()) as service:
        service.vouch()
        yield service


def test_two_dependencies_are_installed(python: Path) -> None:
    """F186a: The wheel of the client installs one package, its types, and two dependencies."""
    found = json.loads(_run(*UV, "pip", "list", "--python", str(python), "--format", "json"))
    names = {each["name"] for each in found}
    # cffi and pycparser are what cryptography needs.
    assert names == {"rescind-authorizer", "cbor2", "cryptography", "cffi", "pycparser"}
    (place,) = python.parent.parent.glob("lib/*/site-packages/rescind_authorizer-*.dist-info")
    files = Distribution.at(place).files or []
    assert {file.parts[0] for file in files} == {"rescind_authorizer", place.name, ".."}
    assert {"py.typed", "LICENSE"} <= {file.name for file in files}


def test_ten_lines_refuse_a_warrant(python: Path, service: Service, tmp_path: Path) -> None:
    """F186b: The ten lines of the documentation refuse a revoked warrant, and no other."""
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in _PAGES]
    (lines,) = {re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0] for text in texts}
    settings = {
        "RESCIND_URL": service.url,
        "RESCIND_API_KEY": KEY,
        "RESCIND_TENANT": TENANT,
        "RESCIND_TRUST_ROOT": PIN,
        "RESCIND_FLOOR": str(tmp_path / "floor"),
    }
    assert _run(str(python), "-c", lines, cwd=tmp_path, settings=settings) == "allowed\n"
    service.revoke("svc_wrt_laptop-17")
    again = _run(str(python), "-c", lines, cwd=tmp_path, settings=settings)
    assert again == "refused: revoked\n"


def test_the_installed_client_conforms(python: Path) -> None:
    """F186c: The client as it is installed passes the conformance suite."""
    command = [str(python), "-m", "rescind_authorizer", "conformance"]
    said = _run(sys.executable, "-m", "tests.conformance", "--", *command)
    assert re.search(r"^(\d+) of \1 cases passed$", said, re.MULTILINE)


@pytest.fixture
def settings(server: Server) -> dict[str, object]:
    """What the operator of the server tells an authorizer."""
    key = server.call("POST", "/api-keys", name="gateway", scopes=["authorizer"])
    return {
        "url": server.url,
        "api_key": key["key"],
        "tenant": server.call("GET", "/tenant/settings")["tenant_id"],
        "trust_root": server.pin,
    }


def test_no_revocation_is_lost_when_the_server_is_killed(
    python: Path, server: Server, settings: dict[str, object], tmp_path: Path
) -> None:
    """F187a: A client misses no revocation that was acknowledged before the server was killed."""
    with following(python, tmp_path / "floor", **settings) as client:
        assert client.check("svc_wrt_0") == "clear"
        for number in range(4):
            server.revoke(f"svc_wrt_{number}")
            server.group.kill()
            server.group.start()
            soon(partial(client.refuses, f"svc_wrt_{number}"))
            known = [client.check(f"svc_wrt_{each}") for each in range(number + 1)]
            assert {*known} == {"revoked"}
        # On a busy machine its state may be too old for a moment.
        soon(lambda: client.check("svc_wrt_root", "svc_wrt_9") == "clear")
        assert client.status["refusals"] == {}
    # So does one that was killed itself.
    with following(python, tmp_path / "floor", **settings) as client:
        assert client.check("svc_wrt_0") == "revoked"
        assert client.status["refusals"] == {}


def test_a_client_goes_on_after_a_restore(
    python: Path, server: Server, settings: dict[str, object], tmp_path: Path
) -> None:
    """F187b: After a restore and `recover`, clients continue, and miss no listed warrant.

    Without `recover` no server starts on the older records. If the blobs are older too, it does:
    then the clients refuse the feed, and soon clear nothing.
    """
    backup, older, newest = tmp_path / "backup", tmp_path / "older", tmp_path / "newest"
    with following(python, tmp_path / "floor", **settings) as client:
        server.revoke("svc_wrt_before")
        server.admin("backup", str(backup))
        server.group.kill()
        copytree(server.data, older, ignore=ignore_patterns("*-news"))
        server.group.start()
        server.revoke("svc_wrt_after")
        # A recovery knows what is in the newest list.
        server.publish()
        soon(lambda: client.check("svc_wrt_after") == "revoked")
        sequence = client.status["sequence"]
        server.group.kill()
        server.data.rename(newest)
        older.rename(server.data)
        server.group.start()
        soon(lambda: client.status["refusals"])
        soon(lambda: client.check("svc_wrt_other") == "stale")
        assert client.check("svc_wrt_after") == "revoked"
        server.group.kill()
        server.data.rename(older)
        newest.rename(server.data)
        server.restore(backup)
        with pytest.raises(AssertionError, match="Run: recover local"):
            server.group.start()
        server.admin("recover", "local")
        server.group.start()
        soon(lambda: client.check("svc_wrt_other") == "clear")
        assert client.status["sequence"] >= sequence + 2**20 - 10
        assert client.check("svc_wrt_before") == client.check("svc_wrt_after") == "revoked"
        server.revoke("svc_wrt_new")
        soon(lambda: client.check("svc_wrt_new") == "revoked")


def test_a_client_follows_rotations_of_the_service(
    python: Path, server: Server, settings: dict[str, object], tmp_path: Path
) -> None:
    """F187c: A client follows each rotation of the list signer of a service, also when away."""
    with following(python, tmp_path / "floor", **settings) as client:
        signers = [client.status["signer"]]
        for number in range(2):
            server.call("POST", "/revocations/srl/keys/rotate")
            server.revoke(f"svc_wrt_{number}")
            soon(partial(client.refuses, f"svc_wrt_{number}"))
            signers.append(client.status["signer"])
        assert len({*signers}) == 3
        assert client.check("svc_wrt_9") == "clear"
    for _ in range(2):
        server.call("POST", "/revocations/srl/keys/rotate")
    server.revoke("svc_wrt_away")
    with following(python, tmp_path / "floor", **settings) as client:
        soon(partial(client.refuses, "svc_wrt_away"))
        assert client.status["signer"] not in signers


@pytest.mark.parametrize("number", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_nothing_is_lost_while_both_are_killed(
    python: Path, server: Server, settings: dict[str, object], tmp_path: Path, number: int
) -> None:
    """F187d: Server and client are killed in turns; each acknowledged revocation is refused.

    What a client refused before, it refuses again after its restart, at once.
    """
    refused, sample = set[str](), random.Random(number)
    with server.revoking(number) as acknowledged:
        for turn in range(1, 7):
            with following(python, tmp_path / "floor", **settings) as client:
                assert {client.check(each) for each in refused} <= {"revoked"}
                # The client is killed at the end of each turn, the server in the middle.
                soon(partial(_has, acknowledged, number * (2 * turn - 1) // 12), seconds=300)
                server.group.kill()
                server.group.start()
                soon(partial(_has, acknowledged, number * turn // 6), seconds=300)
                asked = sample.sample(acknowledged, min(200, len(acknowledged)))
                refused.update(each for each in asked if client.refuses(each))
    assert len(refused) > number // 10
    with following(python, tmp_path / "floor", **settings) as client:
        for each in acknowledged:
            soon(partial(client.refuses, each))
        assert client.check("svc_wrt_never") == "clear"
        assert client.status["refusals"] == {}
    assert len(acknowledged) >= number


def _has(acknowledged: list[str], number: int) -> bool:
    return len(acknowledged) >= number


def _run(*command: str, cwd: Path = ROOT, settings: dict[str, str] | None = None) -> str:
    ran = subprocess.run(
        command, cwd=cwd, env=environment(settings), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
