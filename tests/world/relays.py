"""Relays: the real one, whose event loop and threads are actors of the world."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random
from threading import current_thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Match, Route

from shared.authorizer.answers import NoResponse, Response
from shared.authorizer.formats.following import TrustState
from shared.authorizer.relay import relay as relay_module
from shared.authorizer.relay import upstream as upstream_module
from shared.authorizer.relay.app import app
from shared.authorizer.relay.relay import Relay, ServiceConfig
from shared.authorizer.saved_state import FileStateStore, SavedState
from tests.kit import asgi
from tests.kit.tenants import Tenant
from tests.world.links import LIE, Link, Upward
from tests.world.stage import Seat
from tests.world.upgrades import TurnOfActors
from tests.world.world import TIMEOUT, Machine, World

if TYPE_CHECKING:
    from shared.authorizer.transport import Transport
    from tests.world.run import Life

T = TypeVar("T")

# How often a relay asks at least, here.
POLL_SECONDS: Final = 2.5
_AN_HOUR: Final = 3600.0


def _seat() -> Seat:
    seat = current_thread()
    assert isinstance(seat, Seat)
    return seat


def _world() -> World:
    world = _seat().stage.perils
    assert isinstance(world, World)
    return world


class ActorLoop(asyncio.BaseEventLoop):
    """The event loop of the actor whose thread this is: it waits as actors wait."""

    def __init__(self) -> None:
        super().__init__()
        self._world, self._seat = _world(), _seat()
        self._selector = self

    def __del__(self) -> None:
        """It ends with its world, and has nothing to close."""

    def time(self) -> float:
        """The clock of the world that nobody sets."""
        return self._world.monotonic()

    def select(self, timeout: float | None) -> list[Any]:
        """Wait until something is to be done."""
        if timeout is None or timeout > 0:
            self._world.sleep(_AN_HOUR if timeout is None else timeout)
        return []

    def call_exception_handler(self, context: Any) -> None:
        """Whoever awaits it hears of an error."""

    def _process_events(self, _events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        self._world.wake(self._seat)


class ActorLine:
    """In the place of `UpstreamConnection`: its thread is an actor."""

    def __init__(self, transport: "Transport") -> None:
        self._transport, self._turn = transport, TurnOfActors()

    async def run(self, ask: "Callable[[Transport], T]") -> T:
        """Return what `ask` returns. Raises what it raises."""
        loop, world = asyncio.get_running_loop(), _world()
        future: asyncio.Future[T] = loop.create_future()

        def work() -> None:
            with self._turn:
                try:
                    found = ask(self._transport)
                except Exception as error:  # noqa: BLE001 (for whoever asked)
                    loop.call_soon_threadsafe(partial(future.set_exception, error))
                else:
                    loop.call_soon_threadsafe(partial(future.set_result, found))

        world.start(f"{world.here().name} asks", world.here(), work)
        return await future


class ActorThread:
    """In the place of a thread: an actor on the same machine."""

    ident = None

    def __init__(self, *, target: Callable[[], object], name: str, daemon: bool) -> None:  # noqa: ARG002 (of a thread)
        self._target, self._name = target, name

    def start(self) -> None:
        """Let the actor come in."""
        world = _world()
        world.start(f"{world.here().name} follows", world.here(), self._target)

    def is_alive(self) -> bool:
        """It never ends before its machine."""
        return True


class ActorEvent:
    """In the place of the event that says to stop: nobody does."""

    def is_set(self) -> bool:
        """It is not."""
        return False

    def wait(self, seconds: float) -> bool:
        """Let time pass."""
        _world().observe()
        _world().sleep(seconds)
        return False


def patches() -> list[tuple[Any, str, Any]]:
    """What lets relays run in a world."""
    return [
        (relay_module, "UpstreamConnection", ActorLine),
        (upstream_module, "threading", SimpleNamespace(Event=ActorEvent, Thread=ActorThread)),
        (upstream_module, "_POLL_SECONDS", POLL_SECONDS),
    ]


class House:
    """A machine with a relay of a tenant, and the folder that outlives it."""

    def __init__(
        self,
        world: World,
        machine: Machine,
        tenant: Tenant,
        pin: str,
        ups: Callable[[], Upward],
        folder: Path,
    ) -> None:
        self.world, self.machine, self.tenant, self.folder = world, machine, tenant, folder
        self._pin, self._ups = pin, ups
        self._link = self._line()
        self._loop: ActorLoop | None = None
        self._tasks = set[asyncio.Task[None]]()
        # Until when somebody else answers at its address, and what that one has to say.
        self.taken_until = 0.0
        self._said: list[Response] = []
        # How wrong the clock was when the disk was written, and its copy.
        self._skew = self._copied = 0.0

    def start(self) -> None:
        """Start the relay, with what its disk has."""
        self.machine.is_up = True
        self.world.start(f"{self.machine.name} relays", self.machine, self._run)

    def _run(self) -> None:
        link = self._link
        # The first is that by which it follows; what others fetch is known by its hash.
        links = [link, *(self._line() for _ in range(4))][::-1]
        service = cast(
            "ServiceConfig",
            SimpleNamespace(transport=lambda: links.pop().transport, allow_http=True, name="relay"),
        )
        trust = TrustState(self.tenant.id, self._pin)
        store = _Shelf(self.folder / "floor", self)
        relay = Relay(service, trust, store, self.folder, most_waiting=8)
        link.confirmed = lambda: relay._upstream._follower.view.confirmed
        relay.load()
        if self.machine.skew < self._skew:
            link.lie = link.confirmed()
        self._loop = ActorLoop()
        self._routes = [each for each in app(relay, ()).routes if isinstance(each, Route)]
        self._spawn(self._loop, relay.start)
        self._loop.run_forever()

    def _line(self) -> Link:
        return Link(self.world, self.machine, self.tenant, self._ups)

    def _spawn(self, loop: ActorLoop, run: Callable[[], Awaitable[None]]) -> None:
        async def done() -> None:
            await run()

        def begin() -> None:
            task = loop.create_task(done())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        loop.call_soon_threadsafe(begin)

    def get(self, _tenant: Tenant, path: str, etag: str | None) -> Response:
        """Answer a client, or let the attacker answer who has the address."""
        if self.taken_until > self.world.now:
            return self._lied(path)
        loop, seat, answers = self._loop, _seat(), list[Response]()
        if loop is None:
            raise NoResponse("connection refused")

        async def answer() -> None:
            answers.append(await self._answer(path, etag))
            self.world.wake(seat)

        self._spawn(loop, answer)
        until = self.world.now + 2 * TIMEOUT
        while not answers and self.world.now < until:
            self.world.sleep(TIMEOUT)
        if not answers:
            raise NoResponse("timeout")
        if answers[0].status == 200 and "/feed" in path:
            self._said.append(answers[0])
        return answers[0]

    async def _answer(self, path: str, etag: str | None) -> Response:
        headers = [("Accept-Encoding", "gzip"), *([("If-None-Match", etag)] if etag else [])]
        scope = asgi.request_scope("GET", path, headers)
        for each in self._routes:
            match, found = each.matches(scope)
            if match is Match.FULL:
                made = await each.endpoint(Request({**scope, **found}))
                data = _body(made)
                headers_ = dict(made.headers) | ({LIE: "1"} if self._link.is_deceived else {})
                return Response(made.status_code, headers_, data)
        return Response(404, {}, b"")

    def _lied(self, path: str) -> Response:
        if not self._said or "/base/" in path or "/feed" not in path:
            return Response(503, {LIE: "1"}, b"")
        found = self.world.random.choice(self._said)
        return Response(200, {**found.headers, "age": "0", LIE: "1"}, found.body)

    # --- its disk ---

    def note_clock(self) -> None:
        """The disk is written."""
        self._skew = self.machine.skew

    @property
    def _copy(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}-copy")

    def keep_disk(self) -> None:
        """Copy the disk."""
        self._copied = self._skew
        shutil.rmtree(self._copy, ignore_errors=True)
        if self.folder.exists():
            shutil.copytree(self.folder, self._copy)

    def lose_disk(self, *, is_copied: bool) -> None:
        """Empty the disk, or put its copy back."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if is_copied and self._copy.exists():
            self._skew = self._copied
            shutil.copytree(self._copy, self.folder)


def _body(made: Any) -> bytes:
    return Path(made.path).read_bytes() if isinstance(made, FileResponse) else bytes(made.body)


class _Shelf(FileStateStore):
    """The saved state of a relay, which knows when it is written."""

    def __init__(self, folder: Path, house: House) -> None:
        super().__init__(folder)
        self._house = house

    def save(self, saved: SavedState) -> None:
        """Replace the saved state."""
        super().save(saved)
        self._house.note_clock()


# --- what happens to relays, and to the disks of all who follow ---


def lose_disk(life: "Life", random: Random) -> None:
    """A follower loses its disk, with all that it knew."""
    _replace_disk(life, random, is_copied=False)


def copy_disks(life: "Life", _random: Random) -> None:
    """The disks of all who follow are copied."""
    for each in life.followers:
        each.keep_disk()


def put_disk_back(life: "Life", random: Random) -> None:
    """A follower gets its disk as it was copied, or an empty one."""
    _replace_disk(life, random, is_copied=True)


def _replace_disk(life: "Life", random: Random, *, is_copied: bool) -> None:
    each = random.choice(life.followers)
    life.world.tell(f"{each.machine.name} gets {'an old' if is_copied else 'an empty'} disk")
    if each.machine.is_up:
        each.machine.die()
    each.lose_disk(is_copied=is_copied)
    life.oracle.forget(each)


def take_address(life: "Life", random: Random) -> None:
    """An attacker answers at the address of a relay, with what the relay once said."""
    for each in life.relays:
        each.taken_until = life.world.now + random.uniform(1, 30)
        life.world.tell(f"an attacker answers in the place of {each.machine.name}")


FAULTS: Final[dict[str, Callable[["Life", Random], None]]] = {
    each.__name__.replace("_", " "): each
    for each in (lose_disk, copy_disks, put_disk_back, take_address)
}
