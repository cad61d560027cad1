"""The cases of `cases.toml`. An unknown field in a case is an error."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

# Part of each API key. It must never be printed.
SECRET: Final = "SECRETKEY"
API_KEY: Final = f"svc_{SECRET}-0123456789"

FEED: Final = "/v1/revocations/feed"

Step = str | float
Field = tuple[str, str]


@dataclass(frozen=True)
class Rule:
    """One way in which responses differ from honest ones; `cases.toml` describes the fields."""

    after: float = 0.0
    until: float = float("inf")
    nth: int = 0
    every: int = 1
    opened: float = float("inf")
    path: str = FEED
    request_drop: tuple[str, ...] = ()
    max_wait_seconds: float = float("inf")
    timeout: float = float("inf")
    cache: float = 0.0
    status: int = 0
    body: str = ""
    drop: tuple[str, ...] = ()
    change: tuple[tuple[str, str, str], ...] = ()
    add: tuple[Field, ...] = ()
    coding: str = ""
    chunked: str = ""
    line: str = "\r\n"
    padding: int = 0
    send: tuple[Step, ...] = ("<response>",)
    repeat: int = 1


@dataclass(frozen=True)
class Case:
    """One case: the rules of the server, and the bounds that a subject must keep."""

    name: str
    why: str = ""
    seconds: float = 12.0
    max_staleness: float = 6.0
    max_wait_seconds: int = 10
    revoke_at: float = 2.5
    rule: tuple[Rule, ...] = ()
    api_key: str = API_KEY
    key_sent: str = API_KEY
    key_refused: bool = False
    polls_max: int = 20
    refused_max: float = 0.0
    failures_min: int = 0
    failures_max: int = 1000
    ends: str = "clear"


@cache
def load_cases() -> tuple[Case, ...]:
    """Return all cases."""
    read = tomllib.loads(Path(__file__).with_name("cases.toml").read_text(encoding="utf-8"))
    return tuple(_case(each) for each in read["case"])


def _case(members: dict[str, Any]) -> Case:
    rules = tuple(Rule(**_frozen(each)) for each in members.pop("rule", []))
    return Case(rule=rules, **_frozen(members))


def _frozen(members: dict[str, Any]) -> dict[str, Any]:
    return {name: _deep(value) for name, value in members.items()}


def _deep(value: Any) -> Any:
    return tuple(map(_deep, value)) if isinstance(value, list) else value
