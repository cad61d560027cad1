"""Ports that break, or wait, exactly where a test says so."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from shared.ports import Ports
from tests.kit.intercepted import Call, OneByOne

R = TypeVar("R")
Hook = Callable[[], object]


class Crash(BaseException):
    """The process dies here: no `except Exception` may survive it."""


@dataclass
class Script:
    """What happens around each call to a port, by its number from 0.

    `before` runs ahead of the call, `after` once it took effect and its answer is on the way; a
    hook that raises loses the call, or the answer. `made` has the calls that `calls` names.
    """

    before: dict[int, Hook] = field(default_factory=dict)
    after: dict[int, Hook] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    made: list[Call] = field(default_factory=list)

    def run(self, name: str, call: Callable[[], R]) -> R:
        number = len(self.calls)
        self.calls.append(name)
        self.before.get(number, _nothing)()
        result = call()
        self.after.get(number, _nothing)()
        return result


def raises(error: BaseException) -> Hook:
    """A hook that raises `error`."""

    def hook() -> None:
        raise error

    return hook


def scripted(ports: Ports, script: Script) -> Ports:
    """The same ports, run by `script`; not what each request counts, which would upset it."""
    return replace(
        ports,
        store=_run_by(script, ports.store),
        blobs=_run_by(script, ports.blobs, {"get": "get_blob"}),
        sealer=_run_by(script, ports.sealer),
    )


def broken_at(ports: Ports, step: int, error: BaseException, *, late: bool = False) -> Ports:
    """The same ports, of which the call of this number fails; if `late`, once it took effect."""
    hooks = {step: raises(error)}
    return scripted(ports, Script(after=hooks) if late else Script(before=hooks))


def meeting(ports: Ports, step: int, meanwhile: Hook) -> Ports:
    """The same ports; something happens right before the call of this number."""
    return scripted(ports, Script(before={step: meanwhile}))


def _run_by(script: Script, port: object, names: Mapping[str, str] = {}) -> Any:
    """The port, with what `names` says for the names of its verbs in the script."""

    def run(call: Call) -> Any:
        # No step of a script: whether it fails changes no outcome, and has tests of its own.
        if call.verb == "discard":
            return call()
        script.made.append(call)
        return script.run(names.get(call.verb, call.verb), call.complete)

    return OneByOne(port, run)


def _nothing() -> None:
    pass
