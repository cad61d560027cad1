"""Whom a client believes that has list signers of the release before, and no pin."""

from typing import Any

import pytest

from shared.authorizer.belief import Belief
from shared.authorizer.formats.documents import NotTrusted, SignedDocument
from tests.authorizer.feeds import NOW, TENANT, public, signer
from tests.authorizer.roots import LIST, STANDBY, document, public_of, roots, signed
from tests.conformance.cases import base64_of

_OLD = Belief.of(TENANT, None, [public_of(LIST)])


def _refusal(belief: Belief, *given: SignedDocument) -> str:
    with pytest.raises(NotTrusted) as caught:
        belief.followed(given, NOW)
    return str(caught.value)


def test_the_signer_of_the_saved_head_vouches_alone() -> None:
    """TRUST-20, F735a: After a rotation the configured signer vouches for nothing any more.

    Nor does a signer that the release before knew to be stolen.
    """
    chain = [signed(document(1), 1, LIST)]
    present, stolen = public_of(STANDBY), public_of(LIST)
    assert _refusal(_OLD.resumed(None, present, frozenset()), *chain) == "root"
    assert _refusal(_OLD.resumed(None, None, frozenset({stolen})), *chain) == "root"
    assert _refusal(_OLD.resumed(None, stolen, frozenset({stolen})), *chain) == "root"
    assert _OLD.resumed(None, None, frozenset()).followed(chain, NOW).version == 1
    pinned = Belief.of(TENANT, roots(1).pin, [stolen])
    assert pinned.resumed(None, present, frozenset({stolen})).followed(chain, NOW).version == 1
    saved = pinned.followed(chain, NOW).state
    assert _OLD.resumed(saved, present, frozenset()).state == saved


@pytest.mark.parametrize(
    "wrong", [[], ["?"], [b"short"], [(1).to_bytes(32, "little")], ["YQ=="], "a" * 43 + "="]
)
def test_only_keys_vouch(wrong: Any) -> None:
    """F183d: A public key counts only if it has 32 bytes and is not of small order."""
    with pytest.raises((ValueError, TypeError), match=r"key|base64|list|trust_root"):
        Belief.of(TENANT, None, wrong)
    assert Belief.of(TENANT, None, [base64_of(public(signer(LIST)))]).keys == _OLD.keys
