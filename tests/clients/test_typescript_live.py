"""The installed TypeScript client follows services on loopback."""

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from shared.authorizer import AuthorizerClient, FileStateStore, SavedStateCorrupt
from shared.authorizer.formats.members import from_base64
from shared.authorizer.formats.proofs import SignedReport
from tests.authorizer.clients import arguments
from tests.authorizer.feeds import TENANT, Feed, signer
from tests.authorizer.service import KEY, PIN, Response, Service, serving
from tests.conformance import runner
from tests.kit import typescript
from tests.kit.processes import ROOT, environment
from tests.kit.waiting import soon

pytestmark = pytest.mark.slow

_STANDBY = signer(2)
_TERMS = {"report_after_seconds": 300, "jitter_seconds": 0}

_ENDS = ("polled", "refused", "failed")

# Starts a client in a process of its own; the options replace the usual ones.
Started = Callable[..., runner.Ask]


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(Service()) as made:
        made.revoke("svc_wrt_a")
        made.vouch(made.feed.key, _STANDBY)
        yield made


@pytest.fixture
def started(service: Service, tmp_path: Path) -> Iterator[Started]:
    program = typescript.installed() / "driven.mjs"
    shutil.copy(ROOT / "tests/clients/driven.mjs", program)
    with ExitStack() as ended:

        def start(**changes: Any) -> runner.Ask:
            usual = {"url": service.url, "apiKey": KEY, "tenant": TENANT, "trustPin": PIN} | {
                "folder": str(tmp_path / "state"),
                "report": False,
                "policy": {"pollSeconds": 0.01},
            }
            command = [typescript.node(), "--expose-gc", str(program), json.dumps(usual | changes)]
            return ended.enter_context(runner.started(command))

        yield start


def _polled(ask: runner.Ask) -> dict[str, Any]:
    """How a poll ended."""
    ask({"poll": {}})
    ends = [each for each in ask({"events": {}}) if each["type"] in _ENDS]
    assert len(ends) == 1, ends
    return dict(ends[0])


def _verdicts(ask: runner.Ask, *letters: str) -> list[str]:
    return [ask({"check": [f"svc_wrt_{letter}"]}) for letter in letters]


def test_a_client_follows_the_feed_and_decides_at_once_after_a_restart(
    service: Service, started: Started
) -> None:
    """F1041a: The TypeScript client takes entries, long polls, and decides offline by its state."""
    service.max_wait_seconds = 25
    first = started()
    assert _verdicts(first, "a") == ["stale"]
    first({"run": {}})
    soon(lambda: _verdicts(first, "a", "b") == ["revoked", "clear"])
    soon(lambda: service.waiting == 1)
    service.revoke("svc_wrt_b")
    soon(lambda: _verdicts(first, "a", "b") == ["revoked", "revoked"])
    assert first({"check": ["svc_wrt_c", "svc_wrt_b"]}) == "revoked"
    for ids in ([], ["svc_wrt_c", ""], [" svc_wrt_c"], ["svc_wrt_c\n"], ["SVC_WRT_C"], [7]):
        assert first({"check": ids})["error"].startswith("TypeError: a warrant identifier must be")
    assert first({"status": {}}) | {"failures": 0, "refusals": {}} == first({"status": {}})
    service.instead = lambda _path: Response(b"away", 503)
    second = started()
    assert _polled(second)["message"] == "the service answered 503: away"
    assert _verdicts(second, "a", "b", "c") == ["revoked", "revoked", "clear"]
    late = started(policy={"maxStaleness": 0.01})
    assert _polled(late)["type"] == "failed"
    assert _verdicts(late, "b", "c") == ["revoked", "stale"]


def test_one_pin_lasts_through_rotation_theft_and_root_rotation(
    service: Service, started: Started
) -> None:
    """F1041b, TRUST-14: The TypeScript client needs no visit, and is started anew each time."""
    sequences = []

    def follow() -> None:
        client = started()
        assert _polled(client)["type"] == "polled"
        assert _verdicts(client, "a", "c") == ["revoked", "clear"]
        sequences.append(client({"status": {}})["sequence"])

    follow()
    service.feed.key = _STANDBY
    service.revoke("svc_wrt_b")
    follow()
    service.vouch(_STANDBY, signer(3))
    service.feed.key = signer(3)
    service.feed.publish(leap=2**20)
    service.feed.publish_list()
    service.vouch(signer(3), signer(4))
    follow()
    for root in (202, 203):
        service.vouch(signer(3), signer(4), by=root)
    follow()
    service.feed = Feed(ids={"svc_wrt_a"}, key=signer(5))
    service.feed.publish(leap=2**21)
    service.feed.publish_list()
    service.vouch(signer(5), version=2**20, by=203)
    follow()
    assert sequences == sorted(sequences)


def _saved_file(tmp_path: Path) -> Path:
    return tmp_path / "state/floor.json"


def _resealed(path: Path, **changes: Any) -> None:
    """The saved state with other members, and the hash of those."""
    data = json.dumps(json.loads(path.read_bytes().partition(b"\n")[2]) | changes).encode()
    path.write_bytes(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)


def _refusal(ask: runner.Ask) -> str:
    error: str = ask({"poll": {}})["error"]
    assert ask({"poll": {}}) == {"error": error}
    assert _verdicts(ask, "a") == ["stale"]
    return error


def test_a_saved_state_is_damaged_or_foreign(
    service: Service, started: Started, tmp_path: Path
) -> None:
    """F1043a: A state that is damaged, too new, of another tenant or client ends with its name."""
    path = _saved_file(tmp_path)
    _polled(started())
    genuine = path.read_bytes()
    path.write_bytes(genuine[:-9])
    words = "StateError: the saved state is damaged (Error: its hash is wrong)"
    assert _refusal(started()).startswith(words)
    for changes, words in (
        ({"client": "go"}, "it was saved by the go client"),
        ({"format": 2}, "a newer version of this client wrote the saved state"),
        ({"tenant": "svc_tnt_other"}, "the saved state belongs to svc_tnt_other"),
        ({"sequence": "1"}, "the saved state is damaged (Error: sequence is not a number)"),
        ({"trust": "{}"}, "the saved state is damaged"),
        ({"trust": None}, "the saved state is damaged (Error: trust is not a text)"),
        (
            {"trust": '{"documents": []}'},
            "the saved state is damaged (Error: it has no trust document)",
        ),
    ):
        path.write_bytes(genuine)
        _resealed(path, **changes)
        assert _refusal(started()).startswith(f"StateError: {words}")
    path.write_bytes(genuine)
    pythons = AuthorizerClient(service.url, **arguments(state=FileStateStore(path.parent)))
    with pytest.raises(SavedStateCorrupt, match="was saved by the typescript client"):
        pythons.start()
    path.chmod(0o666)
    assert "others can use" in _refusal(started())
    path.chmod(0o600)
    assert "ENOTDIR" in _refusal(started(folder="/dev/null/none"))
    path.unlink()
    pythons.start().close()
    assert "it was saved by the Python client" in _refusal(started())


def test_a_saved_state_of_an_older_version_is_read(
    service: Service, started: Started, tmp_path: Path
) -> None:
    """F1043b: The TypeScript client continues with the state that an older version saved."""
    _saved_file(tmp_path).parent.mkdir(mode=0o700)
    # Version 0.4.0 wrote it: each later one reads it.
    shutil.copy(ROOT / "tests/clients/floor-1.json", _saved_file(tmp_path))
    _saved_file(tmp_path).chmod(0o600)
    service.vouch()
    client = started()
    # The saved state has entry 3 of this feed, so the feed with one entry is an old one.
    assert _polled(client)["reason"] == "rollback"
    service.revoke("svc_wrt_b")
    service.revoke("svc_wrt_c")
    assert _polled(client)["type"] == "polled"
    assert _verdicts(client, "c", "d") == ["revoked", "clear"]


def test_a_state_counts_only_once_it_is_saved(
    service: Service, started: Started, tmp_path: Path
) -> None:
    """F1043c: If a state cannot be saved, or another process writes to it, no new state counts."""
    client, other = started(), started()
    _polled(client)
    service.revoke("svc_wrt_b")
    assert _polled(other)["type"] == "polled"
    assert "another process writes to" in _polled(client)["message"]
    assert _verdicts(client, "a", "b") == ["revoked", "clear"]
    _saved_file(tmp_path).unlink()
    _saved_file(tmp_path).mkdir()
    service.revoke("svc_wrt_c")
    assert _polled(other)["type"] == "failed"
    assert _verdicts(other, "b", "c") == ["revoked", "clear"]


def test_reports_change_no_verdict(service: Service, started: Started, tmp_path: Path) -> None:
    """F1044a: A TypeScript client reports each refusal once, and goes on without reports."""
    client = started(report=True)
    service.instead = lambda path: Response(b"{}") if "feed" in path else None
    _polled(client)
    service.instead = lambda _path: None
    _polled(client)
    assert client({"report": {}}) == 0
    assert client({"status": {}})["reporting"] == "unsupported"
    service.registry = {"id": "svc_azr_1", "status": "ok", "last_number": 2**52, **_TERMS}
    client = started(report=True, name="gate-1")
    for refused in ({"malformed": 1}, None):
        service.instead = lambda path: Response(b"{}") if "feed" in path and refused else None  # noqa: B023
        _polled(client)
        service.instead = lambda _path: None
        service.revoke("svc_wrt_b")
        _polled(client)
        while client({"report": {}}) == 0:
            pass
        _, reported = service.posted[-1]
        report = SignedReport.decode(from_base64(reported["report"]))
        assert reported.keys() == {"report", "signature"}
        assert (report.chain, report.refused) == (service.feed.chain, refused or {})
        assert report.number > 2**52
    client = started(report=True, name="gate-1")
    _polled(client)
    service.instead = lambda path: Response(b"taken", 409) if "register" in path else None
    client({"report": {}})
    (failed,) = [each for each in client({"events": {}}) if each["type"] == "report_failed"]
    assert failed["unregistered"]
    assert 'cannot register "gate-1": another key has registered its name' in failed["message"]
    service.instead = lambda _path: None
    (tmp_path / "state/identity.key").chmod(0o644)
    client = started(report=True)
    _polled(client)
    client({"report": {}})
    assert "others can use" in client({"events": {}})[-1]["message"]
    assert _verdicts(client, "a", "c") == ["revoked", "clear"]


def test_a_tag_that_provokes_failures_is_dropped(service: Service, started: Started) -> None:
    """F1631b: After two failures in a row, a TypeScript client polls without its tag."""
    client = started()
    _polled(client)
    service.instead = lambda _path: (
        Response(b"", 431) if "If-None-Match" in service.asked[-1][1] else None
    )
    assert [_polled(client)["type"] for _ in range(3)] == ["failed", "failed", "polled"]


def test_ten_lines_refuse_a_warrant(service: Service, tmp_path: Path) -> None:
    """F1047a: The documented lines of TypeScript refuse a revoked warrant, and no other."""
    page = (ROOT / "docs/authorizers.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```ts\n(.*?)```", page, re.DOTALL)
    given = {"URL": service.url, "API_KEY": KEY, "TENANT": TENANT, "TRUST_PIN": PIN}
    given["STATE_DIR"] = str(tmp_path / "state")
    settings = {f"RESCIND_{name}": value for name, value in given.items()}
    command = [typescript.node(), str(typescript.compiled(lines, tmp_path))]
    said = []
    for _ in range(2):
        said.append(subprocess.check_output(command, env=environment(settings), text=True))
        service.revoke("svc_wrt_laptop-17")
    assert said == ["allowed\n", "refused: revoked\n"]
