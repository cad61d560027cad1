"""The machines of a world: servers, publishers, and the clients that follow the feed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request

from functions.feed import handler as feed_endpoints
from functions.feed.handler import FeedQuery, PollAdvice
from functions.trust import handler as trust_endpoints
from functions.trust.handler import TrustQuery
from infra.server.feed import FeedPublisher
from infra.server.journal import Journaling
from infra.server.leader import RENEW_SECONDS, LeaderElection, StoreLease
from infra.server.sealing import Sealing
from infra.server.timer import Scheduler
from infra.server.trust import TrustKeeper
from shared.adapters.local.file_sealer import FileSealer
from shared.adapters.stored_usage import StoreUsageCounts
from shared.authorizer import events
from shared.authorizer.answers import Response
from shared.authorizer.follower import FeedFollower
from shared.authorizer.formats.following import TrustState
from shared.authorizer.policy import PollPolicy
from shared.authorizer.saved_state import MemoryStateStore, SavedState, _decode, _encode
from shared.authorizer.trust import KeyFetcher
from shared.errors import NotFound, RequestError, RescindError
from shared.operations.lists import publication
from shared.ports import Ports
from shared.web.bodies import Body
from shared.web.errors import STATUS
from shared.web.freshness import FreshnessCache
from shared.web.routes import ApiRequest, Context
from shared.web.work import IN_PLACE, result_of
from tests.kit import asgi
from tests.kit.tenants import Tenant
from tests.world.links import Link, Upward
from tests.world.upgrades import FencedOfEach
from tests.world.world import Machine, World

# How often a publisher looks for marks, and how often and how long a client trusts.
LOOK_SECONDS: Final = 2.0
SEAL_SECONDS: Final = 12.0
POLICY: Final = PollPolicy(poll_seconds=3.0, max_staleness=12.0, wait_seconds=0)
_NO_DIGITS: Final = str.maketrans("", "", "0123456789")
# Of those who follow a relay, which lets them wait for news.
OF_A_RELAY: Final = replace(POLICY, wait_seconds=2.0)


def ports_of(world: World, machine: Machine, sealer: FileSealer, root: Any = None) -> Ports:
    """The ports as a machine has them."""
    store: Any = FencedOfEach(world, machine)
    return Ports(
        store=store,
        is_in_charge=lambda: store.fence().is_in_charge(),
        usage=StoreUsageCounts(store),
        buckets=_NoLimit(),
        blobs=world.blobs,
        sealer=sealer,
        now=machine.wall,
        new_id=machine.new_id,
        look_seconds=LOOK_SECONDS,
        root=root,
    )


class _NoLimit:
    """A rate limit that is never reached."""

    def lease(self, *_: object, **__: object) -> Any:
        raise AssertionError("nothing here is limited")


@dataclass
class Server:
    """A machine that answers requests of a tenant's clients."""

    machine: Machine
    ports: Ports

    @property
    def is_left(self) -> bool:
        """Whether it reads what was moved away."""
        return "left" in self.machine.memory

    def get(self, tenant: Tenant, path: str, etag: str | None) -> Response:
        """Answer a request of a client as the endpoints do."""
        headers = [("Accept-Encoding", "gzip"), *([("If-None-Match", etag)] if etag else [])]
        request = Request(asgi.request_scope("GET", path, headers))
        context = Context(self.ports, tenant.operator, IN_PLACE)
        here = ApiRequest(request, context, Body(b"", None), None)
        try:
            answer = result_of(_endpoint(here, path))
        except RequestError as error:
            return Response(STATUS[type(error)], {}, str(error).encode())
        except RescindError as error:
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, {}, str(error).encode())
        return Response(answer.status_code, dict(answer.headers), bytes(answer.body))


def _endpoint(here: ApiRequest, path: str) -> Any:
    url = urlsplit(path)
    query = {name: int(values[0]) for name, values in parse_qs(url.query).items()}
    last = url.path.rpartition("/")[2]
    match url.path.removesuffix(last):
        case "/v1/revocations/":
            return feed_endpoints.poll_feed(here, FeedQuery(**query))
        case "/v1/revocations/feed/base/":
            return feed_endpoints.get_feed_base(here, last)
        case "/v1/":
            return trust_endpoints.get_trust(here, TrustQuery(**query))
        case "/v1/trust/keys/":
            return trust_endpoints.get_trust_keys(here, last)
    raise NotFound


class FreshnessOfEach:
    """The looks of each machine, in the place of those of one process."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        memory = self._world.here().memory
        return getattr(memory.setdefault("freshness", FreshnessCache()), name)


class AdviceOfEach:
    """The advice that each machine gives."""

    def __init__(self, world: World) -> None:
        self._world = world

    def seconds(self, here: ApiRequest) -> int:
        advice: PollAdvice = self._world.here().memory.setdefault("advice", PollAdvice())
        return advice.seconds(here)


class Publisher:
    """A machine that publishes while it leads: the feed, the lists and the trust documents.

    It also seals the audit log, if it `seals`.
    """

    def __init__(self, world: World, machine: Machine, ports: Ports, *, seals: bool) -> None:
        self.world, self.machine, self.ports, self.seals = world, machine, ports, seals
        self.schedule_seconds = world.random.choice([1.0, 10.0])

    def start(self) -> None:
        """Begin to follow, or to lead."""
        self.world.start(f"{self.machine.name} leads", self.machine, self._lead)

    def _lead(self) -> None:
        clock = self.world.monotonic
        leader = LeaderElection(StoreLease(self.ports.store, clock=clock), clock=clock)
        term = list[bool]()
        while True:
            leads = leader.leads()
            if leads and not term:
                term = [True]
                self._begin(term)
            elif not leads and term:
                term.clear()
                term = []
            self.world.sleep(RENEW_SECONDS)

    def _begin(self, term: list[bool]) -> None:
        name = self.machine.name
        wanted, changed = list[str](), list[str]()
        feed = FeedPublisher(self.ports, wanted.append, changed.append)
        timer, trust = Scheduler(self.ports), TrustKeeper(self.ports)
        sealing = Sealing(self.ports, on_new_log=changed.append)
        duties: list[tuple[str, Callable[[], object]]] = [
            ("feed", lambda: self._feed(feed, term)),
            ("journal", lambda: self._journal(feed.journaling, term)),
            ("timer", lambda: self._timer(timer, term, wanted)),
            ("trust", lambda: self._trust(trust, term, changed)),
        ]
        if self.seals:
            duties.append(("sealing", lambda: self._seal(sealing, term)))
        for duty, run in duties:
            self.world.start(f"{name} {duty}", self.machine, run)

    def _feed(self, feed: FeedPublisher, term: list[bool]) -> None:
        while term:
            self.world.sleep(feed._round())
            self.world.listen(feed._waits.seconds(LOOK_SECONDS))

    def _journal(self, journaling: Journaling, term: list[bool]) -> None:
        while term:
            journaling._round()
            self.world.sleep(1)

    def _timer(self, timer: Scheduler, term: list[bool], wanted: list[str]) -> None:
        due = 0.0
        while term:
            if self.world.now >= due:
                timer._round()
                due = self.world.now + self.schedule_seconds
            while wanted:
                try:
                    publication.publish_if_due(self.ports, wanted.pop())
                except RescindError:
                    continue
            self.world.sleep(1)

    def _seal(self, sealing: Sealing, term: list[bool]) -> None:
        while term:
            sealing._round()
            self.world.sleep(SEAL_SECONDS)

    def _trust(self, trust: TrustKeeper, term: list[bool], changed: list[str]) -> None:
        due = retry = 0.0
        while term:
            if self.world.now >= due:
                due = self.world.now + (3600 if trust._round() else 30)
            if self.world.now >= retry:
                retry = self.world.now + 30
                for each in [*trust._failing.names]:
                    trust._keep(each)
            while changed:
                trust._keep(changed.pop())
            self.world.sleep(1)


class Disk(MemoryStateStore):
    """The saved state of a client, as bytes that outlive it, and how wrong the clock was then."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine
        self._data: tuple[bytes, float] | None = None
        self._copy: tuple[bytes, float] | None = None

    def load(self) -> SavedState | None:
        return _decode(self._data[0]) if self._data else None

    def save(self, saved: SavedState) -> None:
        self._data = _encode(saved), self._machine.skew

    @property
    def misleads(self) -> bool:
        """Whether the clock was set back since it was written, so that it looks newer."""
        return self._data is not None and self._machine.skew < self._data[1]

    def keep(self) -> None:
        """Copy it."""
        self._copy = self._data

    def lose(self, *, is_copied: bool) -> None:
        """Empty it, or put its copy back."""
        self._data = self._copy if is_copied else None


class Client:
    """A machine with an authorizer, who follows a tenant's feed."""

    def __init__(
        self,
        world: World,
        machine: Machine,
        tenant: Tenant,
        pin: str,
        ups: Callable[[], Upward],
        policy: PollPolicy = POLICY,
    ) -> None:
        self.world, self.machine, self.tenant = world, machine, tenant
        self.store, self.link = Disk(machine), Link(world, machine, tenant, ups)
        self._policy = policy
        self._trust = TrustState(tenant.id, pin)
        # What it last heard nothing for, without numbers.
        self._told = ""
        self.follower = self._made()

    def start(self) -> None:
        """Start the authorizer, with what its disk has."""
        self.machine.is_up = True
        self.follower = self._made()
        self.world.start(f"{self.machine.name} follows", self.machine, self._follow)

    def _made(self) -> FeedFollower:
        made = FeedFollower(self.link.transport, self.store, self._trust, self._policy, self._note)
        self.link.confirmed = lambda: made.view.confirmed
        self.keys = KeyFetcher(self.link.transport, made, self._note)
        self.keys.is_wanted = True
        return made

    def _follow(self) -> None:
        follower = self.follower
        follower.load()
        if self.store.misleads:
            self.link.lie = follower.view.confirmed
        while True:
            pause = follower.poll()
            self.world.observe()
            self.keys.fetch_if_due()
            self.world.observe()
            self.world.sleep(pause)

    @property
    def is_deceived(self) -> bool:
        """Whether it was an attacker, or a clock, who confirmed what it holds."""
        return self.link.is_deceived

    def keep_disk(self) -> None:
        """Copy the disk."""
        self.store.keep()

    def lose_disk(self, *, is_copied: bool) -> None:
        """Empty the disk, or put its copy back."""
        self.store.lose(is_copied=is_copied)

    def _note(self, event: events.Event) -> None:
        match event:
            case events.ResponseRejected(reason):
                self.world.tally[f"refused {reason}"] += 1
                self.world.tell(f"{self.machine.name} refuses an answer: {reason}")
            case events.StateAdvanced(before, after, count):
                self._told = ""
                self.world.tell(
                    f"{self.machine.name} goes from {before} to {after}, {count} revoked"
                )
            case events.TrustChanged(version, _):
                self.world.tell(f"{self.machine.name} believes document {version}")
            case events.PollFailed(message):
                self.world.tally["polls failed"] += 1
                text = f"{self.machine.name} hears nothing: {message[:60]}"
                # Once, however the seconds in it grow.
                told, self._told = self._told, text.translate(_NO_DIGITS)
                if told != self._told:
                    self.world.tell(text)
