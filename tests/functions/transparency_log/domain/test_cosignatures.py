"""Cosignatures, requests to witnesses, and proofs that a tree extends another (LOG-31)."""

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.transparency_log import checkpoint, merkle, witnesses
from functions.transparency_log.checkpoint import Checkpoint
from functions.transparency_log.witnesses import AddCheckpointRequest
from shared.authorizer.formats.members import to_base64
from shared.model.audit import records
from shared.model.audit.witness_policy import COSIGNATURE, ED25519, NoteKey

SEED: Final = bytes(range(32))
OTHER: Final = bytes(range(1, 33))
NOW: Final = datetime(2026, 11, 26, 12, tzinfo=UTC)
NOTE: Final = Checkpoint("example.com/log", 5, bytes(32)).sign([OTHER])
KEY: Final = witnesses.cosigner("w.example/1", seed=SEED)
LEAVES: Final = [records.leaf(bytes([each])) for each in range(70)]

# The request in the text of C2SP tlog-witness.
EXAMPLE: Final = """old 20852014
PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=
jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=
5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=
/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=

example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1\
gGzGku9nTo+zyWE+xeMcTOAYQ8=
"""


def subtree(level: int, number: int) -> bytes:
    return merkle.perfect(LEAVES[number << level : (number + 1) << level])


def root(size: int) -> bytes:
    return merkle.root(size, subtree)


def proof(prior: int, size: int) -> list[bytes]:
    return merkle.consistency(prior, size, subtree)


@pytest.mark.slow
def test_a_tree_proves_that_it_extends_another() -> None:
    """LOG-31, F801a: A proof holds for the trees that it is about, and for no others."""
    for size in range(len(LEAVES) + 1):
        for prior in range(size + 1):
            path = proof(prior, size)
            assert merkle.extends(prior, root(prior), size, root(size), path)
            wrong = bytes(32)
            assert not merkle.extends(prior, root(prior), size, root(size), [*path, wrong])
            if prior:
                assert not merkle.extends(prior, wrong, size, root(size), path)
                assert not merkle.extends(prior, root(prior), size, wrong, path)
            if path:
                assert not merkle.extends(prior, root(prior), size, root(size), path[:-1])
                assert not merkle.extends(prior, root(prior), size, root(size), path[1:])
    assert not merkle.extends(3, root(3), 2, root(2), [])
    assert not merkle.extends(-1, root(3), 2, root(2), [bytes(32)])


@given(st.data())
def test_no_changed_proof_holds(data: st.DataObject) -> None:
    """LOG-31, F801b: A proof with any hash changed, missing or doubled does not hold."""
    size = data.draw(st.integers(2, len(LEAVES)))
    prior = data.draw(st.integers(1, size - 1))
    path = proof(prior, size)
    at = data.draw(st.integers(0, len(path) - 1))
    changed = path[at][:-1] + bytes([path[at][-1] ^ 1])
    for other in (
        [*path[:at], changed, *path[at + 1 :]],
        [*path[:at], *path[at + 1 :]],
        [*path[:at], path[at], *path[at:]],
    ):
        assert not merkle.extends(prior, root(prior), size, root(size), other)


def test_a_request_is_that_of_tlog_witness() -> None:
    """LOG-31, F801c: The request in the text of C2SP is read and written byte by byte."""
    found = AddCheckpointRequest.parse(EXAMPLE.encode())
    assert (found.old, len(found.proof)) == (20852014, 4)
    assert Checkpoint.parse(found.note)[:2] == ("example.com/behind-the-sofa", 20852163)
    assert found.encode() == EXAMPLE.encode()
    assert AddCheckpointRequest(0, (), NOTE).encode() == f"old 0\n\n{NOTE}".encode()
    assert AddCheckpointRequest.parse(AddCheckpointRequest(0, (), NOTE).encode()) == (0, (), NOTE)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"old 1",
        b"old  1\n\nx",
        b"new 1\n\nx",
        b"old 01\n\nx",
        b"old -1\n\nx",
        b"old +1\n\nx",
        b"old 1e3\n\nx",
        b"old \xd9\xa1\n\nx",
        b"old 9999999999999999999\n\nx",
        b"old 1\nx\n\nx",
        b"old 1\n\xff\n\nx",
        b"old 1\n" + to_base64(bytes(31)).encode() + b"\n\nx",
        b"old 1\n" + b"\n".join([to_base64(bytes(32)).encode()] * 64) + b"\n\nx",
    ],
)
def test_another_request_is_malformed(body: bytes) -> None:
    """LOG-31, F801d: A request that C2SP does not allow is refused."""
    with pytest.raises(ValueError, match=r"."):
        AddCheckpointRequest.parse(body)


def test_a_cosignature_is_of_a_note_a_key_and_a_time() -> None:
    """LOG-31, F801e: A cosignature counts for its checkpoint, key and time, and for no other."""
    line = witnesses.cosign(NOTE, KEY.name, NOW, seed=SEED)
    assert witnesses.cosigned_at(NOTE + line, KEY) == NOW
    assert witnesses.cosigned_at(NOTE, KEY) is None
    assert not checkpoint.is_signed_by(NOTE + line, NoteKey(KEY.name, KEY.public_key))
    for other in (
        KEY._replace(name="w.example/2"),
        witnesses.cosigner(KEY.name, seed=OTHER),
        KEY._replace(kind=ED25519),
    ):
        assert witnesses.cosigned_at(NOTE + line, other) is None
    grown = Checkpoint("example.com/log", 6, bytes(32)).sign([OTHER])
    assert witnesses.cosigned_at(grown + line, KEY) is None
    (signature,) = checkpoint.signatures(NOTE + line, KEY)
    later = KEY.line((int(NOW.timestamp()) + 1).to_bytes(8, "big") + signature[8:])
    assert witnesses.cosigned_at(NOTE + later, KEY) is None
    for at in (0, 2**63, 2**64 - 1):
        assert witnesses.cosigned_at(NOTE + KEY.line(at.to_bytes(8, "big")), KEY) is None


def test_the_newest_cosignature_of_a_witness_counts() -> None:
    """LOG-31, F801f: Of several lines of a witness the newest valid one counts and is kept."""
    times = (NOW, NOW + timedelta(hours=1), NOW - timedelta(hours=1))
    lines = [witnesses.cosign(NOTE, KEY.name, each, seed=SEED) for each in times]
    note = NOTE + "".join(lines) + KEY.line(bytes(72)) + "— junk\n— w.example/1 é\n"
    assert witnesses.cosigned_at(note, KEY) == times[1]
    assert witnesses.lines_of(note, KEY) == lines[1]
    assert witnesses.lines_of(NOTE, KEY) == ""


def test_a_quorum_is_of_different_witnesses() -> None:
    """LOG-32, F801g: A quorum is reached by as many witnesses, at the time of the oldest."""
    seeds = [bytes([each]) * 32 for each in range(1, 4)]
    keys = [witnesses.cosigner(f"w{each[0]}", seed=each) for each in seeds]
    note = NOTE
    for hours, seed in enumerate(seeds):
        at = NOW + timedelta(hours=hours)
        note += 2 * witnesses.cosign(note, f"w{seed[0]}", at, seed=seed)
    late, early = NOW + timedelta(hours=9), NOW + timedelta(hours=1)
    moments = [witnesses.agreed_at(note, keys, each, late) for each in (1, 2, 3)]
    assert moments == [NOW + timedelta(hours=each) for each in (2, 1, 0)]
    assert witnesses.agreed_at(note, keys, 4, late) is None
    assert witnesses.agreed_at(note, keys[:1], 2, late) is None
    assert witnesses.agreed_at(note, keys, 2, early) == NOW
    assert witnesses.agreed_at(note, keys, 3, early) is None


@pytest.mark.parametrize(
    "text",
    [
        str(NoteKey("w", KEY.public_key)),
        str(KEY).replace("w.example", "v.example"),
        "w+00000000+AAAA",
        str(NoteKey("", KEY.public_key, COSIGNATURE)),
        str(NoteKey("a b", KEY.public_key, COSIGNATURE)),
        str(NoteKey("w", bytes([1, *bytes(31)]), COSIGNATURE)),
        "w",
    ],
)
def test_another_text_is_no_key_of_a_witness(text: str) -> None:
    """LOG-31, F801h: A verifier key of another type, name or identifier, or a weak one, is none."""
    assert NoteKey.parse(str(KEY), COSIGNATURE) == KEY
    with pytest.raises(ValueError, match=r"."):
        NoteKey.parse(text, COSIGNATURE)
