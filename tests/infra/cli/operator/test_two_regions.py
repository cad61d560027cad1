"""A failover between two emulated regions, by the command as it is, of a copy that was torn."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from typing import Final

import pytest

from shared import wiring
from shared.ports import Ports
from tests import aws_local
from tests.kit.processes import ROOT, free_port
from tests.kit.tenants import Tenant
from tests.kit.waiting import soon
from tests.operations.replicas import Original, arrived, put, revoked_here

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not aws_local.is_installed(), reason="needs make .tools/ministack/.installed"
    ),
]

FIRST: Final = "eu-west-1"
SECOND: Final = "eu-central-1"
# Nothing answers there.
LOST: Final = ("--from", FIRST, "--to", SECOND, "--lost-region", "--from-endpoint")
NOWHERE: Final = "http://127.0.0.1:1"


@pytest.fixture
def regions(tmp_path: Path) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """The settings of two regions. A key file stands for the multi-Region key of KMS."""
    wiring.create_master_key(tmp_path / "master.key")
    key = {"SVC_KEYS": f"file:{tmp_path / 'master.key'}"}
    with ExitStack() as stack:
        first = stack.enter_context(aws_local.serving(free_port(), region=FIRST))
        second = stack.enter_context(aws_local.serving(free_port(), region=SECOND))
        yield first | key, second | key


def _opened(settings: dict[str, str], environment: pytest.MonkeyPatch) -> Ports:
    for name, value in settings.items():
        environment.setenv(name, value)
    return wiring.assemble(wiring.settings(settings))


def test_a_torn_copy_takes_over(
    regions: tuple[dict[str, str], dict[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """OPS-24, F652a: From a torn copy in another region the command goes on, also after a kill."""
    first, second = regions
    with closing(_opened(first, monkeypatch)) as plain:
        original = Original.of(plain)
        tenant = Tenant.create(original.ports)
        created = len(original.updates)
        _live(original.ports, tenant)
    with closing(_opened(second, monkeypatch)) as copy:
        late = len(original.updates) - created
        put(copy, arrived(original.updates, Random(5), late=late // 2))
        before = revoked_here(copy, tenant)
        environment = os.environ | second
        _kill_once_begun(environment, tmp_path / "killed.log")
        ended = _run(environment, "failover", *LOST, NOWHERE)
        assert ended.returncode in (0, 3), ended.stderr
        assert f"{SECOND} is in charge" in ended.stderr
        assert before
        assert before <= set(tenant.published(copy).revoked_ids)
        assert _run(environment, "failover", *LOST, NOWHERE).returncode == 0
        examined = _run(environment, "doctor")
        assert examined.returncode == 0, examined.stderr


def _live(ports: Ports, tenant: Tenant) -> None:
    key = tenant.key(ports)
    for number in range(6):
        tenant.revoke(ports, f"svc_wrt_{number}")
        tenant.sign(ports, key, f"svc_wrt_signed-{number}")
        if number % 2:
            tenant.regenerate(ports)
    tenant.revoke_key(ports, key)
    tenant.api_key(ports)


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "infra.cli", *words]


def _run(environment: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        _command(*words), cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def _kill_once_begun(environment: dict[str, str], log: Path) -> None:
    """Kill the command when it has begun to recover."""
    with log.open("w") as output:
        process = subprocess.Popen(
            _command("failover", *LOST, NOWHERE), cwd=ROOT, env=environment, stderr=output
        )
        soon(
            lambda: "Repaired" in log.read_text() or process.poll() is not None or None, seconds=120
        )
        process.send_signal(signal.SIGKILL)
        process.wait()
