"""What is deployed, as the templates say it, with the stage of the tests filled in."""

import re
from typing import Any, Final

from tests.kit.aws import FUNCTIONS, LEFT_OUT, template

ALARMS: Final = "infra/alarms.yaml"
SECOND: Final = "infra/second_region.yaml"
RESOURCES: Final[dict[str, Any]] = template(FUNCTIONS)["Resources"]


def of_kind(kind: str, name: str = FUNCTIONS) -> dict[str, dict[str, Any]]:
    """The properties of all resources of a kind, by name."""
    return {
        logical: resource.get("Properties", {})
        for logical, resource in template(name)["Resources"].items()
        if resource["Type"] == kind
    }


LAMBDAS: Final = of_kind("AWS::Serverless::Function")
GLOBALS: Final[dict[str, Any]] = template(FUNCTIONS)["Globals"]["Function"]
ROLES: Final = of_kind("AWS::IAM::Role")


def entry_point(name: str) -> str:
    """The name of a function in snake case: the folder below `functions/` that has `handler.py`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def variables(name: str) -> dict[str, str]:
    """The environment of a function."""
    own = LAMBDAS[name].get("Environment", {}).get("Variables", {})
    return dict(GLOBALS["Environment"]["Variables"] | own)


def events(name: str, kind: str) -> list[dict[str, Any]]:
    """What of this kind calls a function."""
    return [each["Properties"] for each in LAMBDAS[name]["Events"].values() if each["Type"] == kind]


def managed(name: str) -> list[dict[str, Any]]:
    """What a policy allows that is attached by hand, such as `OperatorPolicy`."""
    return list(of_kind("AWS::IAM::ManagedPolicy")[name]["PolicyDocument"]["Statement"])


def statements(name: str, conditions: str = "items") -> list[dict[str, Any]]:
    """What the role of a function allows, with this value of the parameter `WriteConditions`."""
    (policy,) = ROLES[f"{name}Role"]["Policies"]
    return [_chosen(each, conditions) for each in policy["PolicyDocument"]["Statement"]]


# The values of `WriteConditions` with which a condition of the template holds.
_LIMITING: Final = {"LimitsItems": {"items"}, "LimitsSignIn": {"items", "sign-in"}}


def _chosen(statement: dict[str, Any], conditions: str) -> dict[str, Any]:
    match statement:
        case {
            "Condition": {"Fn::If": [("LimitsItems" | "LimitsSignIn") as limit, *branches]},
            **rest,
        }:
            chosen = branches[conditions not in _LIMITING[limit]]
            return rest if chosen == LEFT_OUT else {**rest, "Condition": chosen}
        case _:
            return statement
