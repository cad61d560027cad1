"""Witnesses sign the newest checkpoint of a log, and nothing waits for them (LOG-31, LOG-32)."""

import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from functions.transparency_log import operations as sealed_log
from functions.transparency_log import sealing, witnesses, witnessing
from functions.transparency_log.checkpoint import Checkpoint
from functions.transparency_log.witnesses import AddCheckpointRequest, WitnessState
from infra.witness import WitnessStore
from shared import wiring
from shared.errors import DataCorrupt, NotFound
from shared.model.audit.witness_policy import NoteKey, WitnessPolicy
from shared.operations.operator import doctor
from shared.ports import Ports
from shared.ports.outside import WitnessAnswer
from shared.ports.store import Expect, Put
from tests.kit.sealed_log import entered, head_of, many_sealed
from tests.kit.tenants import Tenant
from tests.kit.witnesses import Answer, Witnessed, answering, know, made, policy, url
from tests.kit.worlds import Clock
from tests.operations.restores import Deployment

pytestmark = pytest.mark.usefixtures("at_once")


class Three:
    """Three witnesses that know the log of a tenant, of which two are a quorum."""

    def __init__(self, folder: Path, ports: Ports, tenant: Tenant) -> None:
        self.memories = [made(folder, name) for name in ("a", "b", "c")]
        self.client = Witnessed({url(each): answering(each) for each in self.memories})
        self.policy: WitnessPolicy = policy(2, *self.memories)
        self.ports, self.tenant = ports, tenant

    def know(self) -> None:
        for each in self.memories:
            know(each, self.ports, self.tenant.id)

    def replaced(self, number: int, answer: Callable[[bytes], WitnessAnswer]) -> None:
        """Let one of them answer otherwise."""
        self.client.answers[url(self.memories[number])] = answer

    def round(self) -> WitnessState | None:
        """Ask all of them, once."""
        asking = witnessing.WitnessRound(self.ports, self.client, self.policy)
        return asking.cosign(self.tenant.id)

    @property
    def problems(self) -> list[str]:
        return [problem for problem, _ in witnessing.problems(self.ports, self.tenant.id)]

    def agreed(self) -> int:
        """The leaves that a quorum has signed, by the served checkpoint alone."""
        note = sealed_log.checkpoint(self.ports, self.tenant.operator, with_cosignatures=True)
        keys = [each.key for each in self.policy.witnesses]
        late = self.ports.now() + timedelta(days=1)
        assert witnesses.agreed_at(note, keys, 2, late)
        return Checkpoint.parse(note).size


@pytest.fixture
def clock() -> Clock:
    """The time of witnesses is that of the machine, so the service has it too."""
    return Clock(wiring.now())


@pytest.fixture
def three(tmp_path: Path, ports: Ports, tenant: Tenant, clock: Clock) -> Three:
    many_sealed(ports, clock, tenant.id, 3)
    found = Three(tmp_path, ports, tenant)
    found.know()
    return found


def test_a_quorum_signs_what_was_sealed(three: Three, ports: Ports, clock: Clock) -> None:
    """LOG-31, LOG-32, F803a: Each round has the newest checkpoint signed by all witnesses.

    The checkpoint is served with their cosignatures, while the newest one is served without.
    """
    with pytest.raises(NotFound, match="RESCIND_WITNESSES"):
        three.agreed()
    size = 0
    for added in (0, 1, 300, 700):
        many_sealed(ports, clock, three.tenant.id, added)
        size = head_of(ports, three.tenant.id).size
        assert three.round()
        assert three.agreed() == size
        found = witnessing.read_state(ports, three.tenant.id)
        assert set(found.known.values()) == {size}
        assert (len(found.newest.lines), found.problems) == (3, {})
    entered(ports, clock, three.tenant.id)
    sealing.extend(ports, three.tenant.id)
    newest = sealed_log.checkpoint(ports, three.tenant.operator)
    assert Checkpoint.parse(newest).size == size + 1
    assert newest == head_of(ports, three.tenant.id).checkpoint
    assert three.agreed() == size
    assert not [each for each in doctor.examine(ports) if "witness" in each.problem]


def test_a_log_that_does_not_grow_is_signed_seldom(three: Three, clock: Clock) -> None:
    """LOG-31, F803b: Without a new entry nothing is asked, until six hours have passed."""
    assert three.round()
    asked = len(three.client.asked)
    assert three.round() is None
    clock.advance(hours=5)
    assert three.round() is None
    assert len(three.client.asked) == asked
    clock.advance(hours=2)
    assert three.round()
    assert len(three.client.asked) == asked + 3


def test_nothing_is_asked_before_something_is_sealed(
    tmp_path: Path, ports: Ports, tenant: Tenant
) -> None:
    """LOG-31, F803c: A log without entries is shown to no witness."""
    three = Three(tmp_path, ports, tenant)
    assert three.round() is None
    assert three.client.asked == []


def test_a_witness_that_is_away_delays_nobody(
    three: Three, ports: Ports, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """LOG-31, F804a: Without one witness the others are a quorum; it is asked once a round.

    What is wrong is logged when it changes. The doctor remarks it.
    """
    caplog.set_level(logging.WARNING)
    three.replaced(0, lambda _: WitnessAnswer(0))
    assert three.round()
    three.round()
    assert three.agreed() == head_of(ports, three.tenant.id).size
    assert [each.rpartition(": ")[2] for each in three.problems] == ["it does not answer"]
    assert len([each for each in caplog.records if "does not sign" in each.message]) == 1
    (found,) = (each for each in doctor.examine(ports) if "witness" in each.problem)
    assert found.is_remark
    three.replaced(0, answering(three.memories[0]))
    three.round()
    assert three.problems == []
    assert "signs the log" in caplog.records[-1].message


def test_a_witness_that_is_away_is_asked_about_one_tenant(three: Three, ports: Ports) -> None:
    """LOG-31, F804b: In a round, a witness that does not answer is asked about one log alone."""
    three.replaced(0, lambda _: WitnessAnswer(0))
    asking = witnessing.WitnessRound(ports, three.client, three.policy)
    asking.cosign(three.tenant.id)
    asking.cosign(three.tenant.id)
    assert three.client.asked.count(f"{url(three.memories[0])}/add-checkpoint") == 1


def test_two_witnesses_that_are_away_leave_no_quorum(
    three: Three, ports: Ports, clock: Clock
) -> None:
    """LOG-32, F804c: Without a quorum, the newest checkpoint that had one is served."""
    three.round()
    size = three.agreed()
    for number in (0, 1):
        three.replaced(number, lambda _: WitnessAnswer(503))
    many_sealed(ports, clock, three.tenant.id, 2)
    three.round()
    assert three.agreed() == size
    assert (
        sorted(each.rpartition(": ")[2] for each in three.problems)
        == ["it responds with status 503"] * 2
    )


LIES: dict[str, Callable[[Three], Answer]] = {
    "another key": lambda three: answering(_stranger(three)),
    "nothing": lambda _: lambda _: WitnessAnswer(200, b""),
    "garbage": lambda _: lambda _: WitnessAnswer(200, b"\xff\xfe\n\n\n"),
    "another note": lambda three: lambda _: WitnessAnswer(200, _line(three, "other").encode()),
}


def _stranger(three: Three) -> WitnessStore:
    folder = three.memories[0]._path.parent.parent / "stranger"
    stranger = WitnessStore.open(folder, three.memories[0].identity.name)
    know(stranger, three.ports, three.tenant.id)
    return stranger


def _line(three: Three, origin: str) -> str:
    name, seed = three.memories[0].identity
    note = Checkpoint(origin, 1, bytes(32)).sign([])
    return witnesses.cosign(note, name, three.ports.now(), seed=seed)


@pytest.mark.parametrize("lie", LIES)
def test_a_witness_that_lies_counts_for_nothing(three: Three, ports: Ports, lie: str) -> None:
    """LOG-31, F805a: An answer without a valid cosignature of the checkpoint is none."""
    three.replaced(0, LIES[lie](three))
    three.replaced(1, lambda _: WitnessAnswer(0))
    three.round()
    assert "its response has no signature by its key" in three.problems[0]
    with pytest.raises(NotFound):
        three.agreed()


def test_a_cosignature_of_the_future_counts_for_nothing(three: Three, clock: Clock) -> None:
    """LOG-31, F805b: A witness whose clock is ahead would seem fresh for long, so it is refused."""
    clock.advance(minutes=-10)
    three.round()
    assert {each.rpartition(": ")[2] for each in three.problems} == {"its clock is ahead"}


def test_a_witness_says_what_it_knows(three: Three, ports: Ports, clock: Clock) -> None:
    """LOG-31, F805c: A witness that knows more or less than was thought is asked again, once."""
    three.round()
    item = witnessing.read_state(ports, three.tenant.id).to_item()
    many_sealed(ports, clock, three.tenant.id, 300)
    address = witnesses.address(three.tenant.id)
    ports.store.write(Put(address, {**item, "known": {}}, Expect.PRESENT))
    asked = len(three.client.asked)
    three.round()
    assert len(three.client.asked) == asked + 6
    assert three.agreed() == head_of(ports, three.tenant.id).size
    assert three.problems == []


@pytest.mark.parametrize("said", [b"many\n", b"", b"-1\n", b"\xff"])
def test_a_conflict_without_a_number_is_an_error(three: Three, said: bytes) -> None:
    """LOG-31, F805d: A witness that does not say what it knows is not asked again."""
    three.replaced(0, lambda _: WitnessAnswer(409, said))
    three.round()
    assert "it does not report how many leaves it has signed" in three.problems[0]
    assert three.client.asked.count(f"{url(three.memories[0])}/add-checkpoint") == 1


def test_a_conflict_that_goes_on_is_an_error(three: Three) -> None:
    """LOG-31, F805e: A witness that answers 409 for ever is asked twice a round."""
    sizes = iter((b"1\n", b"2\n", b"1\n"))
    three.replaced(0, lambda _: WitnessAnswer(409, next(sizes)))
    three.round()
    assert "it requires a proof from 2 leaves" in three.problems[0]
    assert three.client.asked.count(f"{url(three.memories[0])}/add-checkpoint") == 2


def test_witnesses_tell_that_a_log_was_put_back(
    deployment: Deployment, three: Three, ports: Ports, clock: Clock
) -> None:
    """LOG-31, F806a: If the log is shorter than what witnesses signed, the doctor says so.

    That is so also if everything else that tells of it was put back too.
    """
    copy = deployment.copy()
    many_sealed(ports, clock, three.tenant.id, 5)
    three.round()
    known = three.agreed()
    item = witnessing.read_state(ports, three.tenant.id).to_item()
    deployment.restore(copy)
    size = head_of(ports, three.tenant.id).size
    assert three.round()
    expected = (
        f"it has signed {known} leaves, but the log has {size}; the log was truncated or restored"
    )
    assert [each.rpartition(": it has")[2] for each in three.problems] == [
        expected.removeprefix("it has")
    ] * 3
    assert len([each for each in doctor.examine(ports) if expected in each.problem]) == 3
    assert item != witnessing.read_state(ports, three.tenant.id).to_item()


def test_witnesses_refuse_another_history(
    tmp_path: Path, three: Three, ports: Ports, tenant: Tenant
) -> None:
    """LOG-31, F806b: A witness that has signed another history is named by round and doctor."""
    head = head_of(ports, tenant.id)
    other = Checkpoint(f"rescind/{tenant.id}/1", head.size, bytes(32))
    seed = bytes(32)
    public = witnesses.cosigner("", seed=seed).public_key
    three.memories[0].add(NoteKey(other.origin, public))
    forged = AddCheckpointRequest(0, (), other.sign([seed])).encode()
    assert answering(three.memories[0])(forged).status == 200
    three.round()
    assert "it has signed another history" in three.problems[0]
    assert [each for each in doctor.examine(ports) if "another history" in each.problem]
    assert three.agreed() == head.size


def test_a_witness_must_be_told_of_a_log(tmp_path: Path, ports: Ports, tenant: Tenant) -> None:
    """LOG-31, F806c: A witness that does not know the log is named, with what to do."""
    sealing.extend(ports, tenant.id)
    three = Three(tmp_path, ports, tenant)
    three.round()
    assert all("it does not accept the log; give its operator" in each for each in three.problems)
    three.know()
    three.round()
    assert three.problems == []


def test_two_replicas_keep_one_result(three: Three, ports: Ports, clock: Clock) -> None:
    """LOG-31, F807a: If two processes ask at once, what one of them keeps is whole."""
    inner = three.client

    class Twice(Witnessed):
        """While the first asks, another process asks and keeps."""

        def ask(self, asked: list[tuple[str, bytes]]) -> list[WitnessAnswer]:  # type: ignore[override]
            client, three.client = three.client, inner
            if client is not inner:
                three.round()
            return inner.ask(asked)

    three.client = Twice()
    assert three.round()
    found = witnessing.read_state(ports, three.tenant.id)
    assert (found.version, len(found.newest.lines)) == (1, 3)
    assert three.agreed() == head_of(ports, three.tenant.id).size
    many_sealed(ports, clock, three.tenant.id, 1)
    three.round()
    assert witnessing.read_state(ports, three.tenant.id).version == 2


def test_a_new_generation_is_another_log(three: Three, ports: Ports, tenant: Tenant) -> None:
    """LOG-10, F807b: What witnesses said of a generation is not said of the next one."""
    three.round()
    found = witnessing.read_state(ports, tenant.id)
    after = found.with_request("rescind/other/2", "note\n\n")
    assert after == WitnessState("rescind/other/2", after.newest, version=found.version)
    assert (after.agreed.signed_note, after.known) == ("", {})


def test_a_witness_that_is_no_longer_asked_is_forgotten(
    three: Three, ports: Ports, clock: Clock
) -> None:
    """LOG-31, F807c: After a change of RESCIND_WITNESSES, only the new witnesses count."""
    three.replaced(0, lambda _: WitnessAnswer(0))
    three.round()
    three.policy = policy(1, three.memories[2])
    many_sealed(ports, clock, three.tenant.id, 1)
    three.round()
    found = witnessing.read_state(ports, three.tenant.id)
    assert [*found.known] == [str(three.memories[2].identity.key)]
    assert found.problems == {}


@pytest.mark.parametrize(
    "spoilt",
    [{"known": 1}, {"newest": {}}, {"newest": {"note": "", "lines": 1}}, {"known": {"a": "b"}}],
)
def test_damage_is_no_answer(three: Three, ports: Ports, spoilt: dict[str, object]) -> None:
    """LOG-31, F807d: If what witnesses said is damaged, it is not read as nothing."""
    three.round()
    item = witnessing.read_state(ports, three.tenant.id).to_item()
    place = witnesses.address(three.tenant.id)
    ports.store.write(Put(place, {**item, **spoilt}, Expect.PRESENT))  # type: ignore[dict-item]
    with pytest.raises(DataCorrupt):
        three.agreed()


KEY = str(witnesses.cosigner("w.example/1", seed=bytes(range(32))))
OTHER = str(witnesses.cosigner("w.example/2", seed=bytes(range(1, 33))))


def test_a_policy_names_quorum_keys_and_addresses() -> None:
    """LOG-31, F808a: The setting has the quorum, then key and address of each witness."""
    found = WitnessPolicy.parse(f"1 {KEY} https://w.example/ {OTHER} http://10.0.0.2:7380/p")
    assert found.quorum == 1
    assert [each.url for each in found.witnesses] == ["https://w.example", "http://10.0.0.2:7380/p"]
    assert found.keys == tuple(sorted((KEY, OTHER)))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("1", "pairs"),
        (f"1 {KEY}", "pairs"),
        (f"0 {KEY} https://w.example", "quorum"),
        (f"2 {KEY} https://w.example", "quorum"),
        (f"x {KEY} https://w.example", "digits"),
        (f"1 {KEY} https://w.example {KEY} https://v.example", "repeated"),
        (f"1 {KEY} ftp://w.example", "is not a URL"),
        (f"1 {KEY} https://w.example?a=b", "is not a URL"),
        (f"1 {KEY.replace('BA', 'AQ')} https://w.example", "not the verifier key"),
        ("1 " + " ".join([f"{KEY} https://w.example"] * 17), "pairs"),
    ],
)
def test_another_policy_is_refused(text: str, wrong: str) -> None:
    """LOG-31, F808b: A setting that is not valid is refused with what is wrong."""
    with pytest.raises(ValueError, match=wrong):
        WitnessPolicy.parse(text)
