"""Checks that an artefact runs on the platform that it was built for (docs/adr/22)."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from shared.errors import InvalidSettings

# `infra.build` writes the target of the artefact into it. A checkout has no such file.
TARGET_FILE: Final = "target.json"

# Lambda's names of architectures that differ from Linux's names.
_ARCHITECTURES: Final = {"aarch64": "arm64"}
# The suffix of a restored table prefix. The name of a stage never ends like this (template.yaml).
_RESTORED: Final = re.compile(r"-(r[1-9]-)$")


def check(folder: Path, machine: str, environment: Mapping[str, str]) -> None:
    """Reject an artefact that was built for another architecture or other tables.

    `folder` contains the artefact, `machine` is Linux's name of the processor, and `environment`
    has the settings. A folder without an artefact passes. Raises `InvalidSettings` with the remedy.
    Without this check, a library would fail later, or the wrong tables would be used.
    """
    try:
        target = json.loads((folder / TARGET_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    built, here = target["architecture"], _ARCHITECTURES.get(machine, machine)
    problems: list[str] = []
    if here != built:
        problems.append(
            f"this artefact is built for {built} and runs on {here}; build it with"
            f" `make build ARCHITECTURE={here}`, or deploy with Architecture={built}"
        )
    restored = _RESTORED.search(environment.get("RESCIND_STORE", ""))
    tables = restored[1] if restored else ""
    if (wanted := target["parameters"].get("RestoredAs", tables)) != tables:
        problems.append(
            f"this artefact is built for RestoredAs={wanted} and deployed with RestoredAs={tables};"
            f" deploy with the parameters in .build/app/parameters.yaml"
        )
    if problems:
        raise InvalidSettings(*problems)
