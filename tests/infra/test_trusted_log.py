"""What a verifier with the pin of the roots demands of the sealed log (LOG-34)."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import pytest

from functions.transparency_log import witnesses
from functions.transparency_log.checkpoint import Checkpoint
from functions.transparency_log.merkle import NOTHING
from infra.audit_verification.source import Pin, Report
from infra.audit_verification.trusted import TrustedLog
from infra.audit_verification.verification import verify
from shared.authorizer.formats.trust import (
    DocumentSigner,
    KeyUse,
    LogAnchor,
    RootSet,
    TrustDocument,
    Witnesses,
)
from shared.authorizer.formats.wire import FeedPosition
from shared.model.audit import records
from tests.kit.sealed_copies import NOW, ORIGIN, SEED, SIZE, START, TENANT, Log, entry

THIEF: Final = bytes(range(1, 33))
WITNESSES: Final = [bytes([each]) * 32 for each in (1, 2, 3)]
NAMES: Final = [f"w{each[0]}.example" for each in WITNESSES]
PUBLIC: Final = witnesses.cosigner("", seed=SEED).public_key


def stated(log: Log, size: int) -> Checkpoint:
    edge, _ = NOTHING.append([records.leaf(each) for each in log.data[:size]])
    return Checkpoint(ORIGIN, size, edge.root())


def document(
    anchor: Checkpoint | None = None, quorum: int | None = None, keys: tuple[bytes, ...] = (PUBLIC,)
) -> TrustDocument:
    """A document that names these keys, a checkpoint, and three witnesses."""
    names = [
        str(witnesses.cosigner(*each[:1], seed=each[1]))
        for each in zip(NAMES, WITNESSES, strict=True)
    ]
    return TrustDocument(
        TENANT,
        1,
        START,
        NOW + timedelta(days=10),
        RootSet((bytes(range(2, 34)),), 1),
        tuple(DocumentSigner(each, (KeyUse.LOG,)) for each in keys),
        FeedPosition(0, bytes(32)),
        None if anchor is None else LogAnchor(anchor.origin, anchor.size, anchor.root),
        None if quorum is None else Witnesses(tuple(sorted(names)), quorum),
    )


def witnessed(log: Log, size: int, number: int, at: datetime = NOW) -> str:
    """A checkpoint of the log, cosigned by as many witnesses."""
    note = stated(log, size).sign([SEED])
    pairs = list(zip(NAMES, WITNESSES, strict=True))[:number]
    return note + "".join(witnesses.cosign(note, name, at, seed=seed) for name, seed in pairs)


def checked(log: Log, trusted: TrustDocument, *pins: Pin, now: datetime = NOW) -> Report:
    report, pin = verify(
        log, TENANT, pins=list(pins), now=lambda: now, trusted_log=TrustedLog(trusted)
    )
    assert (pin is None) == bool(report.findings or report.begun or log.note is None)
    return report


def test_a_document_vouches_for_the_log(log: Log) -> None:
    """LOG-34, F811a: A log that a named key signed, and that extends the anchor, is whole."""
    for size in (0, 1, 300, SIZE):
        assert checked(log, document(stated(log, size))).is_whole
    assert checked(log, document()).is_whole


def test_another_signer_is_not_believed(log: Log) -> None:
    """LOG-34, F811b: A key that the service lists, and the document does not, signs nothing.

    A key that was pinned before is not needed any more.
    """
    log.seed = THIEF
    log.seal()
    report = checked(log, document())
    assert report.findings == ["signature: no audit signer of the tenant signed the checkpoint"]
    thief = witnesses.cosigner("", seed=THIEF).public_key
    old = Pin(stated(log, 5).sign([SEED]), (str(TrustedLog(document()).keys(ORIGIN)[0]),))
    assert checked(log, document(keys=(thief,)), old).is_whole


def rewritten(log: Log) -> None:
    log.data[10] = log.data[10][:-1] + bytes([log.data[10][-1] ^ 1])
    log.seal()


def cut(log: Log) -> None:
    log.seal(200)


def another(log: Log) -> None:
    log.seal(origin=ORIGIN[:-1] + "2")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (rewritten, "history before 300 was rewritten"),
        (cut, "the log has 200 leaves, smaller than the pinned one of 300"),
        (another, "a new log started"),
    ],
)
def test_a_new_auditor_begins_from_the_document(
    log: Log, spoil: Callable[[Log], None], told: str
) -> None:
    """LOG-34, F811c: Without any pin, a log that was rewritten below the anchor is told from it."""
    trusted = document(stated(log, 300))
    spoil(log)
    assert [each for each in checked(log, trusted).findings if told in each]


def test_a_log_that_is_gone_is_missed(log: Log) -> None:
    """LOG-34, F811d: If there is no checkpoint, the document still says that there was a log."""
    trusted, log.note = document(stated(log, 300)), None
    log.stored = {}
    told = "there is no log, smaller than the pinned one of 300"
    assert told in checked(log, trusted).findings


def test_a_document_that_has_expired_vouches_for_nothing(log: Log) -> None:
    """LOG-34, F811e: After its end, the document is a finding."""
    end = document().expires_at
    assert checked(log, document(), now=end - timedelta(seconds=1)).is_whole
    assert "the trust document expired" in checked(log, document(), now=end).findings[0]


def test_a_quorum_is_demanded(log: Log) -> None:
    """LOG-34, F812a: If the document names witnesses, so many of them signed the log, lately."""
    log.signed_by_witnesses = witnessed(log, SIZE, 2)
    assert checked(log, document(quorum=2)).witnessed == SIZE
    assert checked(log, document(quorum=2)).is_whole
    assert checked(log, document(quorum=0)).is_whole
    (told,) = checked(log, document(quorum=3)).findings
    assert told == "fewer than 3 witnesses signed the checkpoint"


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda _: None, "no checkpoint of this log has cosignatures"),
        (lambda _: "nothing", "no checkpoint of this log has cosignatures"),
        (
            lambda log: witnessed(log, SIZE, 2).replace(ORIGIN, ORIGIN[:-1] + "2"),
            "no checkpoint of this log has cosignatures",
        ),
        (
            lambda log: (
                stated(log, SIZE).sign([SEED])
                + 2 * witnesses.cosign(log.note, NAMES[0], NOW, seed=WITNESSES[0])
            ),
            "fewer than 2 witnesses signed",
        ),
        (lambda log: witnessed(log, SIZE, 3, NOW + timedelta(hours=1)), "fewer than 2 witnesses"),
        (
            lambda log: witnessed(log, SIZE, 3, NOW - timedelta(hours=25)),
            "the witnesses last signed a checkpoint at",
        ),
        (lambda log: witnessed(log, 200, 3), "leaf 200 is an hour old, and no quorum"),
    ],
)
def test_other_cosignatures_are_no_quorum(
    log: Log, spoil: Callable[[Log], str | None], told: str
) -> None:
    """LOG-34, F812b: Cosignatures of one witness, of another log or time, or of less, are none."""
    log.signed_by_witnesses = spoil(log)
    assert told in checked(log, document(quorum=2)).findings[0]


def test_the_newest_leaves_may_be_unsigned(log: Log) -> None:
    """LOG-34, F812c: Witnesses sign a little later, so the last entries may be without them."""
    made = entry(SIZE, NOW - timedelta(minutes=5))
    log.stored[made["id"]] = made
    log.data.append(records.EntryCommitment.of(made).data)
    log.seal()
    log.signed_by_witnesses = witnessed(log, SIZE, 2)
    assert checked(log, document(quorum=2)).is_whole


def test_a_fork_differs_from_what_witnesses_signed(log: Log) -> None:
    """LOG-34, F812d: A log that its signer rebuilt is not the one that the witnesses signed."""
    log.signed_by_witnesses = witnessed(log, 300, 2)
    rewritten(log)
    report = checked(log, document(quorum=2))
    assert "history before 300 was rewritten" in report.findings


def test_a_witness_of_a_later_format_is_not_counted(log: Log) -> None:
    """LOG-34, F812e: A verifier key of another type, as of ML-DSA, counts as no witness."""
    log.signed_by_witnesses = witnessed(log, SIZE, 2)
    trusted = document(quorum=2)
    assert trusted.witnesses
    later = Witnesses(("a.example+00000000+BgAA", *trusted.witnesses.keys), 2)
    assert checked(log, replace(trusted, witnesses=later)).is_whole
