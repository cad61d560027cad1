"""The commands of the client for people."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from shared.authorizer.__main__ import main
from shared.authorizer.saved_state import FileStateStore
from tests.authorizer.feeds import TENANT, public, signer
from tests.authorizer.service import KEY, PIN, Response, Service, serving


def arguments(command: str, service: Service, *more: str) -> list[str]:
    return [command, service.url, "--tenant", TENANT, "--trust-pin", PIN, *more]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESCIND_API_KEY", KEY)


def test_status_prints_what_a_client_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Service()) as service:
        service.vouch()
        service.revoke("svc_wrt_a", "svc_wrt_b")
        assert main(arguments("status", service, "--state-dir", str(tmp_path))) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"sequence: 1", "revoked: 2", "stale: False", "refusals: {}"} <= {*lines}
    assert f"signer: {public(signer()).hex()}" in lines
    saved = FileStateStore(tmp_path).load()
    assert saved is not None
    assert saved.sequence == 1


def test_watch_prints_each_event(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    with serving(Service()) as service:
        service.vouch()
        # Not `time.sleep` itself, which the service uses too.
        clock = SimpleNamespace(sleep=interrupt, strftime=time.strftime)
        monkeypatch.setattr("shared.authorizer.__main__.time", clock)
        assert main(arguments("watch", service)) == 0
    assert "StateAdvanced(before=None, after=0, count=0)" in capsys.readouterr().out


def test_what_goes_wrong_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
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
    monkeypatch.setenv("RESCIND_API_KEY", KEY)
    assert main(["status", service.url, "--tenant", TENANT, "--trust-pin", PIN[1:]]) == 1
    assert "a pin must be 64 hexadecimal digits" in capsys.readouterr().err
