"""What a client must accept, and what it then says of warrants."""

import json
from dataclasses import replace
from datetime import timedelta

import cbor2

from shared.authorizer.formats import wire
from shared.authorizer.state import FeedPosition
from tests.authorizer.feeds import HOUR, NOW, Feed, sealed, signer
from tests.conformance.cases import UNKNOWN, A, B, C, Case, D, case, of_base, with_new

_SECOND = timedelta(seconds=1)


@case
def a_newcomer(case: Case) -> None:
    """A client without a state asks for the base, and then has its identifiers and the entries'."""
    case.init()
    case.check("stale", A)
    case.poll(case.feed.answer(), needs_base=1)
    case.check("stale", A)
    case.poll(case.feed.answer(), base=case.feed.data, sequence=1)
    for each in (A, B, C):
        case.check("revoked", each)
    case.check("clear", D)
    case.check("revoked", D, A)
    case.check("revoked", A, D)


@case
def an_empty_feed(case: Case) -> None:
    """A feed without entries is its base; its chain begins with the tenant."""
    case.feed = Feed()
    case.begin()
    case.check("clear", A)


@case
def entries(case: Case) -> None:
    """Entries are applied in order: a removed warrant is clear, and can be revoked again."""
    case.begin()
    case.feed.publish(D, removed=(A, C))
    case.feed.publish(A, removed=(B, D))
    case.poll(case.feed.answer(1), sequence=3)
    case.check("revoked", A)
    case.check("clear", B, C, D)


@case
def several_polls(case: Case) -> None:
    """Each answer continues where the one before ended, also if a new base was published."""
    case.begin()
    for number, each in enumerate((D, UNKNOWN), 1):
        case.feed.publish(each)
        case.feed.publish_list()
        case.poll(case.feed.answer(number), sequence=number + 1)
        case.check("revoked", each)
    case.check("revoked", A)


@case
def entries_that_are_held_already(case: Case) -> None:
    """An answer may begin with entries that the client has; it needs no base for that."""
    case.begin()
    case.feed.publish(D)
    case.poll(case.feed.answer(0), sequence=2)
    case.check("revoked", D)


@case
def entries_that_are_not_needed_are_not_read(case: Case) -> None:
    """What stands before the needed entries is ignored, whatever it is."""
    case.begin()
    case.feed.publish(D)
    good = case.feed.answer(1)
    case.poll(replace(good, entries=(b"\xff", *good.entries)), sequence=2)
    case.check("revoked", D)


@case
def the_same_answer_again(case: Case) -> None:
    """The same answer is accepted again."""
    case.begin()
    case.poll(case.feed.answer(), sequence=1)
    case.poll(case.feed.answer(1), sequence=1)
    case.check("revoked", C)


@case
def a_renewed_head(case: Case) -> None:
    """A head of the same sequence that was issued later extends the lifetime."""
    case.begin()
    later = NOW + HOUR / 2
    renewed = case.feed.answer(1, issued_at=later, expires_at=later + HOUR)
    case.poll(renewed, now=later, sequence=1)
    case.check("clear", D, now=NOW + HOUR)
    case.check("stale", D, now=later + HOUR)


@case
def the_end_of_a_lifetime(case: Case) -> None:
    """From ExpiresAt on a client is stale; a warrant that is known to be revoked stays so."""
    case.begin()
    case.check("clear", D, now=NOW + HOUR - _SECOND)
    case.check("stale", D, now=NOW + HOUR)
    case.check("revoked", D, A, now=NOW + HOUR)


@case
def the_age_of_an_answer(case: Case) -> None:
    """A client is stale `max_staleness` seconds after its request, less the `Age` of the answer."""
    case.begin()
    case.confirm(10)
    case.check("clear", D, now=NOW + 19 * _SECOND)
    case.check("stale", D, now=NOW + 20 * _SECOND)
    case.check("revoked", D, A, now=NOW + 20 * _SECOND)


@case
def a_service_that_publishes_nothing(case: Case) -> None:
    """If the age of each 304 grows with the time, none of them makes a client less stale."""
    case.begin()
    case.confirm(0)
    for seconds in (10, 20, 29, 40):
        case.confirm(seconds, now=NOW + seconds * _SECOND)
    case.check("clear", D, now=NOW + 29 * _SECOND)
    case.check("stale", D, now=NOW + 30 * _SECOND)
    case.check("stale", D, now=NOW + 41 * _SECOND)
    case.confirm(1, now=NOW + 42 * _SECOND)
    case.check("clear", D, now=NOW + 42 * _SECOND)


@case
def an_answer_that_is_older_than_the_last(case: Case) -> None:
    """An older answer takes nothing away that a newer one has confirmed."""
    case.begin()
    case.confirm(0)
    case.confirm(5, now=NOW + _SECOND)
    case.check("clear", D, now=NOW + 29 * _SECOND)


@case
def the_longest_lifetime(case: Case) -> None:
    """A head may live for 7 days."""
    case.init()
    week = case.feed.answer(expires_at=NOW + timedelta(days=7))
    case.poll(week, base=case.feed.data, sequence=1)


@case
def a_clock_that_is_slow(case: Case) -> None:
    """A head may be issued 30 seconds ahead of the client's clock."""
    case.init()
    case.poll(case.feed.answer(), base=case.feed.data, now=NOW - 30 * _SECOND, sequence=1)


@case
def another_trusted_key(case: Case) -> None:
    """A head may be signed by any key that the client trusts."""
    case.init(signers=(1, 2))
    good = case.feed.answer()
    other = sealed(good.payload, signer(2), good.entries)
    case.poll(other, base=case.feed.data, sequence=1)


@case
def members_that_are_not_known(case: Case) -> None:
    """Members that a client does not know are ignored: of the answer, the head and an entry."""
    case.begin()
    entry = {"Sequence": 2, "Revoked": [D], "Why": {"Reason": [1, -1, True, None, b"x"]}}
    case.feed.append(cbor2.dumps(entry, canonical=True))
    head = cbor2.loads(case.feed.head().encode()) | {"Note": ["new", 2**40]}
    answer = sealed(cbor2.dumps(head, canonical=True), case.feed.key, case.feed.answer(1).entries)
    body = answer.encode().replace(b'{"head"', b'{"members":{"new":[1.5e3,null]},"head"')
    case.poll(body, sequence=2)
    case.check("revoked", D)


@case
def a_head_with_references(case: Case) -> None:
    """A head may name an older document than the client has, and keys that it does not read."""
    case.begin()
    case.feed.publish(D)
    named = {"trust": wire.HashReference(b"t" * 32, 0), "keys": wire.HashReference(b"k" * 32, 900)}
    case.poll(case.feed.answer(1, **named), sequence=2)
    case.check("revoked", D)


@case
def hints_that_are_left_out(case: Case) -> None:
    """An answer without poll_seconds and max_wait_seconds is accepted."""
    case.init()
    body = case.feed.answer().encode().replace(b',"poll_seconds":1.0,"max_wait_seconds":0', b"")
    case.poll(body, base=case.feed.data, sequence=1)


@case
def many_identifiers(case: Case) -> None:
    """Arrays and texts have longer CBOR headers if they are longer: 24, 256 and more."""
    case.begin()
    ids = [f"svc_wrt_{number:010}" for number in range(300)]
    case.feed.publish(*ids)
    long = ("svc_wrt_" + "x" * 64, "x" * 72, "\u00e4" * 36, "y" * 24, "z" * 23)
    case.feed.publish(*long, removed=tuple(ids[:24]))
    case.feed.publish_list()
    case.poll(case.feed.answer(1), sequence=3)
    case.check("clear", *ids[:24])
    for each in (ids[24], ids[299], "svc_wrt_" + "x" * 64):
        case.check("revoked", each)
    case.init()
    case.poll(case.feed.answer(), base=case.feed.data, sequence=3)
    case.check("clear", *ids[:24])
    case.check("revoked", ids[299])


@case
def order_of_bytes(case: Case) -> None:
    """Identifiers are sorted by their bytes in UTF-8, not by units of UTF-16."""
    case.begin()
    ids = (D, "\ufb00", "\U00010000")
    case.feed.append(wire.FeedEntry(2, ids).encode())
    case.poll(case.feed.answer(1), sequence=2)
    case.check("revoked", D)
    case.init()
    case.feed.ids = {*ids}
    case.feed.publish_list()
    case.poll(case.feed.answer(), base=case.feed.data, sequence=2)
    case.check("revoked", D)


@case
def large_numbers(case: Case) -> None:
    """Numbers up to 2^53 are exact; they take 1, 2, 3, 5 or 9 bytes."""
    for sequence in (23, 24, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**53 - 1):
        feed = Feed(ids={A}, sequence=sequence, chain=b"c" * 32, version=sequence - 1)
        case.feed = feed
        case.init()
        feed.publish(D)
        case.poll(feed.answer(), base=feed.data, sequence=sequence + 1)
        case.check("revoked", D)


@case
def the_longest_step(case: Case) -> None:
    """With a base, the sequence may grow by 2^32."""
    case.begin()
    far = Feed(ids={A, D}, sequence=1 + 2**32, chain=b"c" * 32)
    case.poll(far.answer(), base=far.data, sequence=1 + 2**32)
    case.check("revoked", D)
    case.check("clear", B)


@case
def a_client_that_was_away(case: Case) -> None:
    """A client asks for the base if entries that it lacks are gone, and replaces its set."""
    case.begin()
    case.feed.publish(removed=(C,))
    case.feed.publish_list()
    case.feed.publish(D)
    case.poll(case.feed.answer(), needs_base=2)
    case.check("revoked", C)
    case.check("clear", D)
    case.poll(case.feed.answer(), base=case.feed.data, sequence=3)
    case.check("clear", C)
    case.check("revoked", D)


@case
def a_break_with_its_base(case: Case) -> None:
    """A client passes a break with a base that covers it."""
    case.begin()
    case.feed.publish()
    case.feed.ids = {D}
    case.feed.publish_list()
    case.feed.publish(UNKNOWN)
    case.poll(case.feed.answer(1), needs_base=2)
    case.poll(case.feed.answer(1), base=case.feed.data, sequence=3)
    case.check("revoked", D)
    case.check("revoked", UNKNOWN)
    case.check("clear", A, B, C)


@case
def a_service_that_was_restored(case: Case) -> None:
    """After a restore the sequence jumps over what clients may have seen, and a base follows."""
    case.feed.publish(D)
    case.begin()
    restored = Feed(ids={A, B})
    restored.publish(C)
    restored.publish(leap=2**20)
    restored.publish_list()
    restored.publish(UNKNOWN)
    answer = restored.answer(2)
    assert len(answer.entries) == 2
    case.poll(answer, base=restored.data, sequence=2**20 + 3)
    case.check("clear", D)
    case.check("revoked", UNKNOWN)


@case
def a_restart(case: Case) -> None:
    """A client that starts with its floor accepts the floor itself, and what follows it."""
    case.feed.publish(D)
    floor = case.feed.head()
    for later in (False, True):
        if later:
            case.feed.publish(UNKNOWN)
        case.init(floor=FeedPosition(floor.sequence, floor.chain))
        case.check("stale", A)
        case.poll(case.feed.answer(), base=case.feed.data, sequence=case.feed.sequence)
    case.feed.publish_list()
    case.init(floor=FeedPosition(floor.sequence, floor.chain))
    case.poll(case.feed.answer(), base=case.feed.data, sequence=case.feed.sequence)


@case
def the_forms_of_an_age(case: Case) -> None:
    """`Age` is decimal digits; spaces and tabs around them and zeros before them mean nothing."""
    for age in ("10", " \t0010\t "):
        case.begin()
        case.confirm(age)
        case.check("clear", D, now=NOW + 19 * _SECOND)
        case.check("stale", D, now=NOW + 20 * _SECOND)


@case
def a_large_age(case: Case) -> None:
    """An `Age` of any size makes a client stale at most until the next answer."""
    for age in (2**31, 9_999_999_999, 10**30):
        case.begin()
        case.confirm(age)
        case.check("stale", D)
        case.check("revoked", A)
        case.confirm(0)
        case.check("clear", D)


@case
def hints_at_their_limits(case: Case) -> None:
    """A hint below 0 or above 60 counts as the bound, and the answer is accepted."""
    case.begin()
    good = json.loads(case.feed.answer().encode())
    for name in ("poll_seconds", "max_wait_seconds"):
        for hint in (-1, -0.5, 0, 0.001, 60, 61, 1e9, 1e300, 2**63):
            case.poll(json.dumps(good | {name: hint}).encode(), sequence=1)


@case
def the_deepest_json(case: Case) -> None:
    """Objects and arrays of an answer may be nested 64 deep; brackets in a text do not count."""
    case.begin()
    body = case.feed.answer().encode()
    texts = (b'"' + b"[{" * 99 + b'"', b'"\\"' + b"[" * 99 + b'"')
    for other in (b"[" * 62 + b'{"":1}' + b"]" * 62, *texts):
        case.poll(b'{"?":' + other + b"," + body[1:], sequence=1)
        case.response('{"documents":[],"?":' + other.decode() + "}", version=1)
    case.poll(b'{"?":[' + b"[]," * 99 + b"{}]," + body[1:], sequence=1)


@case
def a_number_of_many_digits(case: Case) -> None:
    """A number in a member that is not known may have any size."""
    case.begin()
    body = case.feed.answer().encode()
    for number in (b"1" * 5000, b"1e999", b"-1e-999", b"0.1e+1"):
        case.poll(b'{"?":' + number + b"," + body[1:], sequence=1)


@case
def the_largest_base(case: Case) -> None:
    """A base may have exactly (`Base.Count` + 2) x 80 bytes."""
    for more, expected in ((0, {"sequence": 1}), (1, {"refused": "too_large"})):
        case.init()
        size = (case.feed.base.count + 2) * wire.BASE_BYTES_EACH + more
        room = size - len(with_new(case.feed.data, b"\x58\x00"))
        base = with_new(case.feed.data, b"\x58" + bytes([room]) + b"x" * room)
        assert len(base) == size
        case.poll(of_base(case.feed, base), base=base, **expected)


@case
def the_longest_step_after_a_restart(case: Case) -> None:
    """With a base, the sequence may be 2^32 above the floor, and no further."""
    for more, expected in ((0, {"sequence": 1 + 2**32}), (1, {"refused": "fast_forward"})):
        far = Feed(ids={A, D}, sequence=1 + 2**32 + more, chain=b"c" * 32)
        case.init(floor=FeedPosition(1, case.feed.chain))
        case.poll(far.answer(), base=far.data, **expected)
        case.check("stale" if more else "revoked", D)


@case
def a_floor_among_the_entries_after_a_base(case: Case) -> None:
    """A client whose floor is before, in or after the entries of the first answer accepts it."""
    floors = [FeedPosition(0, case.feed.base.chain), FeedPosition(1, case.feed.chain)]
    for each in (D, UNKNOWN):
        case.feed.publish(each, removed=(A,) if each == D else ())
        floors.append(FeedPosition(case.feed.sequence, case.feed.chain))
    for floor in floors:
        case.init(floor=floor)
        case.poll(case.feed.answer(), base=case.feed.data, sequence=3)
        case.check("revoked", D)
        case.check("clear", A)
        case.restart()
        case.poll(case.feed.answer(), base=case.feed.data, sequence=3)


@case
def the_longest_identifier(case: Case) -> None:
    """A warrant identifier has 1 to 64 letters, digits, `_` or `-` after `svc_wrt_`."""
    case.begin()
    ids = ("svc_wrt_-", "svc_wrt__", "svc_wrt_" + "Zz9_-" * 12 + "Zz9_")
    for each in ids:
        case.check("clear", each)
    case.feed.publish(*ids)
    case.poll(case.feed.answer(1), sequence=2)
    for each in ids:
        case.check("revoked", each)
