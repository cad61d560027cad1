"""Random chains of roots: we decide as python-tuf does, whose rules we keep."""

from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any, Final

import pytest

from shared.authorizer.formats import wire
from shared.authorizer.formats.documents import NotTrusted, RootReason
from shared.authorizer.formats.following import TrustState, follow
from tests.authorizer.feeds import NOW, Feed, signer
from tests.authorizer.root_chains import Chain, chain_of
from tests.authorizer.roots import LIST, pinned
from tests.kit.peers import asked

_CHAINS: Final = 1000


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
        return not state.judge(head, signed, NOW)
    with pytest.raises(NotTrusted, match=RootReason.TRUST_EXPIRED):
        state.judge(head, signed, NOW)
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
    chains = [chain_of(random) for _ in range(_CHAINS)]
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
