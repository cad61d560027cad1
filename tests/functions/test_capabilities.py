"""Capabilities: each folder of `functions/` with a domain of its own adds to the core."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import functions
from functions.webhooks.capability import Webhooks
from infra import data_folder
from shared import capabilities
from shared.capabilities import INSTALLED, Capabilities, Capability
from shared.errors import InvalidSettings
from shared.operations.changes import list_signers
from shared.operations.operator import consistency
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from tests.kit.processes import ROOT, environment
from tests.kit.tenants import Tenant

_FOLDERS = {
    path.parent.name
    for name in ("records.py", "operations.py")
    for path in Path(functions.__file__).parent.glob(f"*/{name}")
}


def test_each_folder_with_a_domain_is_installed() -> None:
    """Recoveries and migrations would forget a folder that is not installed."""
    assert {each.name for each in INSTALLED} == _FOLDERS


@pytest.mark.parametrize("point", sorted(Capability.__abstractmethods__))
def test_a_capability_answers_at_each_extension_point(point: str) -> None:
    """A capability that omits an extension point cannot be created, so no process starts."""
    members = {name: member for name, member in vars(Webhooks).items() if name != point}
    incomplete: Any = type("Incomplete", Webhooks.__mro__[1:], members)
    with pytest.raises(TypeError, match=point):
        incomplete()


@pytest.mark.parametrize(
    "command", [("recover", "acme"), ("doctor",), ("tenant", "create", "beta")], ids=" ".join
)
def test_an_operator_s_command_has_all_capabilities(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """OPS-9, TOKEN-6: A process that runs one command alone has installed the capabilities."""
    data_folder.prepare(tmp_path)
    settings = environment() | data_folder.environment(tmp_path)
    for words in (("setup", "--tenant", "acme"), command):
        ended = subprocess.run(
            [sys.executable, "-m", "infra.cli", *words],
            env=settings,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "capabilities" not in ended.stdout + ended.stderr


def test_nothing_is_recovered_without_capabilities(
    ports: Ports, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOKEN-6, TRUST-16: A process without capabilities fails; it does not omit their steps."""
    empty = Capabilities()
    for module in (recovery, consistency, list_signers):
        monkeypatch.setattr(module, "INSTALLED", empty)
    assert capabilities.INSTALLED is not empty
    with pytest.raises(InvalidSettings, match="no capabilities"):
        recovery.recover(ports, tenant.operator)
    with pytest.raises(InvalidSettings, match="no capabilities"):
        consistency.repair(ports, tenant.operator)
    with pytest.raises(InvalidSettings, match="no capabilities"):
        list_signers.rotate(ports, tenant.operator)
