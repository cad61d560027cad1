"""Whom a client believes that has list signers of the release before, and no pin."""

from typing import Any

import pytest

from shared.authorizer.belief import Belief
from shared.authorizer.formats.documents import NotTrusted, SignedDocument
from tests.authorizer.feeds import NOW, TENANT, Feed, public, signer
from tests.authorizer.roots import LIST, STANDBY, document, first, public_of, roots, signed
from tests.conformance.cases import base64_of

_OLD = Belief.of(TENANT, None, [public_of(LIST)])


def _refusal(belief: Belief, *given: SignedDocument) -> str:
    with pytest.raises(NotTrusted) as caught:
        belief.followed(given, NOW)
    return str(caught.value)


def test_a_client_without_a_pin_adopts_the_root_that_its_signer_vouches_for() -> None:
    """TRUST-20, F735a: The roots of the first document that a known signer signed are its pin.

    From then on the list signer vouches for no other root.
    """
    assert _OLD.followed((), NOW) is _OLD
    assert _refusal(_OLD, first(1)) == "root"
    assert _refusal(_OLD, signed(document(1), 1, STANDBY)) == "root"
    # The list signer alone makes no document.
    assert _refusal(_OLD, signed(document(1), LIST)) == "root"
    adopted = _OLD.followed([signed(document(1), 1, LIST)], NOW)
    assert adopted.state
    assert (adopted.version, adopted.state.pin) == (1, roots(1).pin)
    other = signed(document(2, roots=roots(9)), 9, LIST)
    assert _refusal(adopted, other) == "root"
    assert adopted.followed([first(2)], NOW).version == 2


def test_the_first_document_that_a_signer_vouches_for_may_be_an_old_one() -> None:
    """TRUST-20, F735b: A client whose signer has retired since begins at the document of its time.

    It follows the roots from there.
    """
    chain = [
        signed(document(1), 1, LIST),
        signed(document(2, roots=roots(2)), 1, 2, STANDBY),
        signed(document(5, roots=roots(2)), 2, 33),
    ]
    assert _OLD.followed(chain, NOW).version == 5
    later = Belief.of(TENANT, None, [public_of(STANDBY)]).followed(chain, NOW)
    assert later.state
    assert (later.version, later.state.pin) == (5, roots(2).pin)
    assert _refusal(Belief.of(TENANT, None, [public_of(34)]), *chain) == "root"
    foreign = signed(document(1, tenant_id="svc_tnt_b"), 1, LIST)
    assert _refusal(_OLD, foreign) == "tenant"


def test_the_signer_of_the_saved_head_vouches_alone() -> None:
    """TRUST-20, F735c: After a rotation the configured signer vouches for nothing any more.

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


def test_before_a_document_no_head_is_accepted() -> None:
    """TRUST-13, F735d: A list signer that is no pin vouches for a document, and not for heads."""
    answer = Feed(key=signer(LIST)).answer()
    with pytest.raises(NotTrusted, match="signature"):
        _OLD.verified(answer, NOW, None)
    adopted = _OLD.followed([signed(document(1), 1, LIST)], NOW)
    assert adopted.verified(answer, NOW, None).key == public_of(LIST)


@pytest.mark.parametrize(
    "wrong", [[], ["?"], [b"short"], [(1).to_bytes(32, "little")], ["YQ=="], "a" * 43 + "="]
)
def test_only_keys_vouch(wrong: Any) -> None:
    """F183d: A public key counts only if it has 32 bytes and is not of small order."""
    with pytest.raises((ValueError, TypeError), match=r"key|base64|list|trust_root"):
        Belief.of(TENANT, None, wrong)
    assert Belief.of(TENANT, None, [base64_of(public(signer(LIST)))]).keys == _OLD.keys
