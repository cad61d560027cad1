"""The keys of issuers: fetched once a minute by all instances together, and kept for a day."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from threading import Condition, Lock
from typing import Any

import pytest

from shared.authorizer.formats.token_kinds import TokenFault
from shared.errors import DataCorrupt, Unavailable
from shared.model.identities import key_sets
from shared.model.identities.claims import SignInRefused
from shared.model.identities.key_sets import IssuerKeys
from shared.operations.identities import sign_in
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put, wrap_store
from tests.kit.issuers import (
    AUDIENCE,
    BINDING,
    ISSUER,
    KEYS_URI,
    Answers,
    key,
    key_set,
    public,
    signed,
)
from tests.kit.worlds import Clock

INSTANCES = 40
PLACE = key_sets.address(KEYS_URI)


def _keys(*kids: str) -> str:
    return key_set(*(public(key("ES256"), kid=kid) for kid in kids))


@pytest.fixture
def answers() -> Answers:
    return Answers({KEYS_URI: _keys("old")})


@pytest.fixture
def instance(anywhere: Ports, answers: Answers, clock: Clock) -> Ports:
    """An instance that reaches the issuer, on one machine and on a pretended cloud."""
    return _beside(
        replace(
            anywhere, outbound=lambda: answers, sleep=lambda seconds: clock.advance(seconds=seconds)
        )
    )


def _beside(ports: Ports) -> Ports:
    """Another instance on the same store, which remembers nothing."""
    return replace(ports, issuer_keys={})


def _accepted(ports: Ports, kid: str = "old") -> bool:
    """Whether a token by this key is accepted; False if the issuer has no such key."""
    now = int(ports.now().timestamp())
    said = {"iss": ISSUER, "sub": "a", "aud": AUDIENCE, "iat": now, "exp": now + 300}
    try:
        sign_in.verify_token(
            ports, BINDING, signed({"alg": "ES256", "kid": kid}, said, key("ES256"))
        )
    except SignInRefused as refused:
        if refused.reason is not TokenFault.UNKNOWN_KEY:
            raise
        return False
    return True


def _record(ports: Ports) -> IssuerKeys:
    item = ports.store.get(PLACE)
    assert item is not None
    return IssuerKeys.from_item(item)


@pytest.mark.slow_on("cloud")
def test_many_cold_instances(instance: Ports, answers: Answers) -> None:
    """F1183a: Of 40 cold instances one fetches the keys, and the others wait for it and accept."""
    changed, waiting, one_write = Condition(), list[float](), Lock()

    def fetch() -> str:
        # The others have lost the turn, and wait.
        with changed:
            assert changed.wait_for(lambda: len(waiting) == INSTANCES - 1, timeout=60)
        return _keys("old")

    def sleep(seconds: float) -> None:
        with changed:
            waiting.append(seconds)
            changed.notify_all()
            assert changed.wait_for(lambda: _record(instance).has_succeeded, timeout=60)

    def around(name: str, call: Any) -> Any:
        def run(*arguments: Any, **named: Any) -> Any:
            if name != "write":
                return call(*arguments, **named)
            # Two transactions of moto at once can both succeed.
            with one_write:
                call(*arguments, **named)
            with changed:
                changed.notify_all()
            return None

        return run

    answers.documents[KEYS_URI] = fetch
    cold = replace(instance, store=wrap_store(instance.store, around), sleep=sleep)
    with ThreadPoolExecutor(INSTANCES) as pool:
        assert all(pool.map(_accepted, [_beside(cold) for _ in range(INSTANCES)]))
    assert len(answers.asked) == 1


@pytest.mark.slow_on("cloud")
def test_unknown_kids_cause_no_fetches(instance: Ports, answers: Answers) -> None:
    """F1183b: However many unknown kids come, they are refused by one fetch a minute."""
    assert _accepted(instance)
    for number in range(500):
        assert not _accepted(instance if number % 2 else _beside(instance), f"kid-{number}")
    assert len(answers.asked) == 1


def test_a_new_key_is_known_within_a_minute(
    instance: Ports, answers: Answers, clock: Clock
) -> None:
    """F1183c: A key that the issuer has added is accepted a minute after the newest fetch."""
    assert _accepted(instance)
    answers.documents[KEYS_URI] = _keys("old", "new")
    clock.advance(seconds=59)
    assert not _accepted(instance, "new")
    clock.advance(seconds=1)
    assert _accepted(instance, "new")
    assert _accepted(_beside(instance), "new")
    assert len(answers.asked) == 2


def test_memory_for_an_hour(instance: Ports, answers: Answers, clock: Clock) -> None:
    """F1183d: For an hour keys are used without a read; a key that is removed ends with it."""
    assert _accepted(instance)
    instance.store.write(Delete(PLACE, Expect.PRESENT))
    answers.documents[KEYS_URI] = _keys("new")
    clock.advance(minutes=59)
    assert _accepted(instance)
    assert len(answers.asked) == 1
    clock.advance(minutes=1)
    assert not _accepted(instance)
    assert len(answers.asked) == 2


def test_an_issuer_that_is_down(instance: Ports, answers: Answers, clock: Clock) -> None:
    """F1183e: While an issuer does not answer, its keys are used for a day, and then none are."""
    assert _accepted(instance)
    answers.is_down = True
    clock.advance(hours=23, minutes=58)
    for each in (instance, _beside(instance), _beside(instance)):
        assert _accepted(each)
    assert len(answers.asked) == 2
    clock.advance(minutes=2)
    with pytest.raises(Unavailable):
        _accepted(instance)
    answers.is_down = False
    clock.advance(minutes=1)
    assert _accepted(instance)


def test_nothing_is_concluded_from_silence(instance: Ports, answers: Answers, clock: Clock) -> None:
    """F1183f: A kid that is not known is an outage and no refusal if the newest try failed."""
    assert _accepted(instance)
    answers.is_down = True
    clock.advance(minutes=1)
    for each in (instance, _beside(instance)):
        with pytest.raises(Unavailable):
            _accepted(each, "new")
        assert _accepted(each)


@pytest.mark.parametrize("document", ["", "{}", "[]", '{"keys": 1}', "\0"])
def test_a_document_without_keys(
    instance: Ports, answers: Answers, clock: Clock, document: str
) -> None:
    """F1183g: A document that is no set of keys replaces none."""
    assert _accepted(instance)
    answers.documents[KEYS_URI] = document
    clock.advance(hours=2)
    assert _accepted(instance)
    assert len(answers.asked) == 2


def test_a_set_that_is_empty(instance: Ports, answers: Answers, clock: Clock) -> None:
    """An issuer that withdraws all its keys has none, from the next fetch on."""
    assert _accepted(instance)
    answers.documents[KEYS_URI] = key_set()
    clock.advance(hours=1)
    assert not _accepted(instance)


def test_an_instance_that_ended_in_its_turn(
    instance: Ports, answers: Answers, clock: Clock
) -> None:
    """F1183h: Who waits for an instance that ended gives up after 6 s; the next turn is free."""
    with _ending_in_its_turn(instance) as ending, pytest.raises(KeyboardInterrupt):
        _accepted(ending)
    began = clock()
    with pytest.raises(Unavailable):
        _accepted(instance)
    assert (clock() - began).total_seconds() == 6
    clock.advance(seconds=54)
    assert _accepted(instance)
    assert len(answers.asked) == 1


@contextmanager
def _ending_in_its_turn(ports: Ports) -> Iterator[Ports]:
    def ask() -> str:
        raise KeyboardInterrupt

    answers = Answers({KEYS_URI: ask})
    yield replace(_beside(ports), outbound=lambda: answers)


def test_a_turn_that_took_too_long(instance: Ports, answers: Answers, clock: Clock) -> None:
    """What a slow instance fetched is right, though another one has had the turn since."""

    def slow() -> str:
        answers.documents[KEYS_URI] = _keys("old", "new")
        clock.advance(minutes=2)
        assert _accepted(_beside(instance), "new")
        return _keys("old")

    answers.documents[KEYS_URI] = slow
    assert _accepted(instance)
    assert _record(instance).document == _keys("old", "new")


@pytest.mark.parametrize("year", [2020, 2031])
def test_a_clock_that_was_wrong(instance: Ports, clock: Clock, year: int) -> None:
    """F1183i: An instance whose clock was far ahead or behind holds no key and no turn for long."""
    wrong = replace(_beside(instance), now=Clock(clock().replace(year=year)))
    assert _accepted(wrong)
    assert _accepted(instance)
    assert _record(instance).fetched == clock()


@pytest.mark.slow_on("cloud")
def test_the_memory_has_an_end(instance: Ports) -> None:
    """However many issuers there are, an instance remembers few of them."""
    instance.issuer_keys.update({f"https://{n}.example/": _fake(instance) for n in range(64)})
    assert _accepted(instance)
    assert len(instance.issuer_keys) == 1


def _fake(ports: Ports) -> IssuerKeys:
    return IssuerKeys.trying(None, ports.now())


def test_keys_that_are_damaged(instance: Ports) -> None:
    """Keys that are stored and cannot be read are an outage."""
    assert _accepted(instance)
    damaged = replace(_record(instance), document="{")
    instance.store.write(Put(PLACE, damaged.to_item(), Expect.PRESENT))
    with pytest.raises(DataCorrupt):
        _accepted(_beside(instance))
