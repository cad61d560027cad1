"""`rescind audit-log`, against a server."""

import base64
import csv
import json
from pathlib import Path
from typing import Any

import pytest

from infra.cli.audit_log import stream_export
from infra.cli.client import ApiClient
from infra.cli.errors import BadResponse
from infra.cli.profiles import Profile
from shared.authorizer.http1 import Response
from tests.infra.cli.conftest import Shell
from tests.kit.processes import LocalServer
from tests.kit.waiting import soon

_WHY = ("--reason", "mistake")


def test_who_did_what_to_a_warrant(admin: Shell) -> None:
    """F344a: `audit-log list --warrant` shows what happened to a warrant, at any time."""
    assert admin.run("revoke", "svc_wrt_audited", "--reason", "stolen").code == 0
    found = admin.json("audit-log", "list", "--warrant", "svc_wrt_audited")["audit_logs"]
    assert [(each["action"], each["details"]["reason"]) for each in found] == [
        ("revocation.create_batch", "stolen")
    ]
    assert admin.run("audit-log", "list", "--warrant", "svc_wrt_audited", columns=200).code == 0
    assert admin.json("audit-log", "list", "--action", "key.rotate", "-n", "1")["audit_logs"] == []


def test_a_batch_is_one_row(admin: Shell) -> None:
    """F344e: `audit-log list` shows one row for each batch, with the number of warrants."""
    warrants = [f"svc_wrt_row{number}" for number in range(30)]
    assert admin.run("revoke", *warrants, "--reason", "stolen", "--yes").code == 0
    batch = admin.json("revocations", "list", "-n", "1")["revocations"][0]["batch_id"]
    entries = admin.json("audit-log", "list", "--batch", batch)["audit_logs"]
    assert len(entries) > 1
    shown = admin.run("audit-log", "list", "--batch", batch, columns=200).out
    assert shown.count(batch) == 1
    assert f'"warrants": 30, "entries": {len(entries)}, "reason": "stolen"' in shown
    assert admin.run("unrevoke", *_WHY, "--batch", batch, "--yes").code == 0
    each = admin.run("audit-log", "list", "--batch", batch, "--expand-batches", columns=200).out
    assert each.count(batch) >= len(entries)
    summary = admin.run(
        "audit-log", "list", "--batch", batch, "--action", "revocation.batch", columns=500
    ).out
    assert '"asked": 30' in summary
    both = admin.run("audit-log", "list", "--warrant", warrants[0], columns=200).out
    assert both.count('"warrants": ') == 2


def test_an_export_becomes_a_file(admin: Shell, tmp_path: Path) -> None:
    """F344b: `audit export --file` writes a whole export as NDJSON or CSV, or no file."""
    for number in range(2):
        assert admin.run("revoke", f"svc_wrt_export-{number}", "--reason", "lost").code == 0
    query = ("--action", "revocation.create_batch")
    lines, table = tmp_path / "audit.ndjson", tmp_path / "audit.csv"
    assert admin.run("audit-log", "export", "--file", lines, *query).code == 0
    assert admin.run("audit-log", "export", "--format", "csv", "--file", table, *query).code == 0
    *entries, last = [json.loads(line) for line in lines.read_text().splitlines()]
    assert "checkpoint" in last
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 2
    assert [row["id"] for row in rows] == [each["entry"]["id"] for each in entries]
    refused = admin.run("audit-log", "export", "--file", tmp_path / "none", "--action", "nothing")
    assert refused.code == 1
    assert sorted(tmp_path.glob("*audit*")) == [table, lines]
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("cut", [b"", b'{"entry":{}}\n', b'{"entry":{}}\n{"chec'])
def test_an_export_that_was_cut_is_refused(
    service: LocalServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cut: bytes
) -> None:
    """LOG-22, F344c: An export whose last line is missing is not taken for a whole one."""

    def send(*_: object, **__: object) -> Any:
        return Response(200, {}, cut)

    with ApiClient(Profile(tmp_path, service.url, service.admin_key)) as api:
        monkeypatch.setattr(api, "send", send)
        with pytest.raises(BadResponse):
            list(stream_export(api, {}))


def test_parts_are_joined(
    admin: Shell, service: LocalServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """LOG-22, F344d: The parts of an export are joined into one, with one last line."""
    parts = [
        Response(200, {"x-next-cursor": "c"}, b'{"entry":{"n":1}}\n{"next": "c"}\n'),
        Response(200, {}, b'{"entry":{"n":2}}\n{"checkpoint": null}\n'),
    ]
    with ApiClient(Profile(tmp_path, service.url, service.admin_key)) as api:
        monkeypatch.setattr(api, "send", lambda *_, **__: parts.pop(0))
        whole = b"".join(stream_export(api, {}))
    assert whole == b'{"entry":{"n":1}}\n{"entry":{"n":2}}\n{"checkpoint": null}\n'


@pytest.mark.slow
def test_verify_pins_what_it_verified(admin: Shell, tmp_path: Path) -> None:
    """LOG-25, F348a: `audit-log verify` pins the checkpoint, and fails if the next one differs."""
    assert admin.run("revoke", "svc_wrt_verify", "--reason", "stolen").code == 0
    soon(lambda: admin.json("audit-log", "verify")["size"])
    assert admin.json("audit-log", "verify")["whole"]
    (pin,) = admin.home.rglob("audit-*.json")
    assert admin.run("audit-log", "verify").code == 0
    kept = json.loads(pin.read_text())
    origin, size, _, rest = kept["checkpoint"].split("\n", 3)
    other = base64.b64encode(bytes(32)).decode()
    pin.write_text(json.dumps({**kept, "checkpoint": f"{origin}\n{size}\n{other}\n{rest}"}))
    ended = admin.run("audit-log", "verify")
    assert ended.code == 1
    assert f"WRONG: history before {size} was rewritten" in ended.err
    assert json.loads(pin.read_text())["checkpoint"].split("\n")[2] == other
    assert admin.run("audit-log", "verify", "--reset-pin").code == 0
    assert admin.run("audit-log", "verify").code == 0
    kept_elsewhere = tmp_path / "checkpoint"
    assert admin.run("audit-log", "verify", "--checkpoint", kept_elsewhere).code == 2
    kept_elsewhere.write_text("nothing")
    assert admin.run("audit-log", "verify", "--checkpoint", kept_elsewhere).code == 2
    kept_elsewhere.write_text(json.loads(pin.read_text())["checkpoint"])
    assert admin.run("audit-log", "verify", "--checkpoint", kept_elsewhere).code == 0
