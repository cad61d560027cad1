"""A witness: what it signs, what it refuses, and that it never signs two histories (LOG-33)."""

import hashlib
import multiprocessing
import os
import random
import signal
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

from functions.transparency_log import witnesses
from functions.transparency_log.checkpoint import Checkpoint
from functions.transparency_log.witnesses import AddCheckpointRequest
from infra import witness as service
from infra.witness import NotCosigned, WitnessStore
from shared.errors import InvalidSettings
from shared.model.audit.witness_policy import NoteKey
from shared.ports.outside import WITNESS_BYTES_MAX
from tests.infra.witness.histories import KEY, ORIGIN, OTHER, SEED, TRUE
from tests.kit.witnesses import made


@pytest.fixture
def memory(tmp_path: Path) -> WitnessStore:
    """A witness that knows the log."""
    memory = made(tmp_path, "w")
    memory.add(KEY)
    return memory


@pytest.fixture
def client(memory: WitnessStore) -> TestClient:
    return TestClient(service.application(memory))


def post(client: TestClient, body: bytes) -> tuple[int, str]:
    answer = client.post("/add-checkpoint", content=body)
    return answer.status_code, answer.text


# The requests and answers of the test of `litewitness` (FiloSottile/torchwood), in their order: the
# log of Sigsum's format, then old size, hashes, new size, signature and status of each.
_SIGSUM: Final = (
    "sigsum.org/v1/tree/4d6d8825a6bb689d459628312889dfbb0bcd41b5211d9e1ce768b0ff0309e562"
)
_SIGSUM_KEY: Final = "ffdc2d4d98e4124d3feaf788c0c2f9abfd796083d1f0495437f302ec79cf100f"
_ONE: Final = "KgEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
_TWO: Final = "KgIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
_WRONG: Final = "KgIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABA="
_THREE: Final = "KgMAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
_FOUR: Final = "KgQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
_PAIR: Final = "wgiIFdZfYNv6WU1OllBKsWnLYIS/DBMqt8Uh/S4OukE="
_NEAR: Final = "+fUDV+k970B4I3uKrqJM4aP1lloPZP8mvr2Z4wRw2LI="
_ROOTS: Final = {
    1: "KgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    3: "RcCI1Nk56ZcSmIEfIn0SleqtV7uvrlXNccFx595Iwl0=",
    5: "QrtXrQZCCvpIgsSmOsah7HdICzMLLyDfxToMql9WTjY=",
}
_SIGNED: Final = {
    1: "UgIom7fPZTqpxWWhyjWduBvTvGVqsokMbqTArsQilegKoFBJQjUFAmQ0+YeSPM3w"
    "fUQMFSzVnnNuWRTYrajXpNUbIQY=",
    3: "UgIom2VbtIcdFbwFAy1n7s6IkAxIY6J/GQOTuZF2ORV39d75cbAj2aQYwyJre36k"
    "ezNobZs4SUUdrcawfAB8WVrx6go=",
    5: "UgIomw/EOJmWi0i1FQsOj+etB7F8IccFam/jgd6wzRns4QPVmyEZtdvl1U2KEmLO"
    "Z/ASRcWJi0tW90dJWAShei7sDww=",
}
_FORGED: Final = _SIGNED[3].replace("6go=", "6gw=")
_VECTORS: Final = (
    (0, (), 1, _SIGNED[1], 200),
    (1, (_ONE, _TWO), 3, _FORGED, 403),
    (1, (), 3, _SIGNED[3], 422),
    (1, (_ONE, _WRONG), 3, _SIGNED[3], 422),
    (1, (_ONE, _TWO), 3, _SIGNED[3], 200),
    (1, (_ONE, _NEAR, _FOUR), 5, _SIGNED[5], 409),
    (3, (_TWO, _THREE, _PAIR, _FOUR), 5, _SIGNED[5], 200),
    (0, (), 5, _SIGNED[5], 409),
)


def test_it_answers_as_litewitness_does(tmp_path: Path) -> None:
    """LOG-33, F802a: A witness answers the requests of litewitness's own test as litewitness does.

    One of an unknown log gets 404, as the present text of tlog-witness demands.
    """
    memory = made(tmp_path, "w")
    memory.add(NoteKey(_SIGSUM, bytes.fromhex(_SIGSUM_KEY)))
    client, body = TestClient(service.application(memory)), ""
    for old, hashes, size, signature, status in _VECTORS:
        lines = "".join(f"{each}\n" for each in hashes)
        note = f"{_SIGSUM}\n{size}\n{_ROOTS[size]}\n\n— {_SIGSUM} {signature}\n"
        body = f"old {old}\n{lines}\n{note}"
        assert post(client, body.encode())[0] == status, (old, size)
        unknown = body.replace("0309e562", "0309e563")
        assert post(client, unknown.encode())[0] == 404
    assert post(client, body.encode()) == (409, "5\n")


def test_it_signs_what_extends_what_it_signed(client: TestClient, memory: WitnessStore) -> None:
    """LOG-33, F802b: A witness signs each tree that extends the last one, with the time."""
    for old, size in ((0, 3), (3, 3), (3, 20), (20, 64)):
        status, line = post(client, TRUE.asked(old, size))
        assert status == 200
        at = witnesses.cosigned_at(TRUE.note(size) + line, memory.identity.key)
        assert at
        assert abs(at - datetime.now(UTC)) < timedelta(minutes=5)
    status, text = post(client, TRUE.asked(20, 64))
    assert (status, text) == (409, "64\n")
    answer = client.post("/add-checkpoint", content=TRUE.asked(0, 64))
    assert answer.headers["content-type"] == "text/x.tlog.size"


def test_it_signs_no_other_history(client: TestClient) -> None:
    """LOG-33, F802c: A witness signs no tree that does not extend what it signed."""
    assert post(client, TRUE.asked(0, 20))[0] == 200
    assert post(client, OTHER.asked(20, 64))[0] == 422
    assert post(client, OTHER.asked(20, 20))[0] == 422
    assert post(client, TRUE.asked(3, 10))[0] == 409
    smaller = AddCheckpointRequest(20, (), TRUE.note(10)).encode()
    assert post(client, smaller)[0] == 400
    assert post(client, AddCheckpointRequest(20, (), TRUE.note(64)).encode())[0] == 422
    assert post(client, TRUE.asked(20, 64))[0] == 200


def test_the_empty_tree_has_one_root(client: TestClient) -> None:
    """LOG-33, F802d: A first checkpoint needs no proof; an empty one has the root of nothing."""
    assert post(client, AddCheckpointRequest(0, (bytes(32),), TRUE.note(3)).encode())[0] == 422
    empty = Checkpoint(ORIGIN, 0, bytes(32)).sign([SEED])
    assert post(client, AddCheckpointRequest(0, (), empty).encode())[0] == 422
    assert post(client, TRUE.asked(0, 0))[0] == 200
    assert post(client, TRUE.asked(0, 3))[0] == 200


def test_a_log_is_known_by_its_keys(client: TestClient, memory: WitnessStore) -> None:
    """LOG-33, F802e: Only a known key of the log counts, and a wrong line under it refuses all."""
    other = bytes(range(1, 33))
    second = NoteKey(ORIGIN, witnesses.cosigner("", seed=other).public_key)
    stranger = Checkpoint.parse(TRUE.note(3)).sign([other])
    assert post(client, AddCheckpointRequest(0, (), stranger).encode())[0] == 403
    assert (
        post(client, AddCheckpointRequest(0, (), TRUE.note(3) + second.line(bytes(64))).encode())[0]
        == 200
    )
    memory.add(second)
    memory.add(second)
    assert post(client, AddCheckpointRequest(3, (), stranger).encode())[0] == 200
    forged = TRUE.note(3) + second.line(bytes(64))
    assert post(client, AddCheckpointRequest(3, (), forged).encode())[0] == 403
    elsewhere = Checkpoint("rescind/svc_tnt_b/1", 3, bytes(32)).sign([SEED])
    assert post(client, AddCheckpointRequest(0, (), elsewhere).encode())[0] == 404


@pytest.mark.parametrize(
    "body", [b"", b"old 0\n\n", b"old 0\n\nx\ny\nz\n\n", b"old x\n\n" + TRUE.note(3).encode()]
)
def test_a_malformed_request_is_refused(client: TestClient, body: bytes) -> None:
    """LOG-33, F802f: What is no request of tlog-witness gets 400, and too much of it 413."""
    assert post(client, body)[0] == 400
    assert post(client, body + b"x" * (WITNESS_BYTES_MAX + 1))[0] == 413


def test_it_shows_what_it_signed_last(client: TestClient, memory: WitnessStore) -> None:
    """LOG-33, F802g: The newest checkpoint is served with the signatures that were verified."""
    log = hashlib.sha256(ORIGIN.encode()).hexdigest()
    path = f"/{log}/checkpoint"
    assert client.get(path).status_code == 404
    junk = TRUE.note(3) + "— junk AAAA\n"
    status, line = post(client, AddCheckpointRequest(0, (), junk).encode())
    assert status == 200
    assert client.get(path).text == TRUE.note(3) + line
    assert WitnessStore.open(memory._path.parent, None).note(log) == TRUE.note(3) + line


def test_a_slow_request_is_given_up(memory: WitnessStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """LOG-33, F802h: A request that does not arrive in time is answered with 408."""
    monkeypatch.setattr(service, "_PATIENCE_SECONDS", 0.0)
    client = TestClient(service.application(memory))
    assert post(client, TRUE.asked(0, 3))[0] == 408


def test_a_witness_has_one_name_and_one_memory(tmp_path: Path) -> None:
    """LOG-33, F802i: Name and key stay; a folder without memory is no witness until it is named."""
    with pytest.raises(InvalidSettings, match="add --name"):
        WitnessStore.open(tmp_path / "w", None)
    first = made(tmp_path, "w")
    assert WitnessStore.open(tmp_path / "w", None).identity == first.identity
    assert made(tmp_path, "w").identity == first.identity
    with pytest.raises(InvalidSettings, match=r"is named w\.example/w"):
        WitnessStore.open(tmp_path / "w", "another.example")
    for name in ("", "a b", "a+b"):
        with pytest.raises(InvalidSettings, match="name of a witness"):
            WitnessStore.open(tmp_path / "x", name)
    (file,) = (tmp_path / "w").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "x").exists()


def test_requests_at_the_same_time_make_one_history(memory: WitnessStore) -> None:
    """LOG-33, F802j: Of concurrent requests for two histories, all that are signed are of one."""

    def one(number: int) -> tuple[int, int] | None:
        history, size = (TRUE, OTHER)[number % 2], 10 + number // 2
        try:
            service.sign(memory, history.asked(0, size))
        except NotCosigned:
            return None
        return number % 2, size

    with ThreadPoolExecutor(8) as pool:
        found = [each for each in pool.map(one, range(40)) if each]
    assert len(found) == 1


def _serve(folder: str, seed: int, signed: Any) -> None:
    """Ask for trees of two histories, and note each that was signed, once it was."""
    memory, drawn = WitnessStore.open(Path(folder), None), random.Random(seed)
    while True:
        history = (TRUE, OTHER)[drawn.randrange(2)]
        with closing(sqlite3.connect(memory._path)) as db:
            row = db.execute("SELECT size FROM signed").fetchone()
        old = row[0] if row else 0
        size = min(old + drawn.randrange(3), 64)
        try:
            line = service.sign(memory, history.asked(old, size))
        except NotCosigned:
            continue
        signed.send((history is TRUE, size, line))
        if size == 64:
            return


@pytest.mark.slow
def test_a_killed_witness_signs_no_other_history(tmp_path: Path) -> None:
    """LOG-33, F802k: Killed at any time and started again, a witness signs one history alone.

    Its size never goes back, and the last tree that it signed is in its memory.
    """
    memory = made(tmp_path, "w")
    memory.add(KEY)
    drawn, context = random.Random(1), multiprocessing.get_context("spawn")
    found: list[tuple[bool, int, str]] = []
    for number in range(5):
        mine, theirs = context.Pipe(duplex=False)
        folder = str(tmp_path / "w")
        workers = [
            context.Process(target=_serve, args=(folder, 2 * number + each, theirs))
            for each in range(2)
        ]
        for each in workers:
            each.start()
        theirs.close()
        found += [mine.recv() for _ in range(drawn.randrange(1, 4)) if mine.poll(20)]
        for each in workers:
            if each.pid is not None:
                os.kill(each.pid, signal.SIGKILL)
            each.join()
        with closing(mine):
            while mine.poll():
                try:
                    found.append(mine.recv())
                except (EOFError, OSError):
                    break
    sizes = [size for is_true, size, _ in found if size > 5]
    assert sizes
    assert len({is_true for is_true, size, _ in found if size > 5}) == 1
    note = memory.note(hashlib.sha256(ORIGIN.encode()).hexdigest())
    assert note
    assert Checkpoint.parse(note).size >= max(sizes)
