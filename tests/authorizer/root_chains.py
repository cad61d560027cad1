"""Random chains of roots: documents as a service makes them, many of them with faults."""

from datetime import timedelta
from random import Random
from typing import Any, Final, NamedTuple

from shared.authorizer.formats.documents import SignedDocument
from shared.authorizer.formats.trust import TrustDocument
from tests.authorizer.feeds import NOW, TENANT
from tests.authorizer.roots import DAY, LIST, document, named, public_of, roots, signature

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
        return SignedDocument.decode(payload, signatures | forged)

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


def chain_of(random: Random) -> Chain:
    """A chain, without or with some faults."""
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
