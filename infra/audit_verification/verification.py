"""Verification of a whole audit log (LOG-24)."""

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise, zip_longest
from typing import Final

from functions.transparency_log.checkpoint import Checkpoint, is_signed_by
from functions.transparency_log.statements import AuditStatement
from infra.audit_verification import tree
from infra.audit_verification.entries import CreatedRecord, Creations, RecordIndex
from infra.audit_verification.source import Pin, Report, Source
from infra.audit_verification.trusted import TrustedLog
from shared.errors import DataCorrupt
from shared.model import revocations
from shared.model.audit.audit_log import AuditAction
from shared.model.audit.witness_policy import NoteKey
from shared.model.items import Item, Value

_ONE: Final = {
    AuditAction.REVOCATION_CREATE,
    AuditAction.REVOCATION_DELETE,
    AuditAction.REVOCATION_EXTEND,
}
_MANY: Final = {
    AuditAction.REVOCATION_CREATE_BATCH,
    AuditAction.REVOCATION_DELETE_BATCH,
    AuditAction.REVOCATION_EXTEND_BATCH,
}


@dataclass(slots=True)
class Statements:
    """The statements of one log generation, and the changes that its entries name.

    `changes` maps a leaf to the shards of its changes. `begun` contains the leaves at which a
    recovery restarted the counters.
    """

    generation: str
    stated: list[tuple[str, AuditStatement]] = field(default_factory=list)
    changes: dict[int, list[int]] = field(default_factory=dict)
    begun: list[int] = field(default_factory=list)

    def collect(self, entries: Iterable[Item], leaf: Callable[[Item], int]) -> Iterator[Item]:
        """Yield the entries, and collect their statements and changes.

        A malformed entry contributes neither.
        """
        for each in entries:
            with suppress(DataCorrupt, KeyError, ValueError):
                self._add(each, leaf(each))
            yield each

    def compare(self, is_absent: Callable[[int], bool], report: Report) -> None:
        """Report shards with a change count between two statements that differs from the entries.

        An interval is skipped if `is_absent` reports that one of its entries has expired.
        """
        ordered = sorted(self.stated, key=lambda each: each[1].size)
        for (first_id, first), (second_id, second) in pairwise(ordered):
            leaves = range(first.size, second.size)
            names = f"{first_id} and {second_id}"
            if any(each in leaves for each in self.begun) or any(map(is_absent, leaves)):
                report.notes.append(f"not compared: the statements {names}")
                continue
            report.statements += 1
            named = Counter(shard for leaf in leaves for shard in self.changes.get(leaf, ()))
            counts = zip_longest(first.changes, second.changes, fillvalue=0)
            for shard, (first_count, second_count) in enumerate(counts):
                if (counted := second_count - first_count) != named[shard]:
                    report.findings.append(
                        f"shard {shard}: {counted} changes were counted between the statements "
                        f"{names}, but entries name {named[shard]}"
                    )

    def _add(self, entry: Item, leaf: int) -> None:
        action, details = entry.get("action"), _map(entry.get("details"))
        if action == AuditAction.AUDIT_LOG_STATEMENT:
            if str(details.get("generation")) != self.generation:
                return
            if details.get("changes") is None:
                self.begun.append(leaf)
            else:
                self.stated.append((str(entry["id"]), AuditStatement.from_item(details)))
        elif action in _ONE:
            self.changes[leaf] = [_shard(details)]
        elif action in _MANY:
            batch = details["revocations"]
            self.changes[leaf] = [
                _shard(_map(each)) for each in (batch if isinstance(batch, list) else [])
            ]
        elif action == AuditAction.REVOCATION_REPAIR:
            self.changes[leaf] = [int(str(details["shard"]))]


def _map(value: Value) -> Item:
    if not isinstance(value, dict):
        raise DataCorrupt("an entry has no details")
    return value


def _shard(details: Item) -> int:
    return revocations.shard_number(str(details["warrant_id"]))


def verify(
    source: Source,
    tenant_id: str,
    *,
    pins: list[Pin],
    now: Callable[[], datetime],
    records: Iterable[CreatedRecord] | None = None,
    trusted_log: TrustedLog | None = None,
) -> tuple[Report, Pin | None]:
    """Verify the audit log of a tenant, and that it extends all `pins`.

    If `records` are given, an entry must have created each record, and the statements of the log
    must agree with its entries. With `trusted_log`, the keys come from the trust document. The log
    must then also extend the log anchor and the cosigned checkpoint.

    Also returns the pin to save. It is None if there is a finding, if a new log generation started,
    or if no entry was appended yet.
    """
    report = Report()
    # Read the keys first, because the first signer is stored together with the first checkpoint.
    keys = [NoteKey.parse(each) for each in source.verifier_keys()]
    note = source.checkpoint()
    checkpoints = [each.checkpoint for each in pins]
    if trusted_log is not None:
        trusted_log.check_times(now(), report)
        checkpoints += trusted_log.anchors
    if note is None:
        _check_absence(source, keys, checkpoints, now(), report)
        return report, None
    stated = _parse_statement(note, tenant_id, report)
    if stated is None:
        return report, None
    if trusted_log is not None:
        # The trust document supersedes pinned keys.
        keys, pins = trusted_log.keys(stated.origin), []
    signed = _signed_by(note, stated.origin, keys, pins, report)
    report.origin, report.size = stated.origin, stated.size
    leaves = tree.read_leaves(source, stated, report)
    index = RecordIndex(leaves, report)
    # List records before the entries, so the entries include the creation of every listed record.
    listed, creations = list(records or ()), Creations()
    statements = Statements(stated.origin.rpartition("/")[2])
    new_keys, recoveries = set[str | None](), dict[str, str]()
    entries = index.check_entries(creations.collect(source.entries()), now())
    for entry in statements.collect(entries, index.leaf):
        new_keys.add(_introduced_key(entry))
        if entry.get("action") == "audit_log.start_generation":
            recovery = " at ".join(str(entry.get(name)) for name in ("id", "timestamp"))
            recoveries[str(entry.get("resource_id"))] = recovery
    for each in checkpoints:
        _check_pin(leaves, stated, each, recoveries, report)
    if trusted_log is not None:
        cosigned = source.read_cosigned_checkpoint()
        trusted_log.check_witnessed(cosigned, leaves, stated, now(), report)
    index.find_removed(now())
    creations.compare(listed, report)
    if records is not None:
        statements.compare(index.is_absent, report)
    is_continued = report.is_whole and not report.begun
    return report, Pin(note, _trusted_keys(signed, pins, new_keys)) if is_continued else None


def _introduced_key(entry: Item) -> str | None:
    """Return the base64 public key of an audit signer that an entry introduces, or None."""
    details = entry.get("details")
    if entry.get("action") != "audit_log.rotate_key" or not isinstance(details, dict):
        return None
    return str(details.get("public_key"))


def _trusted_keys(
    keys: list[NoteKey], pins: list[Pin], new_keys: set[str | None]
) -> tuple[str, ...]:
    """Return the signing keys to trust from now on.

    If no key was trusted before, all signing keys are returned. Otherwise, only keys that were
    trusted, or that an appended entry introduces.
    """
    pinned = {each for pin in pins for each in pin.keys}
    return tuple(
        str(key)
        for key in keys
        if not pinned or str(key) in pinned or base64.b64encode(key.public_key).decode() in new_keys
    )


def _check_absence(
    source: Source, keys: list[NoteKey], pins: list[Checkpoint], now: datetime, report: Report
) -> None:
    """Report evidence of a missing log: a pin, a document, a signer, or an older entry."""
    if pins:
        size = max(each.size for each in pins)
        report.findings.append(f"there is no log, smaller than the pinned one of {size}")
    if keys:
        report.findings.append(
            "the log has signers, but no checkpoint: it was truncated or removed"
        )
    for _ in RecordIndex(tree.Leaves(), report).check_entries(source.entries(), now):
        pass
    if source.refuses() and report.is_whole:
        report.findings.append("the service refuses to show the log: look at the service's own log")
    elif report.is_whole:
        report.notes.append("The log has no entries yet.")


def _parse_statement(note: str, tenant_id: str, report: Report) -> Checkpoint | None:
    try:
        stated = Checkpoint.parse(note)
    except ValueError:
        report.findings.append("the checkpoint is malformed")
        return None
    if not stated.origin.startswith(f"rescind/{tenant_id}/"):
        report.findings.append(f"the checkpoint is of another log: {stated.origin}")
        return None
    return stated


def _signed_by(
    note: str, origin: str, keys: list[NoteKey], pins: list[Pin], report: Report
) -> list[NoteKey]:
    """Return the listed keys that signed the checkpoint. A trusted key must be among them."""
    signed = [key for key in keys if is_signed_by(note, key)]
    for pin in pins:
        # A signer continues in the next generation, under the name of its origin.
        trusted = [NoteKey(origin, NoteKey.parse(each).public_key) for each in pin.keys]
        if trusted and not any(is_signed_by(note, key) for key in trusted):
            report.findings.append("signature: no pinned key signed the checkpoint")
    if not signed:
        report.findings.append("signature: no audit signer of the tenant signed the checkpoint")
    return signed


def _check_pin(
    leaves: tree.Leaves, log: Checkpoint, pin: Checkpoint, entries: dict[str, str], report: Report
) -> None:
    """Check that the log extends a pin, or that a recovery started a new generation (LOG-10).

    `entries` maps the resource of each new generation to the entry of its recovery.
    """
    if pin.origin == log.origin:
        tree.check_history(leaves, log, pin, report)
        return
    line = f"the log is {log.origin}, and the pinned one is {pin.origin}: a new log started"
    tenant, _, generation = log.origin.rpartition("/")
    pinned_tenant, _, pinned = pin.origin.rpartition("/")
    entry = entries.get(f"audit_log/{generation}")
    is_later = generation.isdecimal() and pinned.isdecimal() and int(generation) > int(pinned)
    if tenant == pinned_tenant and is_later and entry is not None:
        report.begun.append(f"{line} by a recovery ({entry})")
    else:
        report.findings.append(line)
