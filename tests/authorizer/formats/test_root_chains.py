"""Random chains of roots: we decide as python-tuf does, whose rules we keep."""

from collections import Counter
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any, Final, NamedTuple

import pytest

from shared.authorizer.formats import wire
from shared.authorizer.formats.documents import NotTrusted, RootReason, SignedDocument
from shared.authorizer.formats.following import TrustState, follow, judge
from shared.authorizer.formats.trust import TrustDocument
from tests.authorizer.feeds import NOW, TENANT, Feed, signer
from tests.authorizer.roots import (
    DAY,
    LIST,
    document,
    named,
    pinned,
    public_of,
    roots,
    signature,
)
from tests.kit.peers import asked

_CHAINS: Final = 1000
_KEYS: Final = range(1, 10)
_OUTSIDER: Final = 99

# What is done to a document of a chain, or to its place.
_FAULTS: Final = (
    *("unsigned", "unsigned", "outsider", "forged", "threshold", "foreign"),
    *("missing", "missing", "repeated", "other", "lower", "swapped"),
)


class Step(NamedTuple):
    """A document of a chain: its content, who signed it, and who did so wrongly."""

    version: int
    roots: tuple[int, ...]
    threshold: int
    expires_in: int
    signers: tuple[int, ...]
    forged: tuple[int, ...] = ()
    tenant: str = TENANT

    def made(self) -> TrustDocument:
        """Our document."""
        expires_at = NOW + timedelta(days=self.expires_in)
        return document(
            self.version,
            tenant_id=self.tenant,
            roots=roots(*self.roots, threshold=self.threshold),
            signers=named((LIST, "lists")),
            issued_at=expires_at - 30 * DAY,
            expires_at=expires_at,
        )

    def signed(self) -> SignedDocument:
        """Our document with its signatures; a forged one is no signature at all."""
        payload = self.made().encode()
        signatures = {public_of(each): signature(each, payload) for each in self.signers}
        forged = {public_of(each): bytes(64) for each in self.forged}
        return SignedDocument.opened(payload, signatures | forged)

    def told(self) -> dict[str, Any]:
        """The document, as the peer makes metadata of it."""
        return {
            "version": self.version,
            "roots": self.roots,
            "threshold": self.threshold,
            "expires_at": self.made().expires_at.isoformat(),
            "signers": self.signers,
            "forged": self.forged,
            "is_foreign": self.tenant != TENANT,
        }


class Chain(NamedTuple):
    """The document from which a client begins, and an answer of the service.

    `is_held` says whether the client has that document, or only the pin of its roots.
    """

    start: Step
    answer: tuple[Step, ...]
    is_held: bool
    faults: tuple[str, ...]


def _next(random: Random, before: Step) -> Step:
    """The document after this one, as a service makes it: often with other roots."""
    keys, threshold = {*before.roots}, before.threshold
    if random.random() < 0.7:
        gone = random.sample(sorted(keys), random.randint(0, len(keys) - 1))
        keys = (keys - {*gone}) | {*random.sample(_KEYS, random.randint(1, 2))}
        keys = {*sorted(keys)[:8]}
        threshold = random.randint(1, len(keys))
    enough = {*random.sample(before.roots, before.threshold)}
    enough |= {*random.sample(sorted(keys), threshold)}
    version, expires_in = before.version + random.randint(1, 3), random.choice((-3, 1, 9))
    return Step(version, tuple(sorted(keys)), threshold, expires_in, tuple(sorted(enough)))


def _altered(random: Random, steps: list[Step], fault: str) -> list[Step]:
    """The documents with one fault at one place."""
    at = random.randrange(len(steps))
    step, before, after = steps[at], steps[:at], steps[at + 1 :]
    one = random.choice(step.signers) if step.signers else _OUTSIDER
    left = tuple(each for each in step.signers if each != one)
    altered: dict[str, list[Step]] = {
        "missing": [],
        "repeated": [step, step],
        "other": [step, step._replace(expires_in=step.expires_in + 1)],
        "lower": [step, step._replace(version=max(1, step.version - 4))],
        "unsigned": [step._replace(signers=left)],
        "outsider": [step._replace(signers=(*left, _OUTSIDER))],
        "forged": [step._replace(signers=left, forged=(*step.forged, one))],
        "threshold": [step._replace(threshold=random.randint(1, len(step.roots)))],
        "foreign": [step._replace(tenant="svc_tnt_other")],
    }
    return [*after, *before, step] if fault == "swapped" else [*before, *altered[fault], *after]


def _chain(random: Random) -> Chain:
    keys = tuple(sorted(random.sample(_KEYS, random.randint(1, 4))))
    threshold = random.randint(1, len(keys))
    steps = [Step(random.randint(1, 9), keys, threshold, 9, keys)]
    while len(steps) < 2 or random.random() < 0.7:
        steps.append(_next(random, steps[-1]))
    start = random.randrange(len(steps))
    faults = tuple(random.sample(_FAULTS, random.choice((0, 1, 1, 2, 3))))
    after = steps[start + 1 :]
    for fault in faults:
        after = _altered(random, after, fault) if after else after
    is_held = random.random() < 0.5
    # A relay may repeat what is held, and an older answer.
    answer = after if is_held and random.random() < 0.6 else steps[: start + 1] + after
    if is_held and random.random() < 0.1:
        answer = steps[: random.randint(1, len(steps))]
    return Chain(steps[start], tuple(answer), is_held, faults)


def _ours(chain: Chain) -> dict[str, Any] | RootReason:
    """The version that we hold after the answer, and whether it has expired; or the refusal."""
    start = chain.start.signed()
    by = start.document.roots
    state = pinned(by, start if chain.is_held else None)
    try:
        state = follow(state, [each.signed() for each in chain.answer], NOW)
    except NotTrusted as refused:
        return refused.reason
    return {"version": state.version, "is_expired": _is_expired(state)}


def _is_expired(state: TrustState) -> bool:
    head = Feed().head().encode()
    signed = signer(LIST).sign(wire.signed_part(head))
    with suppress(NotTrusted):
        return not judge(head, signed, state, NOW)
    with pytest.raises(NotTrusted, match=RootReason.TRUST_EXPIRED):
        judge(head, signed, state, NOW)
    return True


def _theirs(chains: list[Chain]) -> list[dict[str, Any] | None]:
    """What python-tuf says."""
    request = [
        {
            "start": chain.start.told(),
            "documents": [each.told() for each in chain.answer],
            "now": NOW.isoformat(),
        }
        for chain in chains
    ]
    answers: list[dict[str, Any] | None] = asked("tuf", "tuf_peer.py", request)
    return answers


@pytest.mark.slow
def test_a_thousand_chains_of_roots_are_decided_as_tuf_does() -> None:
    """TRUST-12, F671a: Of 1,000 random chains of roots we accept those that python-tuf accepts."""
    random = Random(7)
    chains = [_chain(random) for _ in range(_CHAINS)]
    ours, theirs = [_ours(chain) for chain in chains], _theirs(chains)
    counted = Counter(each if isinstance(each, RootReason) else "accepted" for each in ours)
    print(counted)
    differ = [
        (chain, one, other)
        for chain, one, other in zip(chains, ours, theirs, strict=True)
        if (None if isinstance(one, RootReason) else one) != other
    ]
    assert differ == []
    # Neither side is easy, and all reasons occur that python-tuf has too.
    assert 300 < counted["accepted"] < 700
    assert counted.keys() >= {RootReason.ROOT, RootReason.ROLLBACK, RootReason.TENANT}
    assert sum(each is not None and each["is_expired"] for each in theirs) > 50
