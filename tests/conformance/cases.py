"""A case of the conformance suite, and how one is written down."""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from shared.authorizer.answers import FeedResponse
from shared.authorizer.formats.documents import SignedDocument
from shared.authorizer.formats.trust import RootSet
from shared.authorizer.state import FeedPosition
from tests.authorizer.feeds import NOW, TENANT, Feed
from tests.authorizer.roots import document, named, public_of, roots, signed

A, B, C, D = (f"svc_wrt_{letter * 10}" for letter in "abcd")
UNKNOWN = "svc_wrt_unknown-01"

# The number of the root, which signs nothing but trust documents.
ROOT = 201
ROOTS = roots(ROOT)


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def text_of(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def with_new(payload: bytes, value: bytes) -> bytes:
    """The map with a further member, which is the first in the order."""
    return bytes([payload[0] + 1]) + b"\x61?" + value + payload[1:]


def of_base(feed: Feed, data: bytes) -> FeedResponse:
    """An answer whose head names this base."""
    return feed.answer(base=replace(feed.base, sha256=hashlib.sha256(data).digest()))


def nested(depth: int) -> bytes:
    """A number in so many lists."""
    return b"\x81" * depth + b"\x01"


@dataclass
class Case:
    """Requests to a client, each with the answer that is expected.

    `feed` is the feed of the case. It has a list with A and B, and then an entry with C.
    """

    name: str
    shows: str
    steps: list[dict[str, Any]] = field(default_factory=list)
    feed: Feed = field(default_factory=lambda: Feed(ids={A, B}))

    def __post_init__(self) -> None:
        self.feed.publish(C)

    def init(self, floor: FeedPosition | None = None, signers: tuple[int, ...] = (1,)) -> None:
        """A new client, with a document that names these list signers and the end of the base.

        The first of them signed the head of the floor.
        """
        self.pinned(floor=floor, signed_by=signers[0])
        base = self.feed.base
        made = document(
            roots=ROOTS,
            signers=named(*((each, "lists") for each in signers)),
            feed=FeedPosition(base.sequence, base.chain),
        )
        self.trust(signed(made, ROOT), version=1)

    def pinned(
        self, by: RootSet = ROOTS, floor: FeedPosition | None = None, signed_by: int | None = None
    ) -> None:
        """A new client with the pin of these roots, and the floor of a head of this signer."""
        where: dict[str, Any] | None = None
        if floor is not None:
            where = {"sequence": floor.sequence, "chain": base64_of(floor.chain)}
            where["signer"] = None if signed_by is None else base64_of(public_of(signed_by))
        self._step("init", {"tenant": TENANT, "trust_root": by.pin, "floor": where}, ready=True)

    def trust(
        self,
        *given: SignedDocument | dict[str, Any],
        now: datetime = NOW,
        spaces: int = 0,
        **expected: Any,
    ) -> None:
        """The client reads trust documents."""
        forms = [each.form() if isinstance(each, SignedDocument) else each for each in given]
        self.response(json.dumps({"documents": forms}), now=now, spaces=spaces, **expected)

    def response(self, text: str, *, now: datetime = NOW, spaces: int = 0, **expected: Any) -> None:
        """The client reads this in place of trust documents; the runner appends so many spaces."""
        self._step("trust", {"now": text_of(now), "response": text}, **expected)
        if spaces:
            self.steps[-1]["spaces"] = spaces

    def signing_keys(self, blob: bytes, **expected: Any) -> None:
        """The client reads the signing keys that the head names."""
        self._step("signing_keys", {"blob": base64_of(blob)}, **expected)

    def begin(self) -> None:
        """A new client that holds the feed as it is now."""
        self.init()
        self.poll(self.feed.answer(), base=self.feed.data, sequence=self.feed.sequence)

    def poll(
        self,
        answer: FeedResponse | bytes,
        *,
        now: datetime = NOW,
        base: bytes | None = None,
        spaces: int = 0,
        **expected: Any,
    ) -> None:
        """An answer to a poll; the runner appends so many spaces."""
        body = answer.encode() if isinstance(answer, FeedResponse) else answer
        given = {
            "now": text_of(now),
            "answer": body.decode(),
            "base": None if base is None else base64_of(base),
        }
        self._step("poll", given, **expected)
        if spaces:
            self.steps[-1]["spaces"] = spaces

    def restart(self) -> None:
        """The client stops and starts: it has what it saved, and no state."""
        self._step("restart", {}, ready=True)

    def check(self, verdict: str, *ids: str, now: datetime = NOW) -> None:
        self._step("check", {"now": text_of(now), "ids": list(ids)}, verdict=verdict)

    def refuse_check(self, *ids: str) -> None:
        """The client refuses to decide about this chain, because a text identifies no warrant."""
        self._step("check", {"now": text_of(NOW), "ids": list(ids)}, refused="malformed")

    def confirm(
        self, age: int | str, *, now: datetime = NOW, max_staleness: int = 30, **expected: Any
    ) -> None:
        """The last answer, or a 304, had this `Age`; fields that repeat are joined by commas."""
        given = {"now": text_of(now), "age": str(age), "max_staleness": max_staleness}
        self._step("confirm", given, **expected or {"ready": True})

    def identify(self, *named: str | int, **expected: Any) -> None:
        """The client derives the identifier of a token: kind, issuer, value, and issued_before."""
        names = ("kind", "issuer", "value", "issued_before")
        self._step("identify", dict(zip(names, named, strict=False)), **expected)

    def kept(self) -> None:
        """After a refusal: the client has what it had, and takes the next good answer."""
        self.check("revoked", UNKNOWN, C)
        self.check("clear", D)

    def written(self) -> dict[str, Any]:
        return {"name": self.name, "shows": self.shows, "steps": self.steps}

    def _step(self, name: str, given: dict[str, Any], **expected: Any) -> None:
        self.steps.append({"request": {name: given}, "expected": expected})


Build = Callable[[Case], None]
_CASES: list[tuple[str, str, Build]] = []


def case(build: Build) -> Build:
    """Register a case: the function's name, and the sentence of its docstring."""
    name = build.__name__.strip("_").replace("__", ": ").replace("_", " ")
    _CASES.append((name, (build.__doc__ or "").strip(), build))
    return build


def cases() -> list[Case]:
    """All cases that were registered, built anew."""
    built = []
    for name, shows, build in _CASES:
        built.append(Case(name, shows))
        build(built[-1])
    return built
