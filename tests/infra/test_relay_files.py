"""The unit and the compose file of a relay start it as its command line says, with few rights."""

import configparser
import re
import shlex
from typing import Any, Final

import yaml

from tests.kit.processes import ROOT

_FILES: Final = ROOT / "infra" / "relay"


def _options() -> set[str]:
    """The options that the command has."""
    return set(re.findall(r"--[a-z-]+", (ROOT / "shared/authorizer/__main__.py").read_text()))


def test_the_unit_starts_a_relay_with_few_rights() -> None:
    """F303e: The unit of systemd runs a relay as a user of its own that can write to its state."""
    unit = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(_FILES / "rescind-relay.service")
    service = unit["Service"]
    command = shlex.split(service["ExecStart"].replace("\\\n", " "))
    assert command[1:4] == ["-m", "rescind_authorizer", "relay"]
    assert {each for each in command if each.startswith("--")} <= _options()
    assert service["ProtectSystem"] == "strict"
    assert {service[name] for name in ("DynamicUser", "NoNewPrivileges", "ProtectHome")} == {"yes"}
    assert service["CapabilityBoundingSet"] == ""
    assert service["StateDirectory"] == "rescind-relay"


def test_the_compose_file_starts_a_relay_with_few_rights() -> None:
    """F303f: The compose file runs a relay read-only and without rights, and opens no port."""
    document: dict[str, Any] = yaml.safe_load((_FILES / "compose.yaml").read_text())
    (service,) = document["services"].values()
    assert service["entrypoint"][1:] == ["-m", "shared.authorizer", "relay"]
    assert {each.split("=")[0] for each in service["command"] if each[0] == "-"} <= _options()
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "ports" not in service
    container = yaml.safe_load((ROOT / "infra/container/compose.yaml").read_text())
    assert service["image"] == container["services"]["rescind"]["image"]
