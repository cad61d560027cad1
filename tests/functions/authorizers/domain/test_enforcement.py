"""What is known of an authorizer, by what it reported and by the time (FLEET-11)."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from functions.authorizers.enforcement import (
    LAGGING_MAX,
    VISIBLE_AFTER,
    EnforcementState,
    judge,
    propagation,
)
from functions.authorizers.records import Authorizer, AuthorizerDescription
from shared.model.feed import PublishedEntry

ISSUED = datetime(2026, 11, 21, 12, tzinfo=UTC)
CHAINS = {number: bytes([number]) * 32 for number in range(61, 70)}
PUBLISHED = PublishedEntry(61, ISSUED, CHAINS)
NEVER = datetime(9000, 1, 1, tzinfo=UTC)


def authorizer(
    sequence: int | None = 58, *, chain: bytes | None = None, **fields: object
) -> Authorizer:
    """An authorizer that reported this shortly before the entry."""
    new = Authorizer.new(
        "svc_azr_a", AuthorizerDescription("gateway"), owner="o", key_id="", now=ISSUED
    )
    right = CHAINS[sequence] if sequence in CHAINS else bytes(32)
    told = {"sequence": sequence, "chain": right if chain is None else chain}
    silent = {"max_staleness_seconds": 30, "verified_at": ISSUED - timedelta(seconds=1)}
    return replace(new, **(told | silent | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reported", "enforcement"),
    [
        (authorizer(61), EnforcementState.ENFORCED),
        (authorizer(69), EnforcementState.ENFORCED),
        (authorizer(69, chain=b""), EnforcementState.ENFORCED),
        (authorizer(60), EnforcementState.FAIL_CLOSED),
        (authorizer(None, chain=b""), EnforcementState.FAIL_CLOSED),
        (authorizer(61, chain=b"1" * 32), EnforcementState.UNKNOWN),
        (authorizer(69, equivocation=True), EnforcementState.UNKNOWN),
        (authorizer(60, equivocation=True), EnforcementState.UNKNOWN),
        (authorizer(70), EnforcementState.UNKNOWN),
        (authorizer(70, chain=b""), EnforcementState.UNKNOWN),
        (authorizer(60, fail_open=True), EnforcementState.UNKNOWN),
        (authorizer(60, max_staleness_seconds=None), EnforcementState.UNKNOWN),
        (authorizer(60, max_staleness_seconds=10**18), EnforcementState.UNKNOWN),
        (authorizer(60, verified_at=NEVER - timedelta(seconds=1)), EnforcementState.UNKNOWN),
        (authorizer(60, verified_at=None), EnforcementState.FAIL_CLOSED),
    ],
)
def test_what_is_known_of_a_report(reported: Authorizer, enforcement: EnforcementState) -> None:
    """F262b: Only an authorizer that reported the entry with the service's chain enforces it."""
    assert judge(reported, PUBLISHED, NEVER).enforcement is enforcement


def test_a_chain_that_is_not_stored() -> None:
    """F262: A chain that cannot be compared proves nothing."""
    published = replace(PUBLISHED, chains={61: b""})
    assert judge(authorizer(61), published, ISSUED).enforcement is EnforcementState.UNKNOWN
    assert (
        judge(authorizer(61, chain=b""), published, ISSUED).enforcement is EnforcementState.ENFORCED
    )


def test_an_authorizer_closes_when_its_state_is_too_old() -> None:
    """FLEET-11, F263a: An authorizer fails closed once its older state is too old, not before.

    How long it has been silent does not matter: it may poll without a heartbeat.
    """
    silent = authorizer(60, last_seen_at=ISSUED - timedelta(days=20))
    closes_at = ISSUED + VISIBLE_AFTER + timedelta(seconds=30)
    for seconds, proof in ((-1, EnforcementState.UNKNOWN), (0, EnforcementState.FAIL_CLOSED)):
        judged = judge(silent, PUBLISHED, closes_at + timedelta(seconds=seconds))
        assert (judged.enforcement, judged.fail_closed_at) == (proof, closes_at)


def test_nobody_holds_what_is_not_published() -> None:
    """FLEET-12: Before the feed has the revocation, nothing is known of any authorizer."""
    found = propagation([authorizer(61), authorizer(60)], None, NEVER)
    assert (found.total, found.unknown, found.is_complete) == (2, 2, False)


def test_no_authorizer_proves_nothing() -> None:
    """FLEET-10, F263b: Without a registered authorizer, the propagation is never complete."""
    assert not propagation([], PUBLISHED, NEVER).is_complete


def test_the_lagging_authorizers() -> None:
    """FLEET-13: Lagging ones are named, the unknown and the longest unseen first, 100 at most."""
    enforced = [authorizer(61)] * 5
    fail_closed = [
        authorizer(60, id=f"c{number}", last_seen_at=ISSUED - timedelta(seconds=number))
        for number in range(99)
    ]
    unknown = [authorizer(60, id=f"u{number}", max_staleness_seconds=None) for number in range(3)]
    found = propagation([*enforced, *fail_closed, *unknown], PUBLISHED, NEVER)
    assert (found.total, found.enforced, found.fail_closed, found.unknown) == (107, 5, 99, 3)
    names = [each.authorizer.id for each in found.lagging_authorizers]
    assert len(names) == LAGGING_MAX
    assert names[:4] == ["u0", "u1", "u2", "c98"]
    assert not found.is_complete
    assert propagation([*enforced, *fail_closed], PUBLISHED, NEVER).is_complete


def test_no_honest_authorizer_is_taken_for_closed() -> None:
    """F263c: In random histories, an authorizer that enforces or fails closed refuses the warrant.

    Polls are answered with the state of the moment, heartbeats are rare, and some are lost. The
    entry becomes visible up to a minute after its time.
    """
    chance = random.Random(1)
    proofs = set()
    for _ in range(3_000):
        visible = chance.uniform(0, 60)
        staleness, now = chance.randrange(1, 90), chance.uniform(0, 200)
        # Seconds after the entry was issued; each poll confirms what it asked for.
        polls = sorted(chance.uniform(-100, now) for _ in range(chance.randrange(1, 20)))
        answered = [61 if each >= visible else 60 for each in polls]
        told = chance.randrange(len(polls))
        reported = authorizer(
            answered[told],
            max_staleness_seconds=staleness,
            verified_at=ISSUED + timedelta(seconds=polls[told]),
        )
        refuses = answered[-1] == 61 or now - polls[-1] > staleness
        proof = judge(reported, PUBLISHED, ISSUED + timedelta(seconds=now)).enforcement
        proofs.add((proof, refuses))
        assert refuses or proof is EnforcementState.UNKNOWN
    assert len(proofs) == 4
