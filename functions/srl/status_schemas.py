"""The body of the status of the list (SRL-21)."""

from typing import Self

from functions.srl import examples
from shared.operations.changes import srl
from shared.web.fields import MomentOut, ResponseBody, SigningKeyId, example, shown


class ListStatusBody(ResponseBody):
    """How the list in force stands."""

    model_config = example(
        version=2,
        issued_at="2026-11-21T12:00:00Z",
        expires_at="2026-11-21T13:00:00Z",
        count=1,
        key_id=examples.SIGNER["key_id"],
        feed_sequence=17,
        pending=3,
        pending_truncated=False,
        oldest_pending_at="2026-11-21T12:10:04Z",
        next_due_at="2026-11-21T12:11:04Z",
    )

    version: int = shown("Number of the list in force.", minimum=1)
    issued_at: MomentOut = shown("When the list was made.")
    expires_at: MomentOut = shown("When the list expires.")
    count: int = shown("How many warrants are on the list.", minimum=0)
    key_id: SigningKeyId
    feed_sequence: int | None = shown(
        "The newest entry of the feed; null before the first. Authorizers that follow the feed "
        "report the entry that they hold."
    )
    pending: int = shown(
        "How many warrants were revoked, or are not revoked any more, since the list was made. "
        "The list does not say so yet; clients of the feed know of it earlier.",
        minimum=0,
    )
    pending_truncated: bool = shown(
        "Whether more may wait than `pending` says: very many do, or a key was revoked whose "
        "warrants are not counted yet."
    )
    oldest_pending_at: MomentOut | None = shown(
        "Since when the first of them waits; null if none does, or if that is not known."
    )
    next_due_at: MomentOut = shown(
        "By when the schedule begins the next list at the latest, if it runs each minute: a minute "
        "after `oldest_pending_at`, or after half of the list's lifetime. If this has passed by "
        "more than the time that a list takes to make, the schedule is late."
    )

    @classmethod
    def of(cls, status: srl.ListStatus) -> Self:
        """Return the body for a status."""
        head, pending = status.head, status.pending
        return cls(
            version=head.version,
            issued_at=head.issued_at,
            expires_at=head.expires_at,
            count=head.count,
            key_id=head.key_id,
            feed_sequence=status.feed_sequence,
            pending=pending.warrants,
            pending_truncated=pending.is_truncated,
            oldest_pending_at=pending.oldest_at,
            next_due_at=status.next_due_at,
        )
