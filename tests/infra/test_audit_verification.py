"""The verification of an audit log finds each kind of tampering with it (LOG-24, LOG-25)."""

import base64
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from functions.transparency_log.checkpoint import Checkpoint
from functions.transparency_log.merkle import TileAddress
from infra.audit_verification.source import Pin, Report
from infra.audit_verification.verification import verify
from shared.model import seeds
from shared.model.audit import records
from shared.model.audit.witness_policy import NoteKey
from tests.kit.sealed_copies import NOW, ORIGIN, SEED, SIZE, START, TENANT, Log, entry, of


def check(log: Log, *pins: Pin) -> tuple[Report, Pin | None]:
    return verify(log, TENANT, pins=list(pins), now=lambda: NOW)


def change(log: Log) -> str:
    log.stored[log.id(300)]["details"]["reason"] = "lost"
    return f"{log.id(300)} (leaf 300): changed"


def remove(log: Log) -> str:
    del log.stored[log.id(300)]
    return f"{log.id(300)} (leaf 300): removed"


def insert(log: Log) -> str:
    made = entry(9, START + timedelta(seconds=9, milliseconds=500))
    log.stored[made["id"]] = made
    return f"{made['id']}: never appended"


def reorder(log: Log) -> str:
    log.data[256], log.data[257] = log.data[257], log.data[256]
    log.bundle(1)
    return f"leaf 256: bundle and tile differ ({log.id(256)})"


def replace_record_and_entry(log: Log) -> str:
    change(log)
    log.data[300] = records.EntryCommitment.of(log.stored[log.id(300)]).data
    log.bundle(1)
    return f"leaf 300: bundle and tile differ ({log.id(300)})"


def replace_in_bundle_and_tile(log: Log) -> str:
    replace_record_and_entry(log)
    log.hash_anew(1)
    return "tile 0/1 (leaves 256..511) differs from the level above"


def replace_up_to_the_top(log: Log) -> str:
    note = log.note
    replace_record_and_entry(log)
    log.seal().note = note
    return "the root of the tiles differs from the checkpoint"


def other_signer(log: Log) -> str:
    log.note = Checkpoint.parse(log.note or "").sign([bytes(32)])
    return "signature: no audit signer of the tenant signed the checkpoint"


def lose_a_tile(log: Log) -> str:
    del log.tiles[TileAddress(0, 1)]
    return "tile 0/1 is missing or has another length"


def lose_a_bundle(log: Log) -> str:
    del log.tiles[TileAddress(None, 1)]
    return "bundle 1 (leaves 256..511) is missing or malformed"


def seal_twice(log: Log) -> str:
    log.data.append(log.data[5])
    log.seal()
    return f"{log.id(5)} (leaf {SIZE}): appended twice"


def of_another_tenant(log: Log) -> str:
    log.seal(origin="rescind/svc_tnt_other/1")
    return "the checkpoint is of another log: rescind/svc_tnt_other/1"


def no_checkpoint(log: Log) -> str:
    log.note = "rescind\n"
    return "the checkpoint is malformed"


def malformed_entry(log: Log) -> str:
    del log.stored[log.id(3)]["expires"]
    return f"{log.id(3)} (leaf 3): removed"


@pytest.mark.parametrize(
    "tamper",
    [
        change,
        remove,
        insert,
        reorder,
        replace_record_and_entry,
        replace_in_bundle_and_tile,
        replace_up_to_the_top,
        other_signer,
        lose_a_tile,
        lose_a_bundle,
        seal_twice,
        of_another_tenant,
        no_checkpoint,
        malformed_entry,
    ],
)
def test_tampering_is_found(log: Log, tamper: Callable[[Log], str]) -> None:
    """LOG-24, F340a: Verification names what was changed, removed, inserted or reordered."""
    found = tamper(log)
    report, pin = check(log)
    assert found in report.findings
    assert pin is None


def test_a_whole_log_has_no_findings(log: Log) -> None:
    """LOG-24, F340b: Verification finds nothing in a log that nobody tampered with."""
    report, pin = check(log)
    assert (report.findings, report.late, report.pending) == ([], [], [])
    assert (report.size, report.checked, report.expired) == (SIZE, SIZE, 0)
    assert pin == Pin(log.note or "", tuple(log.verifier_keys()))
    for size in (1, 255, 256, 257):
        part = of(list(log.stored.values())[:size])
        assert check(part)[0].findings == []


def rebuild(log: Log) -> str:
    replace_up_to_the_top(log)
    log.seal()
    return f"history before {SIZE} was rewritten"


def roll_back(log: Log) -> str:
    log.stored = {log.id(leaf): log.stored[log.id(leaf)] for leaf in range(400)}
    log.seal(400)
    return f"the log has 400 leaves, smaller than the pinned one of {SIZE}"


def empty(log: Log) -> str:
    log.note = None
    return f"there is no log, smaller than the pinned one of {SIZE}"


def begin_anew(log: Log) -> str:
    log.seal(origin=f"rescind/{TENANT}/2")
    return f"the log is rescind/{TENANT}/2, and the pinned one is {ORIGIN}: a new log started"


def sign_with_another_key(log: Log) -> str:
    log.seed = bytes(32)
    log.seal()
    return "signature: no pinned key signed the checkpoint"


@pytest.mark.parametrize("tamper", [rebuild, roll_back, empty, begin_anew, sign_with_another_key])
def test_a_pin_finds_what_is_consistent_in_itself(log: Log, tamper: Callable[[Log], str]) -> None:
    """LOG-25, F341a: With a pin, verification finds a log that was rebuilt or rolled back."""
    _, pin = check(log)
    assert pin is not None
    found = tamper(log)
    if tamper not in {begin_anew, empty}:
        assert check(log)[0].findings == []
    report, kept = check(log, pin)
    assert found in report.findings
    assert kept is None


@pytest.mark.parametrize("says", ["audit_log/2", "audit_log/3", None])
def test_a_recovery_is_told_from_a_forgery(log: Log, says: str | None) -> None:
    """LOG-25, F575a: A new generation that names its recovery is no finding, and is not pinned.

    Otherwise it is a finding, and in no case the pinned signer counts as another one.
    """
    _, pin = check(log)
    assert pin is not None
    begun = entry(1, START + timedelta(seconds=SIZE)) | {"resource_id": says}
    named = [begun | {"action": "audit_log.start_generation"}] if says else []
    again = of([*log.stored.values(), *named]).seal(origin=f"rescind/{TENANT}/2")
    again.verifier_keys = lambda: [  # type: ignore[method-assign]
        str(NoteKey(f"rescind/{TENANT}/2", NoteKey.parse(each).public_key))
        for each in log.verifier_keys()
    ]
    report, kept = check(again, pin)
    line = f"the log is rescind/{TENANT}/2, and the pinned one is {ORIGIN}: a new log started"
    if says == "audit_log/2":
        told = f"{line} by a recovery ({begun['id']} at {begun['timestamp']})"
        assert (report.findings, report.begun) == ([], [told])
    else:
        assert (report.findings, report.begun) == ([line], [])
    assert kept is None
    assert check(again)[1] is not None


@pytest.mark.parametrize("left", ["signers", "entries", "nothing"])
def test_a_removed_log_is_found_without_a_pin(log: Log, left: str) -> None:
    """LOG-24, F575b: A new auditor finds a removed log by its signers, or by old entries."""
    log.note = None
    if left != "signers":
        log.verifier_keys = list  # type: ignore[method-assign]
    if left != "entries":
        log.stored = {}
    report, pin = check(log)
    assert pin is None
    if left == "signers":
        told = "the log has signers, but no checkpoint: it was truncated or removed"
        assert report.findings == [told]
    elif left == "entries":
        assert len(report.findings) == SIZE
        assert report.findings[0].endswith(": never appended")
    else:
        assert (report.findings, report.notes) == ([], ["The log has no entries yet."])


def test_a_log_that_grew_continues_its_pin(log: Log) -> None:
    """LOG-25, F341b: A log that only grew is consistent with every earlier pin of it."""
    entries = list(log.stored.values())
    for size in (1, 256, SIZE - 1):
        _, pin = check(of(entries[:size]))
        assert pin is not None
        report, kept = check(log, pin)
        assert report.findings == []
        assert kept is not None
        assert kept.checkpoint.size == SIZE


def test_what_is_due_or_expired_is_no_finding(log: Log) -> None:
    """LOG-24, F342a: An expired entry may be absent, and one of the last minutes unsealed."""
    old = entry(0, START - timedelta(hours=1), expires=int(NOW.timestamp()) - 1)
    young = entry(1, NOW - timedelta(seconds=5))
    log = of([old, *log.stored.values()])
    del log.stored[old["id"]]
    log.stored[young["id"]] = young
    report, _ = check(log)
    assert (report.findings, report.expired, report.pending) == ([], 1, [young["id"]])


def test_late_entries_are_listed(log: Log) -> None:
    """LOG-24, F342b: An entry that was sealed a minute after newer ones is listed as late."""
    late, in_time = (entry(0, START + timedelta(seconds=SIZE - back)) for back in (62, 50))
    report, _ = check(of([*log.stored.values(), late, in_time]))
    assert report.findings == []
    assert report.late == [f"{late['id']} (leaf {SIZE}): late"]


def test_a_new_signer_is_trusted_by_its_entry(log: Log) -> None:
    """LOG-25, F343a: A new audit signer is pinned only if a sealed entry names it."""
    _, pin = check(log)
    assert pin is not None
    other = bytes(32)
    public = seeds.public_key(other)
    listed = [*log.verifier_keys(), str(NoteKey(ORIGIN, base64.b64decode(public)))]
    rotation = entry(1, START + timedelta(seconds=SIZE)) | {"action": "audit_log.rotate_key"}
    for details, trusted in (
        ({"public_key": public}, listed),
        ({"public_key": "of another"}, listed[:1]),
    ):
        grown = of([*log.stored.values(), rotation | {"details": details}])
        grown.note = Checkpoint.parse(grown.note or "").sign([SEED, other])
        grown.verifier_keys = lambda: listed  # type: ignore[method-assign]
        report, kept = check(grown, pin)
        assert report.findings == []
        assert kept is not None
        assert [*kept.keys] == trusted
    unsealed = entry(2, NOW) | {"action": "audit_log.rotate_key", "details": {"public_key": public}}
    log.note = Checkpoint.parse(log.note or "").sign([SEED, other])
    log.stored[unsealed["id"]] = unsealed
    log.verifier_keys = lambda: listed  # type: ignore[method-assign]
    _, kept = check(log, pin)
    assert kept == Pin(log.note, pin.keys)


def test_pins_are_files(log: Log, tmp_path: Any) -> None:
    """LOG-25, F343b: A pin, a served checkpoint, or the end of an export is read as it was."""
    _, pin = check(log)
    assert pin is not None
    path = tmp_path / "pin"
    assert Pin.load(path) is None
    last_line = json.dumps({"checkpoint": pin.note})
    for text, expected in (
        (pin.to_text(), pin),
        (pin.note, Pin(pin.note)),
        (last_line, Pin(pin.note)),
    ):
        path.write_text(text)
        assert Pin.load(path) == expected
    for text in ("", "{}", '{"checkpoint": "x", "keys": []}', '{"checkpoint": 1}', "[]", "rescind"):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"."):
            Pin.load(path)
