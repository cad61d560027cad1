"""Two operations at once: the second runs whole between any two calls of the first."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from shared.errors import RequestError
from shared.ports import Ports
from tests.kit.faults import Script, meeting, scripted

W = TypeVar("W")


@dataclass(frozen=True)
class Race(Generic[W]):
    """What two operations came to, each an answer or an error of the contract."""

    world: W
    first: object
    second: object


def races(
    ports: Ports,
    make: Callable[[Ports], W],
    first: Callable[[Ports, W], object],
    second: Callable[[Ports, W], object],
) -> Iterator[Race[W]]:
    """One race for each call of `first` to a port, in a fresh world, `second` right before it."""
    rehearsal = Script()
    _outcome(first, scripted(ports, rehearsal), make(ports))
    for step in range(len(rehearsal.calls)):
        world, said = make(ports), list[object]()

        def meanwhile(world: W = world, said: list[object] = said) -> None:
            said.append(_outcome(second, ports, world))

        outcome = _outcome(first, meeting(ports, step, meanwhile), world)
        yield Race(world, outcome, *said)


def _outcome(run: Callable[[Ports, W], object], ports: Ports, world: W) -> object:
    try:
        return run(ports, world)
    except RequestError as error:
        return error
