"""Which trust documents and heads a client accepts, by what it holds."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.authorizer.formats import wire
from shared.authorizer.formats.documents import NotTrusted, RootReason, SignedDocument
from shared.authorizer.formats.following import LIFETIME_MAX, TrustState, follow, judge
from shared.authorizer.formats.wire import Position, Reference
from tests.authorizer.feeds import NOW, TENANT, Feed, public, signer
from tests.authorizer.roots import (
    DAY,
    LIST,
    NATIVE,
    ROOTS,
    STANDBY,
    document,
    first,
    named,
    pinned,
    public_of,
    roots,
    signed,
)

_SECOND = timedelta(seconds=1)
_2_OF_3 = roots(1, 2, 3, threshold=2)
_2_OF_3_LATER = roots(3, 4, 5, threshold=2)


def _rotated(version: int, *numbers: int) -> SignedDocument:
    """The document after `_2_OF_3`, which has roots of which one stays."""
    return signed(document(version, roots=_2_OF_3_LATER), *numbers)


def _refused(
    state: TrustState, given: Sequence[SignedDocument], now: datetime = NOW
) -> RootReason | None:
    """Why an answer is refused; None if it is not."""
    try:
        follow(state, given, now)
    except NotTrusted as refused:
        return refused.reason
    return None


def test_a_client_begins_at_its_pin_and_follows_the_roots() -> None:
    """TRUST-12, F663a: One pin suffices through three missed rotations of the roots.

    Documents before the pin are passed over, whoever signed them.
    """
    chain = (
        signed(document(1, roots=roots(9)), 8),
        signed(document(3, roots=_2_OF_3), 1, 3),
        _rotated(4, 1, 2, 4, 5),
        signed(document(7, roots=roots(6)), 3, 5, 6),
        signed(document(9, roots=roots(6)), 6),
    )
    assert follow(pinned(_2_OF_3), chain, NOW).held == chain[4]
    assert follow(pinned(_2_OF_3_LATER), chain, NOW).version == 9
    held = pinned(_2_OF_3, chain[1])
    assert held.version == 3
    assert follow(held, chain, NOW) == follow(held, chain[2:], NOW) == replace(held, held=chain[4])
    assert follow(held, chain[2:3], NOW).version == 4
    assert pinned().version == 0


def test_an_answer_without_news_changes_nothing() -> None:
    """TRUST-12, F663b: The held document again, with whichever signatures, is no news."""
    held = pinned(held=first(5))
    for answer in ((), (first(5),), (first(2), first(5)), (signed(document(5)),)):
        assert follow(held, answer, NOW) is held
    assert follow(pinned(), (), NOW) == pinned()


def test_expiry_counts_only_where_the_document_is_used() -> None:
    """TRUST-12, F663c: Documents between may have expired, or have been issued in the future.

    The newest may have expired too: then no head is accepted.
    """
    old = first(2, issued_at=NOW - 900 * DAY, expires_at=NOW - 3 * DAY)
    later = first(3, issued_at=NOW + DAY)
    state = follow(pinned(), (first(1), old, later, first(4)), NOW)
    assert state.version == 4
    expired = first(5, issued_at=NOW - 30 * DAY, expires_at=NOW)
    assert _judged(follow(state, [expired], NOW)) is RootReason.TRUST_EXPIRED


_CHAIN = (signed(document(3, roots=_2_OF_3), 1, 2), _rotated(4, 1, 2, 4, 5))
_REFUSED: dict[str, tuple[RootReason, TrustState, tuple[SignedDocument, ...]]] = {
    "another tenant": (RootReason.TENANT, pinned(), (first(tenant_id="svc_tnt_b"),)),
    "another tenant before": (
        RootReason.TENANT,
        pinned(held=first(5)),
        (first(1, tenant_id="svc_tnt_b"), first(6)),
    ),
    "another pin": (RootReason.ROOT, pinned(roots(2)), (first(),)),
    "another threshold": (RootReason.ROOT, pinned(roots(1, 2)), (_CHAIN[0],)),
    "a first one that is not signed": (RootReason.ROOT, pinned(), (signed(document()),)),
    "a first one of another key": (RootReason.ROOT, pinned(), (signed(document(), 2),)),
    "too few of its own roots": (
        RootReason.ROOT,
        pinned(_2_OF_3),
        (_CHAIN[0], _rotated(4, 1, 2, 4)),
    ),
    "too few of the roots before": (
        RootReason.ROOT,
        pinned(_2_OF_3),
        (_CHAIN[0], _rotated(4, 1, 4, 5)),
    ),
    "only its own roots": (RootReason.ROOT, pinned(held=first(1)), (_rotated(2, 3, 4, 5),)),
    "a list signer as root": (
        RootReason.ROOT,
        pinned(held=first(1)),
        (signed(document(2), LIST, STANDBY),),
    ),
    "a missing rotation": (
        RootReason.ROOT,
        pinned(_2_OF_3),
        (_CHAIN[0], signed(document(5, roots=roots(6)), 4, 5, 6)),
    ),
    "roots that were replaced": (
        RootReason.ROOT,
        pinned(_2_OF_3),
        (*_CHAIN, signed(document(5, roots=_2_OF_3), 1, 2)),
    ),
    "an older one": (RootReason.ROLLBACK, pinned(held=first(5)), (first(4),)),
    "an older one at the end": (RootReason.ROLLBACK, pinned(held=first(5)), (first(6), first(4))),
    "an older one at the beginning": (RootReason.ROLLBACK, pinned(), (first(6), first(4))),
    "other bytes of the same version": (
        RootReason.EQUIVOCATION,
        pinned(held=first(5)),
        (first(5, expires_at=NOW + DAY),),
    ),
    "two of one version": (
        RootReason.EQUIVOCATION,
        pinned(),
        (first(5), first(5, expires_at=NOW + DAY)),
    ),
    "other bytes that nobody signed": (
        RootReason.ROOT,
        pinned(held=first(5)),
        (signed(document(5, expires_at=NOW + DAY), 2),),
    ),
    "more than 400 days": (
        RootReason.LIFETIME,
        pinned(held=first(5)),
        (first(6, expires_at=NOW + LIFETIME_MAX + _SECOND),),
    ),
    "no time at all": (RootReason.LIFETIME, pinned(), (first(6, expires_at=NOW),)),
    "the future": (RootReason.FUTURE, pinned(), (first(6, issued_at=NOW + 31 * _SECOND),)),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_an_answer_is_refused(name: str) -> None:
    """TRUST-12, F664a: An answer that breaks a rule of the chain is refused, by its reason."""
    reason, state, answer = _REFUSED[name]
    assert _refused(state, answer) is reason


def test_the_limits_are_those_that_the_page_says() -> None:
    """TRUST-12, F664b: 400 days and 30 seconds ahead of the clock are accepted."""
    assert follow(pinned(), [first(6, expires_at=NOW + 400 * DAY)], NOW).version == 6
    assert follow(pinned(), [first(6, issued_at=NOW + 30 * _SECOND)], NOW).version == 6


def test_nothing_of_a_refused_answer_counts() -> None:
    """TRUST-12, F664c: A refused answer leaves the state as it was, also if it began well."""
    held = pinned(held=first(5))
    assert _refused(held, [first(6), signed(document(7), 2)]) is RootReason.ROOT
    assert held == pinned(held=first(5))


_KEYS = st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True)
_STEPS = st.lists(
    st.tuples(
        st.integers(1, 6), _KEYS, st.integers(1, 2), st.lists(st.integers(1, 5), unique=True)
    ),
    max_size=6,
)


@given(_STEPS, st.booleans())
def test_a_client_never_goes_back(
    steps: list[tuple[int, list[int], int, list[int]]], is_held: bool
) -> None:
    """TRUST-12, F664d: No answer brings an older version, or roots without those before them."""
    given = [
        signed(document(version, roots=roots(*keys, threshold=min(threshold, len(keys)))), *by)
        for version, keys, threshold, by in steps
    ]
    state = pinned(held=first(3)) if is_held else pinned()
    for each in given:
        try:
            after = follow(state, [each], NOW)
        except NotTrusted:
            continue
        assert after.version >= state.version
        assert after.held
        before = state.held.document.roots if state.held else ROOTS
        assert after.held is state.held or after.held.is_signed_by(before)
        assert after.held is state.held or after.held.is_signed_by(after.held.document.roots)
        state = after
    assert state.pin == ROOTS.pin


def test_another_pin_begins_anew() -> None:
    """TRUST-7, F663d: A client that gets another pin forgets its document, but not at a rotation.

    The pin of the roots that it holds may replace the one with which it began.
    """
    held = follow(pinned(_2_OF_3), _CHAIN, NOW)
    assert held.pinned(_2_OF_3.pin) == held
    later = held.pinned(_2_OF_3_LATER.pin)
    assert later.held == held.held
    assert later.pin == _2_OF_3_LATER.pin
    assert held.pinned(ROOTS.pin) == pinned()
    assert pinned().pinned(_2_OF_3.pin) == pinned(_2_OF_3)


@pytest.mark.parametrize("pin", ["", "a" * 63, "A" * 64, "g" * 64, "a" * 65, "a" * 64 + "\n"])
def test_a_pin_has_one_form(pin: str) -> None:
    """TRUST-7: A pin is 64 digits; another text is refused before anything is believed."""
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        TrustState(TENANT, pin)


# --- heads ---


def _judged(
    state: TrustState,
    by: int = LIST,
    now: datetime = NOW,
    trust: Reference | None = None,
    change: Callable[[bytes], bytes] = bytes,
) -> RootReason | int:
    """Which key signed a head, or why the head is refused."""
    payload = change(replace(Feed().head(), trust=trust).encode())
    signature = signer(by).sign(wire.signed_part(payload))
    try:
        judged = judge(payload, signature, state, now, likely=public_of(STANDBY))
    except NotTrusted as refused:
        return refused.reason
    assert judged.head.encode() == payload
    assert judged.key == public(signer(by))
    return by


def test_a_head_is_accepted_by_a_key_that_the_document_names() -> None:
    """TRUST-13, F665a: The list signer and the standby one sign heads, and nobody else does."""
    state = pinned(held=first(5))
    assert _judged(state) == LIST
    assert _judged(state, STANDBY) == STANDBY
    assert _judged(state, NATIVE) is RootReason.SIGNATURE
    assert _judged(state, 1) is RootReason.SIGNATURE
    assert _judged(pinned()) is RootReason.SIGNATURE
    dropped = pinned(held=first(6, signers=named((STANDBY, "lists"))))
    assert _judged(dropped) is RootReason.SIGNATURE
    assert _judged(dropped, STANDBY) == STANDBY
    assert _judged(state, change=lambda payload: payload[:-1]) is RootReason.MALFORMED


def test_a_head_needs_a_document_that_has_not_expired() -> None:
    """TRUST-13, F665b: From `ExpiresAt` on the document vouches for no head."""
    state = pinned(held=first(5))
    assert _judged(state, now=NOW + 14 * DAY - _SECOND) == LIST
    assert _judged(state, now=NOW + 14 * DAY) is RootReason.TRUST_EXPIRED


def test_a_head_names_the_newest_document() -> None:
    """TRUST-9, TRUST-13, F665c: A client with an older document than the head names must read it.

    A head that names an older one is accepted, and one that names other bytes is not.
    """
    held = first(5)
    state = pinned(held=held)
    assert _judged(state, trust=held.reference) == LIST
    assert _judged(state, trust=Reference(b"h" * 32, 4)) == LIST
    assert _judged(state, trust=Reference(b"h" * 32, 5)) is RootReason.EQUIVOCATION
    assert _judged(state, trust=Reference(b"h" * 32, 6)) is RootReason.BEHIND
    assert first(6).reference == first(6, issued_at=NOW).reference != held.reference


def test_the_checks_of_a_head_have_an_order() -> None:
    """TRUST-13, F665d: Who signed is checked first, then the document, then what the head names."""
    old = pinned(held=first(5))
    later, newer = NOW + 15 * DAY, Reference(b"h" * 32, 6)
    assert _judged(old, 1, later, newer) is RootReason.SIGNATURE
    assert _judged(old, LIST, later, newer) is RootReason.TRUST_EXPIRED
    assert _judged(old, LIST, NOW, newer) is RootReason.BEHIND


def test_a_head_names_document_and_signing_keys() -> None:
    """TRUST-9, F665e: A head may have either reference, and is read as it was written."""
    head = Feed().head()
    whole = replace(head, trust=Reference(b"t" * 32, 9), keys=Reference(b"k" * 32, 20_758))
    for each in (head, replace(whole, keys=None), replace(whole, trust=None), whole):
        assert wire.SignedHead.decode(each.encode()) == each


def test_the_feed_goes_on_after_a_thief() -> None:
    """TRUST-14, F666a: A document without the key of the saved head replaces the saved position.

    However far the thief of that key led the client ahead, the genuine feed goes on.
    """
    thief, genuine = Position(2**40, b"x" * 32), Position(7, b"c" * 32)
    before = pinned(held=first(5))
    assert before.position(public_of(LIST), thief) == thief
    dropped = named((STANDBY, "lists"), (LIST, "native"))
    after = follow(before, [first(6, signers=dropped)], NOW)
    assert after.position(public_of(LIST), thief) == genuine
    assert after.position(public_of(STANDBY), thief) == thief
    assert after.position(None, thief) == genuine


def test_a_new_client_begins_at_the_position_of_the_document() -> None:
    """TRUST-14, F666b: Without a saved position no head before the document is accepted."""
    assert pinned(held=first(5)).position(None, None) == Position(7, b"c" * 32)
    assert pinned().position(None, None) is None
    assert pinned().position(public_of(LIST), Position(1, b"")) == Position(1, b"")
