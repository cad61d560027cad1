"""Check a transparency log against the tenant's trust document (LOG-34)."""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from functions.transparency_log import witnesses
from functions.transparency_log.checkpoint import Checkpoint
from infra.audit_verification.source import Report
from infra.audit_verification.tree import Leaves, check_history
from shared.authorizer.formats.trust import KeyUse, TrustDocument
from shared.model import times
from shared.model.audit.records import EntryCommitment
from shared.model.audit.witness_policy import COSIGNATURE, NoteKey

# The maximum age of cosignatures, the maximum clock skew of witnesses, and the age after which a
# quorum must have cosigned an entry.
FRESH: Final = timedelta(hours=24)
_AHEAD: Final = timedelta(seconds=60)
_SEEN: Final = timedelta(hours=1)


class TrustedLog:
    """A trust document, applied to the log. Each check adds its findings to the report."""

    def __init__(self, document: TrustDocument) -> None:
        self._document = document

    def keys(self, origin: str) -> list[NoteKey]:
        """Return the keys that sign checkpoints of this origin."""
        return [NoteKey(origin, each) for each in self._document.keys_for_use(KeyUse.LOG)]

    @property
    def anchors(self) -> list[Checkpoint]:
        """The log anchor of the document, if it has one."""
        log = self._document.log
        return [] if log is None else [Checkpoint(log.origin, log.size, log.root)]

    def check_times(self, now: datetime, report: Report) -> None:
        """Check that the document has not expired."""
        if now >= self._document.expires_at:
            expired = times.format_utc(self._document.expires_at)
            report.findings.append(f"the trust document expired at {expired}: renew it")

    def check_witnessed(
        self, note: str | None, leaves: Leaves, stated: Checkpoint, now: datetime, report: Report
    ) -> None:
        """Check that a quorum of witnesses recently cosigned a part of the log.

        `note` is the cosigned checkpoint of the service, or None.
        """
        policy = self._document.witnesses
        if policy is None or not policy.quorum:
            return
        try:
            witnessed = None if note is None else Checkpoint.parse(note)
        except ValueError:
            witnessed = None
        if note is None or witnessed is None or witnessed.origin != stated.origin:
            report.findings.append("no checkpoint of this log has cosignatures of witnesses")
            return
        keys = []
        for each in policy.keys:
            with suppress(ValueError):
                keys.append(NoteKey.parse(each, COSIGNATURE))
        at = witnesses.agreed_at(note, keys, policy.quorum, now + _AHEAD)
        if at is None:
            report.findings.append(f"fewer than {policy.quorum} witnesses signed the checkpoint")
        elif now - at > FRESH:
            time = times.format_utc(at)
            report.findings.append(f"the witnesses last signed a checkpoint at {time}")
        else:
            report.witnessed = witnessed.size
            check_history(leaves, stated, witnessed, report)
            # The witnesses must have cosigned all leaves except the newest ones.
            for index, data in enumerate(leaves.data[witnessed.size :], witnessed.size):
                if EntryCommitment.parse(data).made_ms < (now - _SEEN).timestamp() * 1000:
                    report.findings.append(
                        f"leaf {index} is an hour old, and no quorum has signed it"
                    )
                    break
