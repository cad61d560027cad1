"""The sessions in the documentation are run as they stand, against a server of their own."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

from shared import wiring
from shared.errors import InvalidApiKey
from shared.model import times
from shared.model.callers import Scope
from shared.model.signing_keys import KeyStatus, SigningKeyType
from shared.operations.access import api_keys
from shared.operations.changes import key_revocation, signing_keys, srl
from shared.operations.operator import onboarding
from tests import aws_local
from tests.infra import console
from tests.infra.terminal import URL, Terminal, check_session, check_traces
from tests.kit import past, postgresql
from tests.kit.processes import HOST, ROOT, Group, answers, environment, free_port, local_server
from tests.kit.waiting import soon

_BLOCK = re.compile(r"^( *)```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def _blocks(document: str) -> list[str]:
    found = _BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))
    return [dedent(block) for _, block in found]


@pytest.mark.slow_on("docs/signing")
@pytest.mark.parametrize("document", ["README.md", "docs/signing-keys.md"])
def test_a_documented_session_works(document: str, tmp_path: Path) -> None:
    """F145d: The documented commands work and leave no file or readable secret behind."""
    with local_server(tmp_path / ".data") as server:
        check_session(document, tmp_path, url=server.url)


@pytest.mark.slow
def test_the_operators_commands_work(tmp_path: Path) -> None:
    """F145f: The operator's first commands in docs/one-machine.md work and keep secrets private."""
    (block,) = (each for each in console.blocks("docs/one-machine.md") if "create acme" in each)
    with local_server(tmp_path / ".data"), Terminal(tmp_path) as terminal:
        before = set(tmp_path.iterdir())
        said = terminal.type(block)
        left = set(tmp_path.iterdir()) - before
    assert re.search(r"^acme\b", said, re.MULTILINE)
    assert said.endswith("All is well.\n")
    assert {path.name for path in left} == {"acme.key", "acme-2.key", "monday"}
    check_traces(tmp_path, left)


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))], ids=str)
def test_documented_requests_do_not_fail_in_silence(page: Path) -> None:
    """F145e: Documented curl commands print errors and end with a failure code."""
    commands = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for command in re.findall(r"\bcurl +-.*(?:\$URL|\$@).*", commands):
        assert re.search(r"-sSL? .*--fail-with-body|-sSL? -o /dev/null -w", command), command


@pytest.mark.slow
@pytest.mark.parametrize("ago", [timedelta(minutes=20), timedelta(days=3)], ids=str)
def test_the_documented_restore_works(tmp_path: Path, ago: timedelta) -> None:
    """F50d, F51, F1710: The commands of docs/restore.md restore one machine after a key has leaked.

    The backup is as old as a backup is: the server that served then has a clock of that time.
    """
    prepare, theft, restore, review, proof = _blocks("docs/restore.md")
    with Terminal(tmp_path) as terminal:
        with local_server(tmp_path / ".data", program=past.program(ago)) as server:
            terminal.type(prepare.replace(URL, server.url))
            assert len(re.findall(r"^status +revoked", terminal.type(theft), re.MULTILINE)) == 2
            server.interrupt()
        output = terminal.type(restore)
        assert "Revoked again: API key svc_ak_" in output
        assert "Revoked again: signing key svc_key_" in output
        assert "Unknown: The tables (keys and revocations) are older than SRL version " in output
        assert "Review: active API key svc_ak_" in output
        assert "Unknown: Horizon: revocations and ended keys and accounts until " in output
        assert "Traceback" not in output
        assert terminal.type(review).endswith("All is well.\n")
        with local_server(tmp_path / ".data") as server:
            seen = terminal.type(proof.replace(URL, server.url))
    assert "revoked" in seen.partition("\n")[0]
    assert re.search(r"^status +revoked", seen, re.MULTILINE)


# The superuser needs no password; the two roles do.
_HBA: Final = """
local all all trust
host all owner all trust
host all all all scram-sha-256
"""


@pytest.mark.slow
def test_the_documented_way_to_postgresql_works(tmp_path: Path) -> None:
    """F660a: The commands of docs/homes.md make a database that two servers share.

    They run without TLS, which the PostgreSQL of the tests lacks.
    """
    desk = tmp_path / "desk"
    desk.mkdir()
    make, settings, setup, session = map(_without_tls, _blocks("docs/homes.md"))
    with ExitStack() as stack:
        database = stack.enter_context(postgresql.running())
        (database.folder / "data/pg_hba.conf").write_text(_HBA)
        postgresql.execute(database.url(), "SELECT pg_reload_conf()")
        path = f"{postgresql.binaries()}:{os.environ['PATH']}"
        home = {"RESCIND_CONFIG_DIR": str(tmp_path / "profiles"), "PGPORT": str(database.port)}
        terminal = stack.enter_context(Terminal(desk, home | {"PATH": path}))
        before = set(desk.iterdir())
        terminal.type(f'{make}\n{settings}\nrescind() {{ .venv/bin/rescind "$@"; }}\n{setup}')
        printed = terminal.type("env | grep -E '^(RESCIND_|PG)'")
        named = dict(line.split("=", maxsplit=1) for line in printed.splitlines())
        for shown, name in ((URL, "a"), (URL.replace("8080", "8081"), "b")):
            server = stack.enter_context(local_server(tmp_path / name, settings=named))
            session = session.replace(shown, server.url)
        said = terminal.type(session)
        assert re.search(r"^svc_wrt_laptop-17 +revoked .* stolen$", said, re.MULTILINE)
        left = set(desk.iterdir()) - before
    assert {each.name for each in left} == {"acme.key", "master.key", "pgpass", "root.key"}
    check_traces(desk, left)


def _without_tls(block: str) -> str:
    for shown in (
        " sslmode=verify-full sslrootcert=ca.crt",
        "?sslmode=verify-full&sslrootcert=$PWD/ca.crt",
    ):
        block = block.replace(shown, "")
    return block.replace("db.example.com", HOST).replace("user=postgres", "user=owner")


# Programs of a tenant, and what they did: one key leaks, one is stolen, one revokes too much.
_BEFORE_THE_INCIDENTS: Final = """
member() { .venv/bin/python -c "import json, sys; print(json.load(sys.stdin)$1)"; }
LEAKED=$(rescind api-keys create leaked --scope admin -o json | member '["id"]')
STOLEN=$(rescind signing-keys create root stolen -o json | member '["id"]')
curl -sS --fail-with-body "$URL/v1/keys/$STOLEN/sign" \\
  -H "Authorization: Bearer $(cat .data/admin.key)" -H "Content-Type: application/json" \\
  -d '{"payload": "aGk=", "warrant_id": "svc_wrt_signed"}'
SINCE=$(date -u +%Y-%m-%dT%H:%M:%SZ)
rescind api-keys create culprit --scope admin -o json > culprit.json
CULPRIT=$(member '["id"]' < culprit.json)
member '["key"]' < culprit.json | rescind login --profile culprit --url "$URL"
for WARRANT in a b c; do
  rescind revoke --profile culprit "svc_wrt_$WARRANT" --reason mistake
done
rescind revoke svc_wrt_right --reason stolen
"""


@pytest.mark.slow
def test_the_documented_incidents_are_ended(tmp_path: Path) -> None:
    """F110c, F111, F901a: The commands of docs/runbook.md end each incident on one machine."""
    prepare, *blocks = _blocks("docs/runbook.md")
    home = {"RESCIND_CONFIG_DIR": str(tmp_path / "profiles")}
    with (
        local_server(tmp_path / ".data") as server,
        Terminal(tmp_path, home, seconds=480) as terminal,
    ):
        terminal.type(prepare.replace(URL, server.url))
        # The publisher renews documents, and publishes, by itself.
        _end_the_incidents(terminal, blocks, ".data/root.key", lambda: None)
        # The pin of before is of no use then.
        lost = next(each for each in blocks if "replace-root" in each)
        assert "pin" in terminal.type(f"mv .data/root.key stolen.key\n{lost}")
        assert "(root)" in terminal.type('rescind trust show --trust-pin "$PIN" 2>&1 || true')


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("aws") is None, reason="needs the AWS command line")
@pytest.mark.skipif(not aws_local.is_installed(), reason="needs make .tools/ministack/.installed")
def test_the_documented_incidents_are_ended_on_aws(tmp_path: Path) -> None:
    """F110d, F111, F901b: The commands of docs/runbook.md end each incident on emulated AWS."""
    prepare, *blocks = _blocks("docs/runbook.md")
    page = (ROOT / "docs/runbook.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ ((?:KMS_KEY=\$\(aws|aws kms).*)", page, re.MULTILINE)
    with ExitStack() as stack:
        settings = stack.enter_context(aws_local.serving(free_port()))
        # Only the function that renews documents has it.
        root = {"RESCIND_ROOT": settings.pop("RESCIND_ROOT")}
        port = free_port()
        command = [sys.executable, "-m", "uvicorn", "infra.server.app:app", f"--port={port}"]
        server = Group(command, tmp_path / "log", lambda: answers(port, 401), settings)
        server.start()
        stack.callback(server.kill)
        home = {"RESCIND_CONFIG_DIR": str(tmp_path / "profiles")}
        terminal = stack.enter_context(Terminal(tmp_path, settings | home, seconds=480))
        (tmp_path / ".data").mkdir(mode=0o700)
        terminal.type(".venv/bin/rescind tenant create acme > .data/admin.key")
        url = f"http://127.0.0.1:{port}"
        here = {URL: url, "TENANT=local": "TENANT=acme", "export RESCIND_DATA=.data\n": ""}
        for shown, typed in here.items():
            prepare = prepare.replace(shown, typed)
        terminal.type(prepare)
        # What the streams have `feed-publication` and `trust-renewal` do.
        streams = partial(
            subprocess.run,
            [sys.executable, "-c", _STREAMS],
            cwd=ROOT,
            env=environment() | settings | root,
            check=True,
            timeout=60,
        )
        _end_the_incidents(terminal, blocks, root["RESCIND_ROOT"], streams)
        name, state, cancel, enable = (
            line.replace("rescind-prod", f"rescind-{aws_local.STAGE}") for line in commands
        )
        terminal.type(name)
        terminal.type('aws kms schedule-key-deletion --key-id "$KMS_KEY"')
        assert "PendingDeletion" in terminal.type(state)
        terminal.type(f"{cancel}\n{enable}")
        assert "Enabled" in terminal.type(state)


_STREAMS: Final = """
from functions.feed_publication.handler import handler as publish
from functions.trust.trust_renewal_handler import handler as renew
from shared import wiring
from shared.operations.base import tenants
marks = [f"{each}#0" for each in tenants.identifiers(wiring.from_environment())]
publish({"Records": [{"dynamodb": {"Keys": {"sk": {"S": each}}}} for each in marks]}, None)
renew({}, None)
"""


def _end_the_incidents(
    terminal: Terminal, blocks: list[str], present: str, streams: Callable[[], object]
) -> None:
    """End each incident; `present` is the root of the service, and `streams` does what they do."""
    api_key, signing_key, signer, edge, root, _, expired, mistake, undo, locked_out = blocks
    terminal.type(_BEFORE_THE_INCIDENTS)
    assert "revoked" in terminal.type(api_key)
    reach = terminal.type(signing_key)
    assert re.search(r"warrants +1\b", reach)
    streams()
    terminal.type(_BEFORE_THE_THEFTS)
    follows = 'rescind trust show --trust-pin "$PIN" -o json'
    before = json.loads(terminal.type(follows))["signers"]
    assert "revoked" in terminal.type(signer)
    streams()
    soon(lambda: json.loads(terminal.type(follows))["signers"] != before)
    assert "revoked" in terminal.type(edge)
    assert "(invalid_api_key)" in terminal.type("rescind whoami --profile edge 2>&1 || true")
    _end_the_theft_of_a_root(terminal, root, present, follows)
    output = terminal.type(expired)
    assert "All is well.\n" in output
    assert "SRL(s). No other SRL was due." in output
    mistaken = terminal.type(mistake)
    assert all(f"svc_wrt_{each}" in mistaken for each in "abc")
    terminal.type(undo)
    listed = json.loads(terminal.type(_LISTED))["warrants"]
    assert [name for name, found in listed.items() if found] == ["svc_wrt_right", "svc_wrt_signed"]
    assert "admin" in terminal.type(locked_out)


# Roots of people, and an API key for a relay.
_BEFORE_THE_THEFTS: Final = """
(umask 077 && echo "a long passphrase" > passphrase)
signs() { rescind trust sign "$1" --key "root-$2.key" --passphrase-file passphrase --yes; }
made() {
  rescind trust new-root --out "root-$1.key" --passphrase-file passphrase -o json |
    member '["public_key"]'
}
ROOT_1=$(made 1) ROOT_2=$(made 2) ROOT_3=$(made 3) ROOT_4=$(made 4)
PIN=$(rescind trust show -o json | member '["pin"]')
rescind api-keys create edge --scope authorizer -o json > edge.json
EDGE=$(member '["id"]' < edge.json)
member '["key"]' < edge.json | rescind login --profile edge --url "$URL"
"""


def _end_the_theft_of_a_root(terminal: Terminal, root: str, present: str, follows: str) -> None:
    """Three people replace the root of the service; then the third of them is robbed."""
    terminal.type(
        f"rescind trust rotate-root --key {present} --threshold 2 --out three.json --yes \\\n"
        '  --new-public "$ROOT_1" --new-public "$ROOT_2" --new-public "$ROOT_3"\n'
        "signs three.json 1 && signs three.json 3 && rescind trust publish three.json"
    )
    assert json.loads(terminal.type(follows))["threshold"] == 2
    typed = root.replace(".key", ".key --passphrase-file passphrase --yes")
    assert "version" in terminal.type(typed)
    roots = json.loads(terminal.type(follows))["roots"]
    kept = terminal.type('echo "$ROOT_1 $ROOT_2 $ROOT_4"').split()
    assert sorted(roots) == sorted(kept)
    # Thieves of the third root sign nothing that is published.
    stolen = "rescind trust draft --out thief.json && signs thief.json 3 2>&1 || true"
    assert "is not a root of this document" in terminal.type(stolen)


# By the list that verifiers get, not by the records.
_LISTED: Final = "rescind srl check svc_wrt_{a,b,c,right,signed} -o json || true"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("aws") is None, reason="needs the AWS command line")
@pytest.mark.skipif(not aws_local.is_installed(), reason="needs make .tools/ministack/.installed")
def test_the_documented_restore_on_aws_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F51d, F50: The commands of docs/deploy.md restore the tables on an emulated AWS.

    The emulator restores tables as they are now; so they are restored before the theft.
    """
    restore, recover, review, read = map(_on_local_stage, _blocks("docs/deploy.md"))
    with ExitStack() as stack:
        settings = stack.enter_context(aws_local.serving(free_port()))
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        ports = stack.enter_context(closing(wiring.build(wiring.settings(settings))))
        onboarding.create_tenant(ports, handle="acme")
        operator = onboarding.operator(ports, handle="acme")
        leaked = api_keys.create(ports, operator, name="leaked", scopes=(Scope.ADMIN,))
        stolen = signing_keys.create(ports, operator, type_=SigningKeyType.ROOT, name="stolen")
        srl.regenerate(ports, operator)
        terminal = stack.enter_context(Terminal(tmp_path, settings))
        terminal.type(restore)
        api_keys.revoke(ports, operator, key_id=leaked.api_key.id)
        key_revocation.revoke(ports, operator, key_id=stolen.id, reason="stolen")
        srl.regenerate(ports, operator)
        output = terminal.type(recover)
        assert f"Revoked again: API key {leaked.api_key.id}" in output
        assert f"Revoked again: signing key {stolen.id}" in output
        assert "Review: active API key svc_ak_" in output
        assert terminal.type(review).endswith("All is well.\n")
        assert '"key.revoke"' in terminal.type(read)
        there = settings | {"RESCIND_STORE": f"{settings['RESCIND_STORE']}r1-"}
        restored = stack.enter_context(closing(wiring.build(wiring.settings(there))))
        with pytest.raises(InvalidApiKey):
            api_keys.authenticate(restored, leaked.secret)
        operator = onboarding.operator(restored, handle="acme")
        key = signing_keys.get(restored, operator, key_id=stolen.id)
        assert key.status is KeyStatus.REVOKED


def _on_local_stage(block: str) -> str:
    now = times.format_utc(datetime.now(UTC) - timedelta(minutes=1))
    moment = re.sub("MOMENT=.*", f"MOMENT={now}", block)
    return moment.replace("STAGE=prod", f"STAGE={aws_local.STAGE}")
