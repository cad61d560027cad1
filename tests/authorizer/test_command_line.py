"""The commands of the client for people."""

import base64
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from shared.authorizer.__main__ import main
from shared.authorizer.floor import FileFloor
from tests.authorizer.feeds import TENANT, public, signer
from tests.authorizer.service import KEY, Response, Service, serving


def arguments(command: str, service: Service, *more: str) -> list[str]:
    return [command, service.url, "--tenant", TENANT, "--public-key", _PINNED, *more]


_PINNED = "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w="


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESCIND_API_KEY", KEY)


def test_status_prints_what_a_client_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Service()) as service:
        service.revoke("svc_wrt_a", "svc_wrt_b")
        assert main(arguments("status", service, "--floor", str(tmp_path))) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"sequence: 1", "revoked: 2", "stale: False", "refusals: {}"} <= {*lines}
    assert f"signer: {public(signer()).hex()}" in lines
    saved = FileFloor(tmp_path).load()
    assert saved is not None
    assert saved.sequence == 1


def test_watch_prints_each_event(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    with serving(Service()) as service:
        # Not `time.sleep` itself, which the service uses too.
        clock = SimpleNamespace(sleep=interrupt, strftime=time.strftime)
        monkeypatch.setattr("shared.authorizer.__main__.time", clock)
        assert main(arguments("watch", service)) == 0
    assert "Advanced(before=None, after=0, count=0)" in capsys.readouterr().out


def test_what_goes_wrong_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(Service()) as service:
        service.instead = lambda _path: Response(b"no such feed", 404)
        monkeypatch.setattr(
            "shared.authorizer.client.AuthorizerClient.start.__kwdefaults__", {"wait": 0.2}
        )
        assert main(arguments("status", service)) == 1
        assert "no such feed" in capsys.readouterr().err
        monkeypatch.delenv("RESCIND_API_KEY")
        assert main(arguments("status", service)) == 1
        assert "RESCIND_API_KEY" in capsys.readouterr().err
    assert main(["repin", str(tmp_path)]) == 1
    assert "has no floor" in capsys.readouterr().err


def test_repin_resets_a_floor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F182i: `repin` resets a damaged floor, and keeps the file of it."""
    (tmp_path / "floor.json").write_text("damaged")
    assert main(["repin", str(tmp_path)]) == 0
    assert FileFloor(tmp_path).load() is None
    assert (tmp_path / "floor.json.old").read_text() == "damaged"
    assert "floor.json.old" in capsys.readouterr().out


def test_repin_recovers_a_client_from_a_stolen_signer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F283a, FEED-11: After `repin` a client follows the genuine feed, and not that of the thief.

    It had accepted the thief's, which is ahead. The stolen key does not count any more, although
    the configuration still names it and the client no longer knows that it was revoked.
    """
    floor = str(tmp_path)

    def shown() -> set[str]:
        capsys.readouterr()
        assert main(arguments("status", service, "--floor", floor)) == 0
        return {*capsys.readouterr().out.splitlines()}

    with serving(Service()) as service:
        genuine = service.feed.branch()
        service.revoke("svc_wrt_genuine")
        service.revoke("svc_wrt_forged")
        assert "sequence: 2" in shown()
        stolen = service.feed
        # The operator replaces the signer: another chain, a break, and no statement.
        service.feed = genuine
        genuine.publish("svc_wrt_true")
        service.rotate(signer(2), number=2, stated=False)
        assert {"sequence: 2", "refusals: {'statement_missing': 1}"} <= shown()
        assert main(["repin", floor, base64.b64encode(public(signer(2))).decode()]) == 0
        assert "pins.json" in capsys.readouterr().out
        signed_by = f"signer: {public(signer(2)).hex()}"
        assert {"sequence: 1", "revoked: 1", signed_by, "refusals: {}"} <= shown()
        service.feed = stolen
        service.revoke("svc_wrt_forged-too")
        assert {"sequence: 1", signed_by, "refusals: {'signature': 1}"} <= shown()
        # Without a key, the configured ones count again.
        assert main(["repin", floor]) == 0
        assert "sequence: 3" in shown()


def test_repin_takes_only_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F283b: A key that is mistyped changes nothing."""
    (tmp_path / "floor.json").write_text("kept")
    for wrong in ("?", "YQ==", base64.b64encode(bytes(32)).decode()):
        assert main(["repin", str(tmp_path), _PINNED, wrong]) == 1
        assert "key" in capsys.readouterr().err or wrong == "?"
    assert [each.name for each in tmp_path.iterdir()] == ["floor.json"]
