"""The service itself, followed by our clients for Python and TypeScript."""

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from functions.trust import publishing
from shared.authorizer import conformance
from shared.authorizer.answers import FeedResponse
from shared.authorizer.formats import wire
from shared.operations.base import seals
from shared.operations.lists import in_force, publication
from tests.authorizer.feeds import sealed
from tests.conformance import runner
from tests.conformance.cases import base64_of, text_of
from tests.kit import typescript
from tests.kit.api import Tenant
from tests.kit.roots import pin_of
from tests.kit.tenants import break_off
from tests.kit.worlds import Clock

_FEED = "/v1/revocations/feed"
_KEYS = "/v1/revocations/srl/keys"


def _packed(data: bytes) -> bytes:
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


@dataclass
class Follower:
    """A client that speaks as the conformance suite does, in front of the real service."""

    ask: runner.Ask
    tenant: Tenant
    clock: Clock
    sequence: int | None = None
    version: int = 0
    fetched: list[int] = field(default_factory=list)

    def begin(self) -> None:
        init = {"tenant": self.tenant.id, "trust_root": pin_of(self.tenant), "floor": None}
        assert self.ask({"init": init}) == {"ready": True}
        self.sequence, self.version = None, 0
        self.read_documents()

    def poll(self) -> Any:
        """The result of a poll."""
        query = "" if self.sequence is None else f"?after={self.sequence}"
        answer = self.tenant.authorizer.get(_FEED + query)
        assert answer.status_code == 200, answer.text
        return self.take(answer.content)

    def confirm(self) -> None:
        """A poll whose answer is 304."""
        etag = self.tenant.authorizer.get(_FEED).headers["ETag"]
        answer = self.tenant.authorizer.get(_FEED, headers={"If-None-Match": etag})
        assert answer.status_code == 304
        given = {"age": answer.headers["Age"], "max_staleness": 30}
        told = {"now": text_of(self.clock.moment), **given}
        assert self.ask({"confirm": told}) == {"ready": True}

    def read_documents(self) -> None:
        """The client reads what documents it lacks, which are made if they are due."""
        publishing.keep(self.tenant.ports, self.tenant.id)
        response = self.tenant.authorizer.get(f"/v1/trust?after={self.version}").text
        told = {"now": text_of(self.clock.moment), "response": response}
        self.version = self.ask({"trust": told})["version"]

    def take(self, answer: bytes) -> Any:
        """The result of an answer; the base is fetched if the client needs it."""
        given = {"now": text_of(self.clock.moment), "answer": answer.decode(), "base": None}
        result = self.ask({"poll": given})
        if "needs_base" in result:
            version = result["needs_base"]
            self.fetched.append(version)
            base = self.tenant.authorizer.get(f"{_FEED}/base/{version}")
            assert base.status_code == 200, base.text
            result = self.ask({"poll": {**given, "base": base64_of(_packed(base.content))}})
        self.sequence = result.get("sequence", self.sequence)
        return result

    def verdict(self, *ids: str) -> Any:
        return self.ask({"check": {"now": text_of(self.clock.moment), "ids": list(ids)}})["verdict"]


def _ours() -> Iterator[runner.Ask]:
    yield conformance.ConformanceSession().answer


def _typescript() -> Iterator[runner.Ask]:
    with runner.started(typescript.command()) as ask:
        yield ask


@pytest.fixture(params=[_ours, pytest.param(_typescript, marks=pytest.mark.slow)], ids=["py", "ts"])
def client(request: pytest.FixtureRequest, tenant: Tenant, clock: Clock) -> Iterator[Follower]:
    started: Callable[[], Iterator[runner.Ask]] = request.param
    for ask in started():
        follower = Follower(ask, tenant, clock)
        follower.begin()
        yield follower


def _regenerate(tenant: Tenant) -> None:
    answer = tenant.admin.post("/v1/revocations/srl/regenerate")
    assert answer.status_code == 200, answer.text


def test_clients_follow_the_service(client: Follower, tenant: Tenant, clock: Clock) -> None:
    """F174a, FEED-3: Clients hold what the service says, through entries and lists."""
    assert client.poll() == {"sequence": 0}
    ids = [f"svc_wrt_{letter * 10}" for letter in "abc"]
    records = [tenant.revoke(each) for each in ids]
    clock.advance(seconds=1)
    publication.publish_feed(tenant.ports, tenant.id)
    assert client.poll() == {"sequence": 1}
    assert [client.verdict(each) for each in ids] == ["revoked"] * 3
    assert tenant.admin.delete(f"/v1/revocations/{records[0]}").status_code == 204
    _regenerate(tenant)
    assert client.poll() == {"sequence": 2}
    assert [client.verdict(each) for each in ids] == ["clear", "revoked", "revoked"]
    assert client.fetched == [1]
    client.begin()
    assert client.verdict(ids[1]) == "stale"
    assert client.poll() == {"sequence": 2}
    assert [client.verdict(each) for each in ids] == ["clear", "revoked", "revoked"]
    assert client.fetched == [1, 2]
    clock.advance(hours=2)
    assert client.verdict(ids[0]) == "stale"


def test_clients_notice_that_nothing_is_published(
    client: Follower, tenant: Tenant, clock: Clock
) -> None:
    """F552a, FEED-12: Clients are stale 30 seconds after a change that is not published."""
    assert client.poll() == {"sequence": 0}
    for seconds, verdict in (
        (0, "clear"),
        (20, "clear"),
        (9, "clear"),
        (2, "stale"),
        (30, "stale"),
    ):
        clock.advance(seconds=seconds)
        client.confirm()
        assert client.verdict("svc_wrt_bbbbbbbbbb") == verdict
        if not seconds:
            tenant.revoke("svc_wrt_aaaaaaaaaa")
    publication.publish_feed(tenant.ports, tenant.id)
    assert client.poll() == {"sequence": 1}
    clock.advance(seconds=5)
    client.confirm()
    assert client.verdict("svc_wrt_bbbbbbbbbb") == "clear"
    assert client.verdict("svc_wrt_aaaaaaaaaa") == "revoked"


def test_clients_pass_breaks_and_rotations(client: Follower, tenant: Tenant, clock: Clock) -> None:
    """F174b, FEED-7: Clients stop before a break, and continue with the list that follows."""
    tenant.revoke("svc_wrt_aaaaaaaaaa")
    _regenerate(tenant)
    assert client.poll() == {"sequence": 1}
    for above, reason, least in ((None, "break", 2), (100, "gap", 100 + 2**20)):
        break_off(tenant.ports, tenant.id, above=above)
        assert client.poll() == {"refused": reason}
        assert client.verdict("svc_wrt_aaaaaaaaaa") == "revoked"
        assert client.verdict("svc_wrt_bbbbbbbbbb") == "clear"
        clock.advance(seconds=1)
        _regenerate(tenant)
        assert client.poll()["sequence"] >= least
        assert client.verdict("svc_wrt_aaaaaaaaaa") == "revoked"


def test_clients_follow_rotations(client: Follower, tenant: Tenant) -> None:
    """F174c, FEED-9: After each rotation a client goes on, and reads the documents that follow."""
    assert client.poll() == {"sequence": 0}
    for number in range(3):
        answer = tenant.admin.post(f"{_KEYS}/rotate")
        assert answer.status_code == 201, answer.text
        if number:
            client.read_documents()
        assert client.poll() == {"sequence": 0}
    assert client.version > 1
    assert client.verdict("svc_wrt_aaaaaaaaaa") == "clear"


def test_clients_recover_from_a_stolen_signer(
    client: Follower, tenant: Tenant, clock: Clock
) -> None:
    """F284c, FEED-7, TRUST-14: A client that accepted a thief's feed continues with its one pin.

    It is stale from the document on that drops the stolen signer, until it has the genuine feed.
    """
    tenant.revoke("svc_wrt_aaaaaaaaaa")
    publication.publish_feed(tenant.ports, tenant.id)
    assert client.poll() == {"sequence": 1}
    forged = _forged(tenant)
    assert client.take(forged.encode()) == {"sequence": 4}
    assert client.verdict("svc_wrt_ffffffffff") == "revoked"
    clock.advance(seconds=1)
    answer = tenant.admin.post(f"{_KEYS}/rotate", json={"compromised": True})
    assert answer.status_code == 201, answer.text
    client.read_documents()
    assert client.verdict("svc_wrt_bbbbbbbbbb") == "stale"
    client.sequence = None
    assert client.poll()["sequence"] == 1 + 2**20
    assert client.take(forged.encode()) == {"refused": "signature"}
    assert client.verdict("svc_wrt_aaaaaaaaaa") == "revoked"
    assert client.verdict("svc_wrt_ffffffffff") == "clear"


def _forged(tenant: Tenant) -> FeedResponse:
    """Three entries after the first, signed with the seed of the signer in force."""
    signer = in_force.read_active_signer(tenant.ports, tenant.id)
    key = Ed25519PrivateKey.from_private_bytes(seals.unwrap_seed(tenant.ports, signer))
    newest = in_force.read_feed_head(tenant.ports, tenant.id)
    assert newest
    chain = newest.signed_head.chain
    entries = [wire.FeedEntry(number, ("svc_wrt_ffffffffff",)).encode() for number in (2, 3, 4)]
    for each in entries:
        chain = wire.next_chain(chain, each)
    head = replace(newest.signed_head, sequence=4, chain=chain)
    return sealed(head.encode(), key, tuple(entries))
