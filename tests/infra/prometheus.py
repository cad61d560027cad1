"""The rules for Prometheus, as `infra/alerts.yaml` has them."""

from typing import Any, Final

import yaml

from tests.kit.processes import ROOT

RULES: Final = ROOT / "infra" / "alerts.yaml"
ALERTS: Final[list[dict[str, Any]]] = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
