"""Verification of a whole audit log (LOG-24)."""

import base64
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from infra.audit_verification import tree
from infra.audit_verification.creations import Created, Creations
from infra.audit_verification.entries import Ledger
from infra.audit_verification.pins import Pin
from infra.audit_verification.report import Report
from infra.audit_verification.source import Source
from infra.audit_verification.statements import Statements
from shared.model.items import Item
from shared.model.sealed_log.checkpoint import Checkpoint, Key, is_signed_by

_ROTATION: Final = "audit_log.rotate_key"


def verify(
    source: Source,
    tenant_id: str,
    *,
    pins: list[Pin],
    now: Callable[[], datetime],
    records: Iterable[Created] | None = None,
) -> tuple[Report, Pin | None]:
    """Verify the audit log of a tenant, and that it continues what the `pins` say.

    If `records` are given, each must have been created by an entry, and the statements of the log
    must agree with its entries.

    Also returns the pin to keep: None if there is a finding, or nothing is sealed yet.
    """
    report = Report()
    note = source.checkpoint()
    if note is None:
        _check_absence(pins, report)
        return report, None
    stated = _stated(note, tenant_id, report)
    if stated is None:
        return report, None
    signed = _signed_by(note, source, pins, report)
    report.origin, report.size = stated.origin, stated.size
    leaves = tree.read(source, stated, report)
    for pin in pins:
        _check_pin(leaves, stated, pin.checkpoint, report)
    ledger = Ledger(leaves, report)
    # Before the entries: what is created meanwhile has its entry among them.
    listed, creations = list(records or ()), Creations()
    statements = Statements(stated.origin.rpartition("/")[2])
    entries = ledger.sealed(creations.noted(source.entries()), now())
    named = {_named(each) for each in statements.noted(entries, ledger.leaf)}
    ledger.find_removed(now())
    creations.compare(listed, report)
    if records is not None:
        statements.compare(ledger.is_absent, report)
    return report, Pin(note, _trusted(signed, pins, named)) if report.is_whole else None


def _named(item: Item) -> str | None:
    """Return the public key of the audit signer that an entry introduces, in base64, or None."""
    details = item.get("details")
    if item.get("action") != _ROTATION or not isinstance(details, dict):
        return None
    return str(details.get("public_key"))


def _trusted(signed: list[Key], pins: list[Pin], named: set[str | None]) -> tuple[str, ...]:
    """Return which of the keys that signed are to be trusted from now on.

    These are all if none was trusted before; else those that were, and those that a sealed entry
    names.
    """
    before = {each for pin in pins for each in pin.keys}
    return tuple(
        str(key)
        for key in signed
        if not before or str(key) in before or base64.b64encode(key.public_key).decode() in named
    )


def _check_absence(pins: list[Pin], report: Report) -> None:
    if pins:
        size = max(pin.checkpoint.size for pin in pins)
        report.findings.append(f"there is no log, smaller than the pinned one of {size}")
    else:
        report.notes.append("Nothing is sealed yet.")


def _stated(note: str, tenant_id: str, report: Report) -> Checkpoint | None:
    try:
        stated = Checkpoint.parse(note)
    except ValueError:
        report.findings.append("the checkpoint is malformed")
        return None
    if not stated.origin.startswith(f"rescind/{tenant_id}/"):
        report.findings.append(f"the checkpoint is of another log: {stated.origin}")
        return None
    return stated


def _signed_by(note: str, source: Source, pins: list[Pin], report: Report) -> list[Key]:
    """Return the listed keys that signed the checkpoint; one that is trusted must have."""
    listed = [Key.parse(each) for each in source.verifier_keys()]
    signed = [key for key in listed if is_signed_by(note, key)]
    for pin in pins:
        trusted = [Key.parse(each) for each in pin.keys]
        if trusted and not any(is_signed_by(note, key) for key in trusted):
            report.findings.append("signature: no pinned key signed the checkpoint")
    if not signed:
        report.findings.append("signature: no audit signer of the tenant signed the checkpoint")
    return signed


def _check_pin(leaves: tree.Leaves, stated: Checkpoint, pinned: Checkpoint, report: Report) -> None:
    if pinned.origin == stated.origin:
        tree.check_history(leaves, stated, pinned, report)
    else:
        report.findings.append(
            f"the log is {stated.origin}, and the pinned one is {pinned.origin}: it began anew"
        )
