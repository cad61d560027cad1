"""Signed decisions of stock authorizers, which are verified and counted (NATIVE-7)."""

import base64
import logging
from collections.abc import Sequence
from typing import NamedTuple

from shared import logs
from shared.errors import NotFound
from shared.model.authorizers import Authorizer, authorizers
from shared.model.callers import Caller, Scope
from shared.model.identifiers import AUTHORIZER, is_identifier
from shared.model.srl import native
from shared.operations.rules.operation import operation
from shared.ports import Ports

_log = logging.getLogger(__name__)

_SIGNATURE_BYTES = 64


class SignedEvent(NamedTuple):
    """The signed bytes of an event and their signature, as the caller wrote them: base64."""

    signing_payload: object
    signature: object


class Counted(NamedTuple):
    """How many events of a batch the registered key signed, and how many it did not."""

    verified: int
    refused: int


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def count(
    ports: Ports, caller: Caller, *, authorizer_id: str, events: Sequence[SignedEvent]
) -> Counted:
    """Count the events that the authorizer signed with its registered key. Nothing is stored.

    If its registration has ended, its key is not known, and no event verifies. Raises `NotFound` if
    another caller registered it; `Corrupt`, `Unavailable`.
    """
    if not is_identifier(authorizer_id, kind=AUTHORIZER):
        raise NotFound
    item = ports.store.get(authorizers(caller.tenant_id).address(authorizer_id))
    key = b""
    if item is not None:
        found = Authorizer.from_item(item)
        if found.owner != caller.identity:
            raise NotFound
        key = bytes.fromhex(found.public_key)
    verified = sum(_verifies(each, key) for each in events) if key else 0
    counted = Counted(verified, len(events) - verified)
    metrics = {"EventsVerified": counted.verified, "EventsRefused": counted.refused}
    line = logs.fields(tenant_id=caller.tenant_id, authorizer_id=authorizer_id, metrics=metrics)
    _log.info("events of a stock authorizer", extra=line)
    return counted


def _verifies(event: SignedEvent, public_key: bytes) -> bool:
    payload, signature = _decoded(event.signing_payload), _decoded(event.signature)
    if payload is None or signature is None or len(signature) != _SIGNATURE_BYTES:
        return False
    return native.is_event_signed(payload, signature, public_key=public_key)


def _decoded(value: object) -> bytes | None:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except ValueError:
        return None
