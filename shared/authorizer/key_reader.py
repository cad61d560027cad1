"""Reads the signing keys that a head of the feed names (TRUST-9, TRUST-15)."""

import time
from collections.abc import Callable
from typing import Final

from . import events
from .answers import NoAnswer
from .formats import wire
from .formats.documents import NotTrusted
from .formats.signing_keys import PublishedKeys
from .formats.trust import TrustDocument
from .transport import Transport
from .trust import Bundle

PATH: Final = "/v1/trust/keys"

# The most bytes that are fetched, whatever a head promises: some 300,000 keys.
BYTES_MAX: Final = 64 * 2**20

# Seconds until they are asked for again if that fails.
_SECONDS: Final = 5.0


class KeyReader:
    """Fetches signing keys. It belongs to the thread of its transport. `emit` gets each failure."""

    def __init__(self, transport: Transport, emit: Callable[[events.Event], None]) -> None:
        self._transport = transport
        self._emit = emit
        self._due = time.monotonic()

    def read(
        self, head: wire.SignedHead, document: TrustDocument, held: Bundle | None
    ) -> Bundle | None:
        """Return the keys that a head names, by the document that vouches for it.

        They are those that are `held`, or fetched. None if that fails, and for some seconds then.
        """
        if head.keys is None:
            return None
        if held and (held.reference, held.covered) == (head.keys, document.signing_keys):
            return held
        if time.monotonic() < self._due:
            return None
        try:
            return self._fetched(head.keys, document, held)
        except NotTrusted as refused:
            self._emit(events.Refused(refused.reason.value))
        except NoAnswer as error:
            self._emit(events.Failed(f"the signing keys cannot be read: {error}", _SECONDS))
        self._due = time.monotonic() + _SECONDS
        return None

    def _fetched(
        self, named: wire.Reference, document: TrustDocument, held: Bundle | None
    ) -> Bundle:
        limit = min(named.number, BYTES_MAX)
        blob = self._transport.get_far(f"{PATH}/{named.sha256.hex()}", limit=limit)
        keys = PublishedKeys.opened(blob, named, tenant_id=document.tenant_id)
        is_proven = held is not None and held.covered == document.signing_keys
        keys.check(
            document.signing_keys, proven=held.published.proven if held and is_proven else ()
        )
        return Bundle.of(keys, named, document.signing_keys)
