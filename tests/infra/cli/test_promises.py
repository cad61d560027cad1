"""What the pages promise of single commands."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.infra.cli.conftest import Shell
from tests.kit.processes import LocalServer

_BOM = b"\xef\xbb\xbf"


def test_a_batch_that_was_refused_has_nothing_to_continue(
    admin: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1715a: If the service refuses the first call of a batch, only the refusal is printed."""
    made = admin.json("api-keys", "create", "reader", "--scope", "read-only")
    monkeypatch.setenv("RESCIND_API_KEY", made["key"])
    for form in ("table", "json"):
        ended = admin.run("revoke", "svc_wrt_refused", "--reason", "r", "-o", form)
        assert (ended.code, ended.out) == (1, "")
        assert len(ended.err.splitlines()) == 1
        assert "insufficient_scope" in ended.err


def test_a_key_in_place_of_a_profile_is_said(
    admin: Shell, service: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1715b: If the environment replaces a profile, a message says so, and no result does."""
    said = "RESCIND_URL and RESCIND_API_KEY replace the profile default.\n"
    assert admin.run("whoami").err == ""
    assert admin.run("login", "--url", service.url, stdin=service.admin_key).code == 0
    ended = admin.run("whoami", "-o", "json")
    assert ended.err == said
    assert json.loads(ended.out)["scopes"] == ["admin"]
    monkeypatch.delenv("RESCIND_URL")
    monkeypatch.delenv("RESCIND_API_KEY")
    assert admin.run("whoami").err == ""


def test_a_warrant_names_its_change(admin: Shell) -> None:
    """F1715c: `changes show` takes a revoked warrant, and says what to do with another one."""
    assert admin.run("revoke", "svc_wrt_change-1", "--reason", "lost").code == 0
    found = admin.json("changes", "show", "svc_wrt_change-1")
    assert (found["name"], found["reason"]) == ("svc_wrt_change-1", "lost")
    ended = admin.run("changes", "show", "svc_wrt_change-2")
    assert (ended.code, ended.out) == (2, "")
    assert "has no revocation" in ended.err


def test_a_key_expires_unless_it_never_shall(admin: Shell) -> None:
    """F1715d: A new API key expires after 90 days, unless the command says otherwise."""
    create = ("api-keys", "create", "ci", "--scope", "revoker")
    due = datetime.now(UTC) + timedelta(days=90)
    found = datetime.fromisoformat(admin.json(*create)["expires_at"])
    assert abs(found - due) < timedelta(minutes=10)
    assert admin.json(*create, "--never-expires")["expires_at"] is None
    at = "2098-01-01T00:00:00Z"
    assert admin.json(*create, "--expires-at", at)["expires_at"] == at
    assert admin.run(*create, "--expires-at", at, "--never-expires").code == 2


@pytest.mark.parametrize("stream", [False, True], ids=["file", "stdin"])
def test_a_byte_order_mark_is_no_part_of_a_document(
    admin: Shell, tmp_path: Path, stream: bool
) -> None:
    """F1715e: Documents are read with or without a byte order mark, also from standard input."""
    file = tmp_path / "marked"

    def given(content: bytes) -> bytes:
        file.write_bytes(_BOM + content)
        return _BOM + content

    name = "-" if stream else str(file)
    body = given(b'{"warrant_id": "svc_wrt_mark", "reason": "r"}')
    ended = admin.run("api", "POST", "/v1/revocations", "--input", name, stdin=body)
    assert ended.code == 0, ended.err
    saved = tmp_path / "list.json"
    assert admin.run("srl", "fetch", saved).code == 0
    signers = admin.json("srl", "signers", "list")["keys"]
    keys = [word for each in signers for word in ("--key", each["public_key"])]
    ended = admin.run("srl", "verify", name, *keys, stdin=given(saved.read_bytes()))
    assert ended.code == 0, ended.out + ended.err
    ended = admin.run("api", "POST", "/v1/revocations", "--input", name, stdin=given(b"[" * 99_999))
    assert (ended.code, "is not JSON" in ended.err) == (2, True)
