"""A client of the feed at the level of operations, which checks all that a client checks."""

import gzip

from shared.authorizer.answers import FeedResponse
from shared.authorizer.policy import BaseRequired
from shared.authorizer.state import FeedState, StaticVerifier, advance
from shared.model.feed import FeedHead
from shared.model.lists.signers import SrlSigner, signers_partition
from shared.operations.changes import feed
from shared.operations.lists import in_force
from shared.ports import Ports
from tests.kit.tenants import Tenant


class Follower:
    """It keeps its state from poll to poll; `bases` counts how often it started from a list.

    It begins with `state`, if one is given.
    """

    def __init__(self, tenant: Tenant, state: FeedState | None = None) -> None:
        self._tenant = tenant
        self.state = state
        self.bases = 0

    def poll(self, ports: Ports) -> "Follower":
        """Go on to the head; raises `ResponseRejectedError` as a client does."""
        after = self.state.sequence if self.state else None
        news = feed.news(ports, self._tenant.operator, after_sequence=after)
        answer = FeedResponse(news.head.payload, news.head.signature, tuple(news.entries))
        try:
            self.state = self._advanced(ports, answer, None)
        except BaseRequired as needed:
            stored = feed.base(ports, self._tenant.operator, version=needed.base.version)
            packed = feed.base_body(ports, self._tenant.operator, of=stored)
            self.state = self._advanced(ports, answer, gzip.decompress(packed))
            self.bases += 1
        return self

    def _advanced(self, ports: Ports, answer: FeedResponse, base: bytes | None) -> FeedState:
        rows = ports.store.query(signers_partition(self._tenant.id))
        keys = [SrlSigner.from_item(row.item).public_bytes for row in rows]
        trusted = StaticVerifier(self._tenant.id, keys)
        return advance(self.state, answer, base=base, now=ports.now(), verifier=trusted)

    @property
    def refuses(self) -> set[str]:
        """The warrants that it refuses."""
        return self.state.revoked.ids() if self.state else set()


def current(ports: Ports, tenant_id: str) -> FeedHead:
    """The head of the feed, which there must be."""
    head = in_force.read_feed_head(ports, tenant_id)
    assert head is not None
    return head
