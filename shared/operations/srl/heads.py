"""Which list of a tenant is in force, and when the one after it is issued."""

import logging
from datetime import datetime

from shared import logs
from shared.errors import Corrupt
from shared.model import times
from shared.model.srl.head import Head, head_address
from shared.ports import Ports

_log = logging.getLogger(__name__)


def current(ports: Ports, tenant_id: str) -> Head:
    """The head of the tenant: which list is in force. Raises `Corrupt` if there is none."""
    item = ports.store.get(head_address(tenant_id))
    if item is None:
        raise Corrupt("a tenant has no published list")
    return Head.from_item(item)


def next_issue_time(ports: Ports, tenant_id: str, head: Head) -> datetime:
    """When the list after that of `head` is issued, if it is made now (docs/adr/0020)."""
    now = ports.now()
    if not head.is_ahead(now):
        return times.whole(max(now, head.issued_at))
    # One of two clocks is wrong. To go on from the list's would keep every later list invalid.
    _log.error(
        "the list in force was issued in the future, at %s; the next one is issued by this clock",
        times.text(head.issued_at),
        extra=logs.fields(tenant_id=tenant_id, metrics={"HeadInFuture": 1}),
    )
    return times.whole(now)
