"""Which trust documents a client accepts, which heads they vouch for, and what a theft allows."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import cbor2

from shared.authorizer.formats.documents import NotTrusted, SignedDocument, signed_part
from shared.authorizer.formats.signing_keys import (
    Certificate,
    PublishedKey,
    PublishedKeys,
    covering,
    reference,
)
from shared.authorizer.formats.trust import DocumentSigner, RootSet, TrustDocument
from shared.authorizer.formats.wire import HashReference
from shared.authorizer.state import FeedPosition
from tests.authorizer.feeds import NOW, TENANT, Feed, sealed, signer
from tests.authorizer.roots import DAY, public_of, roots, signed
from tests.conformance.cases import (
    ROOT,
    ROOTS,
    UNKNOWN,
    A,
    B,
    C,
    Case,
    D,
    base64_of,
    case,
    nested,
    with_new,
)

_SECOND = timedelta(seconds=1)
_OTHER_TENANT = "svc_tnt_01KAJ3TMF00000000000GLOBEX"

# The numbers of the standby list signer, of a thief's key, and of keys with other uses.
_STANDBY, _THIEF, _NATIVE, _LOG = 2, 9, 102, 103
_2_OF_3 = roots(201, 202, 203, threshold=2)
_2_OF_3_LATER = roots(203, 204, 205, threshold=2)


def _document(case: Case, version: int, *lists: int, **changes: Any) -> TrustDocument:
    """A document of two weeks that names these list signers, and the end of the base."""
    uses = dict.fromkeys(lists or (1, _STANDBY), "lists") | {_NATIVE: "native", _LOG: "log"}
    made = TrustDocument(
        tenant_id=TENANT,
        version=version,
        issued_at=NOW,
        expires_at=NOW + 14 * DAY,
        roots=ROOTS,
        signers=tuple(sorted(DocumentSigner(public_of(key), (use,)) for key, use in uses.items())),
        feed=FeedPosition(case.feed.base.sequence, case.feed.base.chain),
    )
    return replace(made, **changes)


def _by_root(case: Case, version: int, *lists: int, **changes: Any) -> SignedDocument:
    return signed(_document(case, version, *lists, **changes), ROOT)


def _of(case: Case, version: int, by: RootSet, *signed_by: int) -> SignedDocument:
    """A document with these roots, signed by the keys of these numbers."""
    return signed(_document(case, version, roots=by), *signed_by)


def _begun(case: Case, version: int = 5) -> SignedDocument:
    """A client that holds a document and the feed as they are now."""
    document = _by_root(case, version)
    case.pinned()
    case.trust(document, version=version)
    case.poll(case.feed.answer(), base=case.feed.data, sequence=case.feed.sequence)
    return document


def _signed_by(case: Case, number: int, after: int | None = None, **head: Any) -> Any:
    """The answer that another signer signs."""
    branch = case.feed.branch()
    branch.key = signer(number)
    return branch.answer(after, **head)


def _still_held(case: Case) -> None:
    """After a refused answer the client holds what it held."""
    case.check("revoked", A)
    case.check("clear", D)


# --- documents (TRUST-12) ---


@case
def trust__one_pin(case: Case) -> None:
    """A client with a pin alone believes no head; the document tells it whom to believe."""
    case.pinned()
    case.poll(case.feed.answer(), base=case.feed.data, refused="signature")
    case.check("stale", D)
    case.trust(version=0)
    case.trust(_by_root(case, 5), version=5)
    case.check("stale", D)
    case.poll(case.feed.answer(), needs_base=1)
    case.poll(case.feed.answer(), base=case.feed.data, sequence=1)
    _still_held(case)


@case
def trust__no_news(case: Case) -> None:
    """The held document again, with whichever signatures, or none at all, changes nothing."""
    held = _begun(case)
    case.trust(version=5)
    case.trust(held, version=5)
    case.trust(signed(held.document), version=5)
    case.trust(_by_root(case, 3), held, version=5)
    _still_held(case)


@case
def trust__members_that_are_not_known(case: Case) -> None:
    """Members that a client does not know are ignored, and so are uses and other signatures."""
    case.pinned()
    document = _document(case, 5)
    members = cbor2.loads(document.encode())
    members["Note"] = ["new", 2**40]
    members["Feed"]["Note"] = members["Signers"][0]["Note"] = True
    members["Signers"][0]["Uses"] = [*members["Signers"][0]["Uses"], "zebra"]
    case.trust(_form(cbor2.dumps(members, canonical=True), ROOT, 1, _THIEF), version=5)
    case.poll(case.feed.answer(), base=case.feed.data, sequence=1)


def _form(payload: bytes, *by: int) -> dict[str, Any]:
    """Any bytes, signed as a document is."""
    signatures = [
        {
            "Key": base64_of(public_of(each)),
            "Signature": base64_of(signer(each).sign(signed_part(payload))),
        }
        for each in by
    ]
    return {"Payload": base64_of(payload), "Signatures": signatures}


@case
def trust__too_large(case: Case) -> None:
    """An answer has at most 6 MiB and 64 documents, each of 64 KiB and 16 signatures."""
    held = _begun(case)
    case.trust(held, version=5, spaces=2**20)
    case.trust(held, refused="too_large", spaces=6 * 2**20)
    case.trust(*[_form(b"\xa0", ROOT)] * 64, refused="malformed")
    case.trust(*[_form(held.payload, ROOT)] * 65, refused="too_large")
    members = cbor2.loads(_document(case, 6).encode())
    for size, expected in ((64_000, {"version": 6}), (65_536, {"refused": "too_large"})):
        members["Note"] = b"n" * size
        members["Version"] = 6 if size < 65_000 else 7
        case.trust(_form(cbor2.dumps(members, canonical=True), ROOT), **expected)
    case.trust(_form(_document(case, 7).encode(), *range(201, 218)), refused="too_large")
    _still_held(case)


@case
def trust__malformed(case: Case) -> None:
    """An answer that is none, or with a document that is none, is refused as a whole."""
    _begun(case)
    good = _by_root(case, 6)
    for text in ("", "[]", "{}", '{"documents": {}}', '{"documents": [1]}', "[" * 1000):
        case.response(text, refused="malformed")
    form, payload = good.form(), base64_of(good.payload)
    (entry,) = form["Signatures"]
    for change in (
        {"Payload": payload[:-1]},
        {"Payload": "?" + payload[1:]},
        {"Payload": None},
        {"Signatures": None},
        {"Signatures": [entry, entry]},
        {"Signatures": [{"Key": entry["Key"]}]},
        {"Signatures": [{**entry, "Signature": "?"}]},
    ):
        case.trust({**form, **change}, refused="malformed")
        case.trust({**form, **change}, good, refused="malformed")
    _still_held(case)


# The encodings of the points of small order, for which anybody can sign: y, also as y + p if that
# has 255 bits, and the sign of x.
_P = 2**255 - 19
_Y_OF_ORDER_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_SMALL = [
    (y | sign << 255).to_bytes(32, "little")
    for y in (0, 1, _P - 1, _P, _P + 1, _Y_OF_ORDER_8, _P - _Y_OF_ORDER_8)
    for sign in (0, 1)
]


def _changed(members: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The members with another value at a path; without it if the value is `...`."""
    copied: dict[str, Any] = cbor2.loads(cbor2.dumps(members))
    *way, last = path.split(".")
    at: Any = copied
    for name in way:
        at = at[int(name)] if name.isdecimal() else at[name]
    if value is ...:
        del at[last]
    else:
        at[int(last) if last.isdecimal() else last] = value
    return copied


@case
def trust__malformed__in_a_document(case: Case) -> None:
    """A document with a member that is absent, or not what it must be, is refused."""
    _begun(case)
    members = cbor2.loads(_document(case, 6).encode())
    root, named = members["Roots"]["Keys"][0], members["Signers"]
    wrong: list[tuple[str, Any]] = [(name, ...) for name in members]
    wrong += [
        ("Version", 0),
        ("Version", 2**53 + 1),
        ("Version", "6"),
        ("Tenant", b"t"),
        ("IssuedAt", "2026-11-21 12:00:00Z"),
        ("Feed.Chain", b"c" * 31),
        ("Feed.Sequence", -1),
        ("Roots.Threshold", 0),
        ("Roots.Threshold", 2),
        ("Roots.Keys", []),
        ("Roots.Keys", [root, root]),
        ("Roots.Keys.0", root[:31]),
        ("Roots.Keys.0", b""),
        ("Roots.Note", 1),
        ("Signers", [*reversed(named)]),
        ("Signers", [named[0], *named]),
        ("Signers.0.Key", "key"),
        ("Signers.0.Uses", []),
        ("Signers.0.Uses", ["lists", "lists"]),
        ("Signers.0.Uses", ["native", "lists"]),
        ("Signers", [{"Key": root, "Uses": ["lists"]}]),
        ("Log", {"Origin": "o", "Size": 1, "Root": b"r"}),
        ("Witnesses", {"Keys": ["w"], "Quorum": 2}),
    ]
    keys = sorted(public_of(number) for number in range(211, 220))
    wrong.append(("Roots.Keys", keys))
    wrong += [("Roots.Keys.0", each) for each in _SMALL]
    # Alone, so that nothing but the key is wrong.
    wrong += [("Signers", [{"Key": each, "Uses": ["lists"]}]) for each in _SMALL]
    for path, value in wrong:
        payload = cbor2.dumps(_changed(members, path, value), canonical=True)
        case.trust(_form(payload, ROOT), refused="malformed")
    encoded = cbor2.dumps(members, canonical=True)
    for value in (nested(16), b"\x61\xff"):
        case.trust(_form(with_new(encoded, value), ROOT), refused="malformed")
    for payload in (cbor2.dumps(dict(reversed(members.items()))), encoded + b"\x00", b"", b"\xff"):
        case.trust(_form(payload, ROOT), refused="malformed")
    case.trust(_form(encoded, ROOT), version=6)


@case
def trust__tenant(case: Case) -> None:
    """A document of another tenant is refused, also before a good one."""
    _begun(case)
    other = _by_root(case, 6, tenant_id=_OTHER_TENANT)
    case.trust(other, refused="tenant")
    case.trust(other, _by_root(case, 7), refused="tenant")
    _still_held(case)
    case.pinned()
    case.trust(other, refused="tenant")


@case
def trust__root(case: Case) -> None:
    """A document that the root did not sign is refused, whoever signed it."""
    _begun(case)
    document = _document(case, 6)
    payload = document.encode()
    for by in ((), (1,), (_STANDBY, _LOG, _NATIVE), (_THIEF,)):
        case.trust(signed(document, *by), refused="root")
    signatures = [
        bytes(64),
        signer(ROOT).sign(payload),
        signer(ROOT).sign(signed_part(payload)[17:]),
        signer(ROOT).sign(signed_part(payload[:-1])),
    ]
    for each in signatures:
        entry = {"Key": base64_of(public_of(ROOT)), "Signature": base64_of(each)}
        case.trust({"Payload": base64_of(payload), "Signatures": [entry]}, refused="root")
    _still_held(case)
    case.trust(signed(document, ROOT), version=6)


@case
def trust__root__each_byte(case: Case) -> None:
    """A document with a changed byte is refused, wherever the byte is."""
    _begun(case)
    payload = _document(case, 6).encode()
    form = _form(payload, ROOT)
    for place in range(0, len(payload), 7):
        changed = bytearray(payload)
        changed[place] ^= 1
        try:
            SignedDocument.decode(bytes(changed), {})
        except NotTrusted:
            continue
        reason = "tenant" if TENANT.encode() not in changed else "root"
        case.trust({**form, "Payload": base64_of(bytes(changed))}, refused=reason)
    _still_held(case)


@case
def trust__another_pin(case: Case) -> None:
    """A client believes no document of roots to which none leads from its pin."""
    case.pinned(roots(_THIEF))
    case.trust(_by_root(case, 5), refused="root")
    case.pinned(roots(ROOT, 202, threshold=1))
    case.trust(_by_root(case, 5), refused="root")
    case.poll(case.feed.answer(), base=case.feed.data, refused="signature")


@case
def trust__rotations_of_roots(case: Case) -> None:
    """One pin suffices through three missed rotations of the roots, whose documents may expire."""
    old = {"issued_at": NOW - 900 * DAY, "expires_at": NOW - 800 * DAY}
    chain = (
        signed(_document(case, 1, roots=roots(208), **old), 207),
        signed(_document(case, 3, roots=_2_OF_3, **old), 201, 203),
        _of(case, 4, _2_OF_3_LATER, 201, 202, 204, 205),
        _of(case, 7, roots(206), 203, 205, 206),
        _of(case, 9, roots(206), 206),
    )
    case.pinned(_2_OF_3)
    case.trust(*chain, version=9)
    case.poll(case.feed.answer(), base=case.feed.data, sequence=1)
    case.restart()
    case.trust(*chain, version=9)
    case.trust(_of(case, 10, _2_OF_3, 201, 202, 203), refused="root")
    case.trust(_of(case, 10, roots(206), 206), version=10)


@case
def trust__too_few_roots(case: Case) -> None:
    """A rotation of roots needs the threshold of those before it and of its own.

    So one stolen root of two that must sign allows nothing.
    """
    first = _of(case, 3, _2_OF_3, 201, 202)
    case.pinned(_2_OF_3)
    case.trust(_of(case, 3, _2_OF_3, 201), refused="root")
    case.trust(first, version=3)
    for by in ((201,), (201, 204, 205), (204, 205), (201, 202, 204), (201, 202, 1, 2)):
        case.trust(_of(case, 4, _2_OF_3_LATER, *by), refused="root")
    case.trust(_of(case, 4, _2_OF_3, 201, _THIEF), refused="root")
    # A missing rotation.
    case.trust(_of(case, 5, roots(206), 204, 205, 206), refused="root")
    case.trust(_of(case, 4, _2_OF_3_LATER, 203, 201, 204), version=4)


@case
def trust__equivocation(case: Case) -> None:
    """Two documents of one version that the roots signed are evidence against them."""
    _begun(case)
    other = _by_root(case, 5, expires_at=NOW + DAY)
    case.trust(other, refused="equivocation")
    case.trust(signed(other.document, _THIEF), refused="root")
    _still_held(case)
    case.pinned()
    case.trust(_by_root(case, 5), other, refused="equivocation")


@case
def trust__rollback(case: Case) -> None:
    """A document that is older than what is held is refused, also after a restart."""
    _begun(case)
    for _ in range(2):
        case.trust(_by_root(case, 4), refused="rollback")
        case.trust(_by_root(case, 6), _by_root(case, 4), refused="rollback")
        case.restart()
    case.poll(case.feed.answer(), base=case.feed.data, sequence=1)
    _still_held(case)
    case.pinned()
    case.trust(_by_root(case, 6), _by_root(case, 4), refused="rollback")


@case
def trust__lifetime(case: Case) -> None:
    """The newest document lives for at most 400 days, and for some time."""
    _begun(case)
    for end in (NOW, NOW - _SECOND, NOW + 400 * DAY + _SECOND):
        case.trust(_by_root(case, 6, expires_at=end), refused="lifetime")
    case.trust(_by_root(case, 6, expires_at=NOW + 400 * DAY), version=6)


@case
def trust__future(case: Case) -> None:
    """The newest document was issued at most 30 seconds ahead of the clock."""
    _begun(case)
    case.trust(_by_root(case, 6, issued_at=NOW + 31 * _SECOND), refused="future")
    case.trust(_by_root(case, 6, issued_at=NOW + 30 * _SECOND), version=6)


@case
def trust__nothing_of_a_refused_answer(case: Case) -> None:
    """If one document of an answer is refused, the others do not count either."""
    _begun(case)
    good = _by_root(case, 6, 3)
    case.trust(good, signed(_document(case, 7), _THIEF), refused="root")
    case.poll(_signed_by(case, 3), base=case.feed.data, refused="signature")
    case.poll(case.feed.answer(), sequence=1)
    _still_held(case)
    case.trust(good, version=6)


# --- heads (TRUST-13) ---


@case
def trust__heads(case: Case) -> None:
    """Heads by each key that the document names for lists are accepted, and by no other key."""
    _begun(case)
    case.feed.publish(UNKNOWN)
    for number in (_NATIVE, _LOG, _THIEF, ROOT):
        case.poll(_signed_by(case, number, 1), refused="signature")
    case.check("clear", UNKNOWN)
    case.poll(_signed_by(case, _STANDBY, 1), sequence=2)
    case.check("revoked", UNKNOWN)
    case.poll(case.feed.answer(1), sequence=2)
    broken = case.feed.head().encode()[:-1]
    case.poll(sealed(broken, signer(1)), refused="malformed")


@case
def trust__behind(case: Case) -> None:
    """A head that names a newer document is refused until the client has read it.

    So nobody on the way hides a document, as a relay might.
    """
    held = _begun(case)
    newer = _by_root(case, 6)
    case.feed.publish(UNKNOWN)
    case.poll(case.feed.answer(1, trust=newer.reference), refused="behind")
    case.trust(held, version=5)
    case.poll(case.feed.answer(1, trust=newer.reference), refused="behind")
    _still_held(case)
    case.trust(newer, version=6)
    case.poll(case.feed.answer(1, trust=newer.reference), sequence=2)
    # A head that names an older one is of a server that is behind.
    case.poll(case.feed.answer(1, trust=held.reference), sequence=2)


@case
def trust__equivocation__of_a_head(case: Case) -> None:
    """A head that names other bytes of the held version is refused."""
    held = _begun(case)
    case.poll(case.feed.answer(1, trust=HashReference(b"h" * 32, 5)), refused="equivocation")
    case.poll(case.feed.answer(1, trust=held.reference), sequence=1)
    _still_held(case)


@case
def trust__nothing_that_a_head_names_is_saved(case: Case) -> None:
    """A thief of the list signer cannot claim a version that later documents do not reach."""
    _begun(case)
    claimed = case.feed.answer(1, trust=HashReference(b"h" * 32, 2**53))
    case.poll(claimed, refused="behind")
    case.trust(_by_root(case, 6, _STANDBY), version=6)
    case.poll(claimed, refused="signature")
    case.poll(_signed_by(case, _STANDBY), base=case.feed.data, sequence=1)


@case
def trust_expired(case: Case) -> None:
    """From its ExpiresAt on a document vouches for no head, neither a new one nor a held one.

    A thief of the list signer who also hides documents comes no further than this.
    """
    _begun(case)
    end = NOW + 14 * DAY
    late = {"issued_at": end - _SECOND, "expires_at": end + DAY}
    case.poll(case.feed.answer(1, **late), now=end - _SECOND, sequence=1)
    case.check("clear", D, now=end - _SECOND)
    case.check("stale", D, now=end)
    case.check("revoked", A, now=end)
    case.poll(case.feed.answer(1, **late), now=end, refused="trust_expired")
    later = _by_root(case, 6, issued_at=end, expires_at=end + DAY)
    case.trust(later, now=end, version=6)
    case.poll(case.feed.answer(1, **late), now=end, sequence=1)
    case.check("clear", D, now=end)


@case
def trust__the_order_of_checks(case: Case) -> None:
    """Who signed is checked first, then the document's end, then what the head names."""
    _begun(case)
    end, named = NOW + 15 * DAY, HashReference(b"h" * 32, 6)
    case.poll(_signed_by(case, _THIEF, trust=named), now=end, refused="signature")
    case.poll(case.feed.answer(1, trust=named), now=end, refused="trust_expired")
    case.poll(case.feed.answer(1, trust=named), refused="behind")
    other = replace(case.feed.head(), tenant_id=_OTHER_TENANT, trust=named)
    case.poll(sealed(other.encode(), signer(1)), refused="behind")


# --- a theft, a rotation, a restore (TRUST-14) ---


@case
def trust__a_rotation(case: Case) -> None:
    """The standby signer signs after a rotation, and the next document drops the one before."""
    _begun(case)
    old = case.feed.branch()
    case.feed.key = signer(_STANDBY)
    case.feed.publish(UNKNOWN)
    case.poll(case.feed.answer(1), sequence=2)
    case.trust(_by_root(case, 6, _STANDBY, 3), version=6)
    case.check("clear", D)
    old.publish(D)
    case.poll(old.answer(1), refused="signature")
    case.feed.publish(C)
    case.poll(case.feed.answer(2), sequence=3)


@case
def trust__a_thief_of_the_srl_signer(case: Case) -> None:
    """Once a document drops a stolen signer, what it signed clears nothing.

    However far the thief led the client ahead, the genuine feed goes on from `Feed`, with its base.
    """
    _begun(case)
    thief = case.feed.branch()
    thief.publish(removed=(A,))
    thief.publish(leap=2**32 - 2)
    thief.publish_list()
    case.poll(thief.answer(), base=thief.data, sequence=thief.sequence)
    case.check("clear", A)
    case.feed.key = signer(_STANDBY)
    case.feed.publish(leap=2**20)
    case.feed.publish_list()
    case.poll(case.feed.answer(), base=case.feed.data, refused="rollback")
    case.trust(_by_root(case, 6, _STANDBY), version=6)
    case.check("stale", A)
    case.check("revoked", B)
    case.poll(thief.answer(), base=thief.data, refused="signature")
    case.poll(case.feed.answer(), needs_base=2)
    case.poll(case.feed.answer(), base=case.feed.data, sequence=case.feed.sequence)
    case.check("revoked", A)
    case.check("clear", D)


@case
def trust__a_thief_before_a_restart(case: Case) -> None:
    """A saved position that a stolen signer signed is replaced by that of the document."""
    _begun(case)
    thief = case.feed.branch()
    thief.publish(D, leap=2**30)
    thief.publish_list()
    case.poll(thief.answer(), base=thief.data, sequence=thief.sequence)
    case.restart()
    case.feed.key = signer(_STANDBY)
    case.poll(case.feed.answer(), base=case.feed.data, refused="rollback")
    case.trust(_by_root(case, 6, _STANDBY), version=6)
    case.poll(case.feed.answer(), base=case.feed.data, sequence=1)
    case.check("clear", D)
    # The document itself is no way back either.
    case.restart()
    case.trust(_by_root(case, 5), refused="rollback")


@case
def trust__the_saved_position(case: Case) -> None:
    """A floor counts as long as the document names the signer of its head, and only so long."""
    case.feed.publish(UNKNOWN)
    floor = FeedPosition(case.feed.sequence, case.feed.chain)
    old = Feed(ids={A, B})
    old.publish(C)
    for signed_by, expected in ((1, {"refused": "rollback"}), (_THIEF, {"sequence": 1})):
        case.pinned(floor=floor, signed_by=signed_by)
        case.trust(_by_root(case, 5), version=5)
        case.poll(old.answer(), base=old.data, **expected)


@case
def trust__a_newcomer_begins_at_the_document(case: Case) -> None:
    """A client without a position accepts no head below or beside `Feed`."""
    case.feed.publish(D)
    beside = case.feed.branch()
    below = case.feed.branch()
    case.feed.publish(UNKNOWN)
    beside.publish(C)
    feed = FeedPosition(case.feed.sequence, case.feed.chain)
    case.pinned()
    case.trust(_by_root(case, 5, feed=feed), version=5)
    case.poll(below.answer(), base=below.data, refused="rollback")
    case.poll(beside.answer(), base=beside.data, refused="equivocation")
    beside.publish(D)
    case.poll(beside.answer(), base=beside.data, refused="chain")
    case.poll(case.feed.answer(), base=case.feed.data, sequence=3)


@case
def trust__a_restore(case: Case) -> None:
    """After a restore a document of a much higher version leads on, with other list signers."""
    case.feed.publish(D)
    _begun(case)
    restored = Feed(ids={A, B}, key=signer(3))
    restored.publish(leap=2**20)
    restored.publish_list()
    case.feed = restored
    case.poll(restored.answer(), base=restored.data, refused="signature")
    case.trust(_by_root(case, 5 + 2**20, 3), version=5 + 2**20)
    case.poll(restored.answer(), base=restored.data, sequence=restored.sequence)
    case.check("clear", D)


@case
def trust__malformed__lists_of_a_document(case: Case) -> None:
    """A document names at most 256 signers, and its lists are sorted, each element once."""
    _begun(case)
    members = cbor2.loads(_by_root(case, 6).payload)
    keys = sorted(
        hashlib.sha256(bytes([number % 256, number // 256])).digest() for number in range(257)
    )
    signers = [{"Key": each, "Uses": ["lists"]} for each in keys]
    wrong: list[dict[str, Any]] = [{"Signers": signers}]
    wrong += [{"Witnesses": {"Keys": each, "Quorum": 0}} for each in (["b", "a"], ["a", "a"])]
    for change in wrong:
        payload = cbor2.dumps(members | change, canonical=True)
        case.trust(_form(payload, ROOT), refused="malformed")
    payload = cbor2.dumps(members | {"Signers": signers[:256]}, canonical=True)
    case.trust(_form(payload, ROOT), version=6)


# --- signing keys (TRUST-9) ---


def _key(number: int, **changes: Any) -> PublishedKey:
    made = PublishedKey(
        f"svc_key_{number}", 1, "issuer", "active", public_of(number), NOW, "svc_key_0"
    )
    return made._replace(**changes)


_KEYS = PublishedKeys(TENANT, tuple(_key(number) for number in range(10, 15)))


def _with_keys(case: Case, blob: bytes, named: HashReference | None = None) -> None:
    """A client whose head names this blob."""
    _begun(case)
    case.poll(case.feed.answer(1, keys=named or reference(blob)), sequence=1)


@case
def signing_keys__that_a_head_names(case: Case) -> None:
    """A client reads the blob of signing keys, in whatever encoding, and with other members."""
    blob = _KEYS.encode()
    _with_keys(case, blob)
    case.signing_keys(blob, keys=5)
    members = cbor2.loads(blob) | {"Note": 1}
    other = cbor2.dumps(dict(reversed(members.items())))
    _with_keys(case, other)
    case.signing_keys(other, keys=5)
    empty = PublishedKeys(TENANT, ()).encode()
    _with_keys(case, empty)
    case.signing_keys(empty, keys=0)


@case
def signing_keys__others(case: Case) -> None:
    """A blob of another size or hash than the head says is refused, and one of another tenant."""
    blob = _KEYS.encode()
    _with_keys(case, blob)
    case.signing_keys(blob + b"\x00", refused="too_large")
    case.signing_keys(blob[:-1], refused="hash")
    case.signing_keys(blob[:-1] + b"\x00", refused="hash")
    case.signing_keys(blob, keys=5)
    foreign = replace(_KEYS, tenant_id=_OTHER_TENANT).encode()
    _with_keys(case, foreign)
    case.signing_keys(foreign, refused="tenant")


def _twice(blob: bytes) -> bytes:
    """The blob with a member that comes twice."""
    name = cbor2.dumps("Tenant") + cbor2.dumps(TENANT)
    return bytes([blob[0] + 1]) + blob[1:] + name


@case
def signing_keys__malformed(case: Case) -> None:
    """A blob that is none is refused, although its hash is right."""
    members = cbor2.loads(_KEYS.encode())
    changes: list[Callable[[dict[str, Any]], dict[str, Any]]] = [
        lambda each: {**each, "Keys": [*reversed(each["Keys"])]},
        lambda each: {**each, "Keys": [each["Keys"][0], each["Keys"][0]]},
        lambda each: {**each, "Keys": {}},
        lambda each: {"Keys": each["Keys"]},
        lambda each: _changed(each, "Keys.0.Version", "1"),
        lambda each: _changed(each, "Keys.0.CreatedAt", "now"),
        lambda each: _changed(each, "Keys.0.Status", ...),
    ]
    blobs = [cbor2.dumps(change(members)) for change in changes]
    blobs += [cbor2.dumps(_changed(members, "Keys.0.PublicKey", each)) for each in _SMALL]
    blobs += [with_new(_KEYS.encode(), nested(16))]
    blobs += [_twice(_KEYS.encode()), _KEYS.encode() + b"\x00", b"", json.dumps({}).encode()]
    for blob in blobs:
        _with_keys(case, blob)
        case.signing_keys(blob, refused="malformed")


@case
def signing_keys__certificates(case: Case) -> None:
    """A thief of the list signer adds no signing key: each needs the document or a certificate."""
    root = _key(0, key_id="svc_key_0", type="root", parent_id=None, public_key=public_of(110))
    document = _by_root(case, 5, signing_keys=covering([root]))
    issuer = _key(10)
    version = issuer._replace(version=2, public_key=public_of(111))
    by_root, by_issuer = (f"svc_key_{number}#1" for number in (0, 10))
    good = (root, _certified(issuer, by_root, 110), _certified(version, by_issuer, 10))
    refused = (
        (root, issuer),
        (issuer,),
        (),
        (root, _certified(issuer, by_root, _THIEF)),
        (root, _certified(issuer, by_issuer, 10)),
        (root, _certified(issuer, "svc_key_x#1", 110)),
        (root, _certified(version, by_root, 110)),
        (*good[:2], _certified(version, by_root, 110)),
        (*good, _certified(_key(11, parent_id=None, type="root"), by_root, 110)),
        (root._replace(public_key=public_of(_THIEF)), *good[1:]),
        (root, *_below_a_leaf(by_root)),
        *((*good[:2], _certified(each, by_issuer, 10)) for each in _other_versions(version)),
    )
    for keys in (good, *refused):
        case.pinned()
        case.trust(document, version=5)
        blob = PublishedKeys(TENANT, tuple(keys)).encode()
        answer = case.feed.answer(keys=reference(blob))
        case.poll(answer, base=case.feed.data, sequence=1)
        if keys is good:
            case.signing_keys(blob, keys=3)
        else:
            case.signing_keys(blob, refused="certificate")


def _below_a_leaf(by_root: str) -> list[PublishedKey]:
    """A key that signs no others, and one that it signed."""
    leaf = _key(12, type="execution")
    below = _key(13, parent_id=leaf.key_id)
    return [_certified(leaf, by_root, 110), _certified(below, leaf.name, 12)]


def _other_versions(version: PublishedKey) -> list[PublishedKey]:
    """Keys for which the version before may not vouch."""
    changes: list[dict[str, Any]] = [{"version": 3}, {"type": "root"}, {"parent_id": "svc_key_x"}]
    return [version._replace(**change) for change in changes]


def _certified(key: PublishedKey, by: str, number: int) -> PublishedKey:
    signature = signer(number).sign(key.certified_part(TENANT, by))
    return key._replace(certificate=Certificate(by, signature))
