"""What a client must refuse, each by its name, while it keeps what it has."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import cbor2

from shared.authorizer.answers import ANSWER_BYTES_MAX, FeedResponse
from shared.authorizer.formats import wire
from shared.authorizer.state import FeedPosition
from tests.authorizer.feeds import HOUR, NOW, Feed, sealed, signer
from tests.conformance.cases import UNKNOWN, A, B, C, Case, D, case, nested, of_base, with_new

_SECOND = timedelta(seconds=1)
_OTHER_TENANT = "svc_tnt_01KAJ3TMF00000000000GLOBEX"


def _refused(case: Case, answer: FeedResponse | bytes, reason: str, **given: Any) -> None:
    """The answer is refused, and the client has what it had."""
    case.poll(answer, refused=reason, **given)
    case.kept()


def _fork() -> Feed:
    """A feed that is the same up to its list, and then another."""
    fork = Feed(ids={A, B})
    fork.publish(D)
    return fork


def _encoded(members: dict[str, Any]) -> bytes:
    return cbor2.dumps(members, canonical=True)


@case
def too_large(case: Case) -> None:
    """An answer of more than 4 MiB is refused, although its content is good."""
    case.begin()
    good = case.feed.answer().encode()
    case.poll(good, spaces=ANSWER_BYTES_MAX - len(good), sequence=1)
    _refused(case, good, "too_large", spaces=ANSWER_BYTES_MAX - len(good) + 1)


@case
def too_large__a_base(case: Case) -> None:
    """A base with more bytes than its count allows is refused, although its hash is good."""
    case.init()
    feed = Feed(ids={"x" * 200})
    case.poll(feed.answer(), base=feed.data, refused="too_large")
    case.check("stale", A)


@case
def malformed__not_an_answer(case: Case) -> None:
    """A body that is not an answer is refused."""
    case.begin()
    good = json.loads(case.feed.answer().encode())
    bodies: list[Any] = [[], None, 1, {}, {"head": good["head"]}, {"entries": []}]
    no_entries: list[Any] = [{}, "", None, [1]]
    bodies += [good | {"entries": each} for each in no_entries]
    bodies += [
        good | {name: each} for name in ("poll_seconds", "max_wait_seconds") for each in ("1", True)
    ]
    bodies += [good | {"head": {"Payload": good["head"]["Payload"]}}]
    for body in bodies:
        case.poll(json.dumps(body).encode(), refused="malformed")
    text = case.feed.answer().encode()
    for other in (b"", b"{", b"no JSON", text[:-1], b'{"new":NaN,' + text[1:]):
        case.poll(other, refused="malformed")
    case.kept()


@case
def malformed__base64(case: Case) -> None:
    """Base64 has padding, the standard alphabet, no spaces, and no spare bits."""
    case.begin()
    good = json.loads(case.feed.answer().encode())
    text = good["head"]["Signature"]
    assert text.endswith("==")
    spare = text[:-3] + chr(ord(text[-3]) + 1) + "=="
    others = [text[:-2], text[:-1], text + "\n", " " + text, text + "==", spare]
    others += ["-" + text[1:], "\u00e4" + text[1:], text[:-3] + "=="]
    for other in others:
        body = {**good, "head": {**good["head"], "Signature": other}}
        case.poll(json.dumps(body).encode(), refused="malformed")
    case.poll(json.dumps({**good, "entries": ["oQ"]}).encode(), refused="malformed")
    case.kept()


@case
def malformed__a_signed_head(case: Case) -> None:
    """A head of another form is refused, although it is signed."""
    case.begin()
    members = cbor2.loads(case.feed.head().encode())
    changes: list[dict[str, Any]] = [{"Sequence": each} for each in (-1, 2**53 + 1, "1", 1.5, True)]
    changes += [{"Chain": b"c" * 31}, {"Chain": "c" * 32}, {"Tenant": b"tenant"}, {"Base": []}]
    parts = {"Sequence": 2, "SHA256": b"", "Count": -1, "Version": None, "Chain": b"c"}
    changes += [{"Base": {**members["Base"], name: part}} for name, part in parts.items()]
    times = ("", "+00:00", ".000Z", "z", "Z ")
    changes += [{"IssuedAt": "2026-11-21T12:00:00" + each} for each in times]
    changes += [{"IssuedAt": "2026-02-30T12:00:00Z"}, {"ExpiresAt": 1795266000}]
    changes += [{"IssuedAt": each} for each in ("0000-01-01T00:00:00Z", "+010000-01-01T00:00Z")]
    payloads = [_encoded({**members, **each}) for each in changes]
    payloads += [
        _encoded({key: each for key, each in members.items() if key != name}) for name in members
    ]
    payloads += [b"", b"\x80", b"\xff", case.feed.head().encode() + b"\x00"]
    for payload in payloads:
        case.poll(sealed(payload, case.feed.key), refused="malformed")
    case.kept()


@case
def malformed__another_encoding_of_a_head(case: Case) -> None:
    """A head that a deterministic encoder would have written differently is refused."""
    case.begin()
    good = case.feed.head().encode()
    members = cbor2.loads(good)
    assert good[0] == 0xA6
    repeated = list(members)[-1]
    others = [
        cbor2.dumps(dict(reversed(members.items()))),
        b"\xb8\x06" + good[1:],
        b"\xa7\x01\x01" + good[1:],
        b"\xbf" + good[1:] + b"\xff",
        good.replace(b"hSequence\x01", b"hSequence\x18\x01"),
        b"\xa7" + good[1:] + cbor2.dumps(repeated) + cbor2.dumps(members[repeated]),
    ]
    for payload in others:
        assert payload != good
        case.poll(sealed(payload, case.feed.key), refused="malformed")
    case.kept()


@case
def malformed__nesting(case: Case) -> None:
    """A value is in at most 16 maps and lists, in a head, an entry and a base."""
    case.init()
    deep, data = nested(16), case.feed.data
    for lists, expected in ((deep, {"refused": "malformed"}), (deep[1:], {"sequence": 1})):
        base = with_new(data, lists)
        case.poll(of_base(case.feed, base), base=base, **expected)
    case.begin()
    good, entry = case.feed.head().encode(), wire.FeedEntry(2, (D,)).encode()
    for wrong in (deep, nested(17), nested(5000), b"\xa1\x61?" * 16 + b"\x01"):
        case.poll(sealed(with_new(good, wrong), case.feed.key), refused="malformed")
    for wrong in (deep, nested(5000)):
        branch = case.feed.branch()
        branch.append(with_new(entry, wrong))
        case.poll(branch.answer(1), refused="malformed")
    case.kept()
    empty = b"\x81" * 15 + b"\x80"
    for lists in (deep[1:], empty):
        case.poll(sealed(with_new(good, lists), case.feed.key), sequence=1)
    case.feed.append(with_new(entry, deep[1:]))
    case.poll(case.feed.answer(1), sequence=2)
    case.check("revoked", D)


# Bytes that are no UTF-8: a part, too long a form, half of a pair, beyond the last character.
_NO_TEXTS = (
    b"\x61\xff",
    b"\x62\xc0\x80",
    b"\x63\xed\xa0\x80",
    b"\x64\xf4\x90\x80\x80",
    b"\x61\xc3",
)


@case
def malformed__values_of_no_format(case: Case) -> None:
    """Floating-point numbers, tags, other simple values and keys that are not texts are refused."""
    wrong = [b"\xf9\x3c\x00", b"\xfb" + bytes(8), b"\xc1\x01", b"\xf7", b"\xe0", b"\xf8\xff"]
    wrong += [b"\xa1\x01\x01", b"\xa1\x41a\x01", b"\xa1\xf5\x01", b"\xa1\xf6\x01", b"\x1c", b"\xfc"]
    case.init()
    for value in wrong:
        base = with_new(case.feed.data, value)
        case.poll(of_base(case.feed, base), base=base, refused="malformed")
    case.begin()
    for value in wrong:
        payload = with_new(case.feed.head().encode(), value)
        case.poll(sealed(payload, case.feed.key), refused="malformed")
        branch = case.feed.branch()
        branch.append(with_new(wire.FeedEntry(2, (D,)).encode(), value))
        case.poll(branch.answer(1), refused="malformed")
    case.kept()


@case
def malformed__texts(case: Case) -> None:
    """A text is UTF-8, also one that the client does not know."""
    case.init()
    for wrong in _NO_TEXTS[:2]:
        base = with_new(case.feed.data, wrong)
        case.poll(of_base(case.feed, base), base=base, refused="malformed")
    case.begin()
    for wrong in _NO_TEXTS:
        payload = with_new(case.feed.head().encode(), wrong)
        case.poll(sealed(payload, case.feed.key), refused="malformed")
        ids = b"\xa2gRevoked\x81" + wrong + b"hSequence\x02"
        for entry in (ids, with_new(wire.FeedEntry(2, (D,)).encode(), wrong)):
            branch = case.feed.branch()
            branch.append(entry)
            case.poll(branch.answer(1), refused="malformed")
    case.kept()


@case
def malformed__an_entry_of_the_chain(case: Case) -> None:
    """An entry of another form is refused, although the head vouches for it."""
    case.begin()
    members: dict[str, Any] = {"Sequence": 2, "Revoked": [D]}
    ids: list[Any] = [[], D, [1], [UNKNOWN, D], [D, D], ["\U00010000", "\ufb00"], {}]
    ids += [["x" * 73], ["\u00e4" * 37]]
    entries = [_encoded({**members, name: each}) for each in ids for name in ("Revoked", "Removed")]
    entries += [_encoded({**members, "Sequence": each}) for each in ("2", 2.5, -2, True, None)]
    entries += [_encoded({**members, "Removed": [D]}), _encoded({"Revoked": [D]})]
    good = wire.FeedEntry(2, (D,)).encode()
    entries += [b"", b"\x80", b"\xff", good + b"\x00", b"\xbf" + good[1:] + b"\xff"]
    entries += [cbor2.dumps({"Sequence": 2, "Revoked": [D]})]
    for entry in entries:
        branch = case.feed.branch()
        branch.append(entry)
        case.poll(branch.answer(1), refused="malformed")
    case.kept()


@case
def malformed__a_base(case: Case) -> None:
    """A base with another number of identifiers than the head says is refused."""
    case.init()
    for count in (0, 1, 3, 2**53):
        base = replace(case.feed.base, count=count)
        case.poll(case.feed.answer(base=base), base=case.feed.data, refused="malformed")
    case.check("stale", A)


@case
def malformed__another_encoding_of_a_base(case: Case) -> None:
    """A base that a deterministic encoder would have written differently is refused."""
    case.init()
    good = case.feed.data
    members = cbor2.loads(good)
    text = cbor2.dumps(A)
    assert good[0] == 0xA4
    others = [
        cbor2.dumps(dict(reversed(members.items()))),
        b"\xb8\x04" + good[1:],
        b"\xbf" + good[1:] + b"\xff",
        good + b"\x00",
        good.replace(b"jRevokedIDs\x82", b"jRevokedIDs\x98\x02"),
        good.replace(b"jRevokedIDs\x82" + text, b"jRevokedIDs\x9f" + text).replace(
            cbor2.dumps(B), cbor2.dumps(B) + b"\xff"
        ),
        good.replace(text, b"\x78" + bytes([len(A)]) + A.encode()),
        good.replace(text, b"\x7f" + text + b"\xff"),
        good.replace(b"gVersion\x01", b"gVersion\x18\x01"),
        b"\xa5" + good[1:] + cbor2.dumps("RevokedIDs") + cbor2.dumps([A, B]),
        b"\xa5" + good[1:] + cbor2.dumps("Version") + cbor2.dumps(1),
        with_new(good, b"\x18\x01"),
    ]
    for base in others:
        assert base != good
        case.poll(of_base(case.feed, base), base=base, refused="malformed")
    case.poll(case.feed.answer(), base=good, sequence=1)


@case
def malformed__identifiers_of_a_base(case: Case) -> None:
    """Identifiers of a base are texts of at most 72 bytes, sorted by their bytes, each once."""
    case.init()
    members = cbor2.loads(case.feed.data)
    wrong: list[list[Any]] = [[B, A], [A, A], [A, "x" * 73], ["\u00e4" * 37, "\u00e5"]]
    wrong += [["\U00010000", "\ufb00"], [A, 1], [A, A.encode()], [A, [B]], [A, None]]
    for ids in wrong:
        base = _encoded({**members, "RevokedIDs": ids})
        case.poll(of_base(case.feed, base), base=base, refused="malformed")
    for other in ({}, {"RevokedIDs": A}, {"RevokedIDs": {A: 1, B: 2}}):
        rest = {name: each for name, each in members.items() if name != "RevokedIDs"}
        base = _encoded({**rest, **other})
        case.poll(of_base(case.feed, base), base=base, refused="malformed")
    case.check("stale", A)


@case
def malformed__an_entry_after_a_base(case: Case) -> None:
    """An entry of another form is refused in the first answer too, before the base is fetched."""
    good = wire.FeedEntry(2, (D,)).encode()
    wrong: list[bytes] = [b"", b"\xff", good + b"\x00", with_new(good, nested(16))]
    wrong += [
        _encoded({"Sequence": 2, "Revoked": each}) for each in ([], [D, D], [B, A], ["x" * 73])
    ]
    wrong += [_encoded({"Sequence": 2, "Revoked": [D], "Removed": [D]})]
    for entry in wrong:
        branch = case.feed.branch()
        branch.append(entry)
        case.init()
        case.poll(branch.answer(), base=branch.data, refused="malformed")
    branch = case.feed.branch()
    branch.append(wire.FeedEntry(3, (D,)).encode())
    case.poll(branch.answer(), base=branch.data, refused="gap")
    case.check("stale", A)


@case
def malformed__json_that_is_nested_deeply(case: Case) -> None:
    """JSON that is nested more than 64 deep is refused, also in a member that is not known."""
    case.begin()
    body = case.feed.answer().encode()
    for depth in (64, 2000):
        deep = b"[" * depth + b"1" + b"]" * depth
        for other in (b'{"?":' + deep + b",", b'{"?":' + deep + b',"?":1,'):
            case.poll(other + body[1:], refused="malformed")
        case.response('{"documents":[],"?":' + deep.decode() + "}", refused="malformed")
    objects = b'{"?":' * 64 + b"1" + b"}" * 64
    case.poll(b'{"?":' + objects + b"," + body[1:], refused="malformed")
    case.kept()


@case
def malformed__hints_that_are_not_finite(case: Case) -> None:
    """A hint is a finite number."""
    case.begin()
    body = case.feed.answer().encode()
    for name in (b'"poll_seconds":1.0', b'"max_wait_seconds":0'):
        member = name.partition(b":")[0]
        for hint in (b"1e999", b"-1e999", b"1" * 400):
            case.poll(body.replace(name, member + b":" + hint), refused="malformed")
    case.kept()


@case
def malformed__an_age(case: Case) -> None:
    """`Age` is one number of decimal digits; an answer with another one confirms nothing."""
    case.begin()
    case.confirm(0)
    later = NOW + 20 * _SECOND
    repeated = ("0, 0", "0,0", "1000, 0", "0, 1000", "5,", ", 5")
    others = ("", " ", "-1", "+1", "1.0", "1e1", "0x1", "1 0", "\u0663", "\u00a01", "1\n", "none")
    for age in (*repeated, *others):
        case.confirm(age, now=later, refused="malformed")
    case.check("clear", D, now=NOW + 29 * _SECOND)
    case.check("stale", D, now=NOW + 30 * _SECOND)


@case
def malformed__identifiers_of_a_chain(case: Case) -> None:
    """A text that identifies no warrant is refused, whatever the state and the others are."""
    wrong = ["", "garbage", "svc_wrt_", " svc_wrt_a", "svc_wrt_a ", "svc_wrt_a\n", "\tsvc_wrt_a"]
    wrong += ["SVC_WRT_a", "svc_wrt_a b", "svc_wrt_a.b", "svc_wrt_\u00e4", "\ufeffsvc_wrt_a"]
    wrong += ["svc_wrt_" + "x" * 65, "x" * 72, "svc_rev_a", "xsvc_wrt_a", "svc_wrt_a\x00"]
    case.init()
    case.refuse_check(" " + A)
    case.begin()
    for each in wrong:
        case.refuse_check(each)
    for chain in ((A, ""), ("", A), (D, A + " "), ()):
        case.refuse_check(*chain)
    case.kept()


@case
def signature(case: Case) -> None:
    """A head is refused if no trusted key signed exactly its bytes, with the prefix."""
    case.begin()
    good = case.feed.answer()
    flipped = bytes([good.signature[0] ^ 1]) + good.signature[1:]
    for wrong in (case.feed.key.sign(good.payload), flipped, good.signature[:63], b""):
        _refused(case, replace(good, signature=wrong), "signature")
    _refused(case, sealed(good.payload, signer(2)), "signature")
    _refused(case, replace(good, payload=good.payload[:-1] + b"x"), "signature")
    _refused(case, replace(good, payload=b""), "signature")


@case
def signature__of_a_list(case: Case) -> None:
    """The signature of a list, which the same key makes, is not the signature of a head."""
    case.begin()
    data = case.feed.data
    _refused(case, FeedResponse(data, case.feed.key.sign(data)), "signature")


@case
def tenant(case: Case) -> None:
    """The head of another tenant is refused, although a trusted key signed it."""
    other = Feed(tenant=_OTHER_TENANT, ids={A, B})
    other.publish(C)
    case.init()
    case.poll(other.answer(), base=other.data, refused="tenant")
    case.begin()
    other.publish(D)
    _refused(case, other.answer(1), "tenant")


@case
def tenant__in_the_chain(case: Case) -> None:
    """The entries of another tenant make another chain, even under a head of this one."""
    case.feed = Feed()
    case.begin()
    other = Feed(tenant=_OTHER_TENANT)
    other.publish(D)
    other.tenant = case.feed.tenant
    case.poll(other.answer(0), refused="chain")
    case.check("clear", D)


@case
def lifetime(case: Case) -> None:
    """A head that lives for more than 7 days, or for no time, is refused."""
    case.begin()
    for end in (NOW + timedelta(days=7) + _SECOND, NOW, NOW - HOUR):
        _refused(case, case.feed.answer(expires_at=end), "lifetime")


@case
def future(case: Case) -> None:
    """A head that was issued more than 30 seconds ahead of the client's clock is refused."""
    case.begin()
    _refused(case, case.feed.answer(issued_at=NOW + 31 * _SECOND), "future")


@case
def expired(case: Case) -> None:
    """A head is refused from its ExpiresAt on: there is no tolerance."""
    case.begin()
    case.poll(case.feed.answer(), now=NOW + HOUR - _SECOND, sequence=1)
    _refused(case, case.feed.answer(), "expired", now=NOW + HOUR)


@case
def rollback(case: Case) -> None:
    """A head below the sequence that is held is refused, whatever else it says."""
    old = case.feed.answer()
    case.feed.publish(UNKNOWN)
    case.begin()
    case.poll(old, base=case.feed.data, refused="rollback")
    later = NOW + _SECOND
    newer = replace(case.feed.head(), sequence=1, issued_at=later)
    case.poll(sealed(newer.encode(), case.feed.key), refused="rollback")
    case.check("revoked", UNKNOWN)
    case.feed.publish(D)
    case.poll(case.feed.answer(2), sequence=3)


@case
def rollback__after_a_restart(case: Case) -> None:
    """A head below the saved floor is refused, although nothing is held."""
    old = case.feed.answer()
    case.feed.publish(D)
    case.init(floor=FeedPosition(2, case.feed.chain))
    case.poll(old, base=case.feed.data, refused="rollback")
    case.check("stale", A)
    case.poll(case.feed.answer(), base=case.feed.data, sequence=2)


@case
def equivocation(case: Case) -> None:
    """Another chain at the sequence that is held is refused."""
    case.begin()
    fork = _fork()
    _refused(case, fork.answer(), "equivocation", base=fork.data)
    fork.publish_list()
    _refused(case, fork.answer(issued_at=NOW + _SECOND), "equivocation", base=fork.data)


@case
def equivocation__after_a_restart(case: Case) -> None:
    """Another chain at the saved floor is refused, although nothing is held."""
    case.init(floor=FeedPosition(1, case.feed.chain))
    fork = _fork()
    case.poll(fork.answer(), base=fork.data, refused="equivocation")
    case.check("stale", A)


@case
def replay(case: Case) -> None:
    """A head of the same sequence that was issued earlier is refused, and renews nothing."""
    case.begin()
    later = NOW + HOUR / 2
    case.poll(case.feed.answer(1, issued_at=later, expires_at=later + HOUR), now=later, sequence=1)
    _refused(case, case.feed.answer(1), "replay", now=later)
    case.check("clear", D, now=later + HOUR - _SECOND)


@case
def chain(case: Case) -> None:
    """Entries that do not lead to the chain of the head are refused, and are not read."""
    case.begin()
    case.feed.publish(D)
    case.feed.publish(UNKNOWN)
    good = case.feed.answer(1)
    one, two = good.entries
    other = wire.FeedEntry(2, ("svc_wrt_other-0001",)).encode()
    for entries in ((other, two), (two, one), (two, two), (one, two, two), (one, b"\xff")):
        _refused(case, replace(good, entries=entries), "chain")
    case.poll(good, sequence=3)
    case.check("revoked", D)


@case
def chain__a_later_fork(case: Case) -> None:
    """A history that differs from what is held is refused when it has become longer."""
    case.begin()
    fork = _fork()
    fork.publish(UNKNOWN)
    for answer in (fork.answer(1), fork.answer(0)):
        _refused(case, answer, "chain", base=fork.data)


@case
def chain__a_fork_below_the_floor(case: Case) -> None:
    """After a restart, a history that passes the floor with another chain is refused."""
    fork = _fork()
    fork.publish(UNKNOWN)
    case.init(floor=FeedPosition(1, case.feed.chain))
    case.poll(fork.answer(), base=fork.data, refused="chain")
    fork = _fork()
    fork.publish_list()
    fork.publish(UNKNOWN)
    case.poll(fork.answer(), base=fork.data, refused="chain")
    case.check("stale", A)


@case
def chain__from_a_base(case: Case) -> None:
    """Entries that do not lead from the base to the head are refused before it is fetched."""
    case.init()
    good = case.feed.answer()
    case.poll(replace(good, entries=(wire.FeedEntry(1, (D,)).encode(),)), refused="chain")
    base = replace(case.feed.base, chain=b"c" * 32)
    case.poll(case.feed.answer(base=base), base=case.feed.data, refused="chain")
    case.feed.publish_list()
    base = replace(case.feed.base, chain=b"c" * 32)
    case.poll(case.feed.answer(base=base), base=case.feed.data, refused="chain")
    case.check("stale", A)


@case
def break_without_a_base(case: Case) -> None:
    """A break that the base does not cover is refused; what is held remains in force."""
    case.begin()
    case.feed.publish()
    case.feed.publish(UNKNOWN)
    _refused(case, case.feed.answer(1), "break")
    _refused(case, case.feed.answer(0), "break", base=case.feed.data)
    case.init()
    case.poll(case.feed.answer(), base=case.feed.data, refused="break")
    case.check("stale", A)


@case
def break_after_the_base(case: Case) -> None:
    """A base that covers one break does not cover the next."""
    case.begin()
    case.feed.publish()
    case.feed.publish_list()
    case.feed.publish()
    for answer in (case.feed.answer(1), case.feed.answer(2)):
        _refused(case, answer, "break", base=case.feed.data)


@case
def gap(case: Case) -> None:
    """An answer that does not reach back to what is held, nor to the base, is refused."""
    case.begin()
    for each in (D, UNKNOWN):
        case.feed.publish(each)
    good = case.feed.answer(1)
    for entries in ((), good.entries[1:], good.entries[:1]):
        _refused(case, replace(good, entries=entries), "gap", base=case.feed.data)
    case.poll(good, sequence=3)


@case
def gap__a_head_without_entries(case: Case) -> None:
    """A head far ahead without entries is refused, without work or memory in proportion."""
    case.begin()
    _refused(case, case.feed.answer(sequence=2**53), "gap", base=case.feed.data)
    case.init()
    case.poll(case.feed.answer(sequence=2**53), base=case.feed.data, refused="gap")


@case
def gap__an_entry_with_another_number(case: Case) -> None:
    """An entry that has not the next number is refused, although the head vouches for it."""
    case.begin()
    for number in (1, 3, 2**53):
        branch = case.feed.branch()
        branch.append(wire.FeedEntry(number, (D,)).encode())
        _refused(case, branch.answer(1), "gap")


@case
def gap__a_restore_without_a_base(case: Case) -> None:
    """The break of a restore, whose number jumps, is not passed before there is a base."""
    case.begin()
    case.feed.publish(leap=2**20)
    _refused(case, case.feed.answer(1), "gap", base=case.feed.data)


@case
def fast_forward(case: Case) -> None:
    """A base more than 2^32 above what is held, or above the floor, is not even fetched."""
    case.begin()
    far = Feed(ids={A, D}, sequence=2 + 2**32, chain=b"c" * 32)
    _refused(case, far.answer(), "fast_forward")
    _refused(case, far.answer(), "fast_forward", base=far.data)
    case.init(floor=FeedPosition(1, case.feed.chain))
    case.poll(far.answer(), refused="fast_forward")
    case.feed = far
    case.init()
    case.poll(far.answer(), base=far.data, sequence=2 + 2**32)


@case
def hash_of_a_base(case: Case) -> None:
    """A base with another hash than the head says is refused."""
    case.init()
    data = case.feed.data
    for wrong in (data[:-1], data.replace(B.encode(), D.encode()), b""):
        case.poll(case.feed.answer(), base=wrong, refused="hash")
        case.check("stale", A)
    case.poll(case.feed.answer(), base=data, sequence=1)


@case
def version_of_a_base(case: Case) -> None:
    """A base of another version than the head says is refused, although the hash is good."""
    case.init()
    base = replace(case.feed.base, version=2)
    case.poll(case.feed.answer(base=base), base=case.feed.data, refused="version")
    members = cbor2.loads(case.feed.data)
    for version in (True, "1", None, -1, 2**53 + 1):
        data = _encoded({**members, "Version": version})
        case.poll(of_base(case.feed, data), base=data, refused="version")
    case.check("stale", A)


@case
def order_of_the_checks(case: Case) -> None:
    """If several checks fail, the first of them gives the name."""
    case.begin()
    case.feed.publish(D)
    good = case.feed.head()
    week, other = NOW + timedelta(days=8), b"c" * 32
    pairs: list[tuple[str, dict[str, Any]]] = [
        ("tenant", {"tenant_id": _OTHER_TENANT, "expires_at": week}),
        ("lifetime", {"expires_at": NOW - HOUR}),
        ("lifetime", {"issued_at": NOW + HOUR, "expires_at": NOW + HOUR}),
        ("future", {"issued_at": NOW + HOUR, "expires_at": NOW + 2 * HOUR, "sequence": 0}),
        ("expired", {"issued_at": NOW - 2 * HOUR, "expires_at": NOW - HOUR, "sequence": 0}),
        ("rollback", {"sequence": 0, "chain": other}),
        ("equivocation", {"sequence": 1, "chain": other, "issued_at": NOW - _SECOND}),
        ("chain", {"chain": other}),
    ]
    for reason, changes in pairs:
        if changes.get("sequence") == 0:
            changes["base"] = replace(good.base, sequence=0)
        head = replace(good, **changes).encode()
        case.poll(sealed(head, case.feed.key, case.feed.answer(1).entries), refused=reason)
        case.poll(sealed(head, signer(2)), refused="signature")
    case.kept()
