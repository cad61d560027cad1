"""Ports that break, or wait, exactly where a test says so."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from shared.adapters.stored_usage import StoredUsage
from shared.errors import Unavailable
from shared.ports import Ports
from tests.kit.intercepted import Call, OneByOne
from tests.kit.worlds import Clock

R = TypeVar("R")
Hook = Callable[[], object]


class Crash(BaseException):
    """The process dies here: no `except Exception` may survive it."""


@dataclass
class Script:
    """What happens around each call to a port, by its number from 0.

    `before` runs ahead of the call, `after` once it took effect and its answer is on the way; a
    hook that raises loses the call, or the answer.
    """

    before: dict[int, Hook] = field(default_factory=dict)
    after: dict[int, Hook] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def run(self, name: str, call: Callable[[], R]) -> R:
        number = len(self.calls)
        self.calls.append(name)
        self.before.get(number, _nothing)()
        result = call()
        self.after.get(number, _nothing)()
        return result


class Kind(StrEnum):
    """What may go wrong around a call."""

    FAIL_BEFORE = "fail before"
    FAIL_AFTER = "fail after"
    THROTTLE = "throttle"
    DELAY = "delay"
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"


_LATE: Final = (Kind.FAIL_AFTER, Kind.CRASH_AFTER)
# How long a port is retried before it gives up, and how long a process may be paused (F07).
_SECONDS: Final = {Kind.THROTTLE: 10, Kind.DELAY: 60}


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong at one call: of this verb, with this number among its like."""

    kind: Kind
    verb: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.verb}"


@dataclass
class Storm:
    """Faults at the calls of one request after another; `struck` are those that met their call."""

    clock: Clock
    struck: list[Fault] = field(default_factory=list)
    _faults: tuple[Fault, ...] = ()
    _calls: Counter[str] = field(default_factory=Counter)

    def begin(self, faults: Iterable[Fault]) -> None:
        """Forget what was; these are the faults of the calls from now on."""
        self._faults = tuple(faults)
        self._calls.clear()
        self.struck.clear()

    def run(self, name: str, call: Callable[[], R]) -> R:
        number = self._calls[name]
        self._calls[name] += 1
        due = [each for each in self._faults if (each.verb, each.number) == (name, number)]
        self._strike(each for each in due if each.kind not in _LATE)
        result = call()
        self._strike(each for each in due if each.kind in _LATE)
        return result

    def _strike(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            self.struck.append(fault)
            self.clock.advance(seconds=_SECONDS.get(fault.kind, 0))
            if fault.kind in (Kind.CRASH_BEFORE, Kind.CRASH_AFTER):
                raise Crash
            if fault.kind is not Kind.DELAY:
                raise Unavailable(str(fault))


def raises(error: BaseException) -> Hook:
    """A hook that raises `error`."""

    def hook() -> None:
        raise error

    return hook


def scripted(ports: Ports, script: Script | Storm) -> Ports:
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


def stormy(ports: Ports, storm: Storm) -> Ports:
    """The same ports, all of them in `storm`."""
    caught = scripted(ports, storm)
    buckets = _run_by(storm, ports.buckets)
    return replace(caught, buckets=buckets, usage=StoredUsage(caught.store))


def _run_by(script: Script | Storm, port: object, names: Mapping[str, str] = {}) -> Any:
    """The port, with what `names` says for the names of its verbs in the script."""

    def run(call: Call) -> Any:
        # No step of a script: whether it fails changes no outcome, and has tests of its own.
        if call.verb == "discard":
            return call()
        return script.run(names.get(call.verb, call.verb), call.complete)

    return OneByOne(port, run)


def _nothing() -> None:
    pass
