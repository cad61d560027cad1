"""Ports that hand on their calls, so that a test can count, change or break what passes.

seen: list[str] = []

def note(call: Call) -> Any:
    seen.append(call.verb)
    return call()

ports = replace(ports, store=Intercepted(ports.store, note))
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from shared.ports.store import ItemRow, Partition

# What an adapter has beside its port. Code that asks for it finds that it is not there.
_BESIDE: Final = frozenset({"flaws", "problems"})


@dataclass(frozen=True)
class Call:
    """A call of a port that is not made yet. To call it is to make it, as it was asked for."""

    port: Any
    verb: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def __call__(self) -> Any:
        return getattr(self.port, self.verb)(*self.arguments, **self.options)

    def complete(self) -> Any:
        """The same; if the answer is a walk, it is made to its end before this returns."""
        answer = self()
        return iter(list(answer)) if isinstance(answer, Iterator) else answer


class Intercepted:
    """A port whose calls all go through `around`, which returns what the caller is to get.

    A verb that a subclass defines does not go there; `inner` is the port behind.
    """

    def __init__(self, inner: Any, around: Callable[[Call], Any] = Call.__call__) -> None:
        self.inner = inner
        self._around = around

    def __getattr__(self, verb: str) -> Any:
        if verb in _BESIDE:
            raise AttributeError(verb)

        def intercepted(*arguments: Any, **options: Any) -> Any:
            # What can be read only once is kept, so that `around` may look at it.
            kept = tuple(list(a) if isinstance(a, Iterator) else a for a in arguments)
            return self._around(Call(self.inner, verb, kept, options))

        return intercepted


class OneByOne(Intercepted):
    """A store whose partitions are read by a call each, between which others write."""

    def query_many(
        self, partitions: Iterable[Partition], **bounds: Any
    ) -> dict[Partition, list[ItemRow]]:
        return {each: list(self.query(each, **bounds)) for each in partitions}
