"""What an authorizer with a key sends: registrations and reports that it signs (TRUST-10)."""

import time
from datetime import datetime
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from functions.authorizers.heartbeats import chains_of
from functions.authorizers.records import Heartbeat
from shared.authorizer.formats.members import to_base64
from shared.authorizer.formats.proofs import SignedRegistration, SignedReport
from shared.model import feed
from shared.ports import Ports

KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes([11]) * 32)


def prove(stated: SignedRegistration, key: Ed25519PrivateKey = KEY) -> dict[str, str]:
    """The proof of a registration, as it is sent."""
    payload = stated.encode()
    signature = key.sign(SignedRegistration.signed_part(payload))
    return {"payload": to_base64(payload), "signature": to_base64(signature)}


def sign(stated: SignedReport, key: Ed25519PrivateKey = KEY) -> dict[str, str]:
    """The members of a heartbeat."""
    payload = stated.encode()
    signature = key.sign(SignedReport.signed_part(payload))
    return {"report": to_base64(payload), "signature": to_base64(signature)}


def registration(tenant_id: str, name: str, now: datetime, **members: Any) -> dict[str, Any]:
    """The body of a registration under this name."""
    stated = SignedRegistration(tenant_id, name, KEY.public_key().public_bytes_raw(), now)
    return {"name": name, "proof": prove(stated), **members}


def report(
    ports: Ports | None,
    tenant_id: str,
    authorizer_id: str,
    *,
    sequence: int | None = None,
    chain: str | None = None,
    **changes: Any,
) -> dict[str, str]:
    """A signed heartbeat; `chain`, in hex, is that of the feed at `sequence`, if it has one."""
    if ports and sequence is not None and chain is None:
        head = ports.store.get(feed.head_address(tenant_id))
        known = chains_of(ports, tenant_id, head, [Heartbeat(sequence, "ask")]).known
        chain = known.get(sequence, bytes(32)).hex()
    usual: dict[str, Any] = {
        # It rises, also in a process that begins at the same time of the tests.
        "number": time.time_ns() // 1000,
        "trust": 0,
        "verified_at": None,
        "max_staleness": None,
        "fail_open": False,
    }
    stated = SignedReport(
        tenant_id,
        authorizer_id,
        sequence=sequence,
        chain=bytes.fromhex(chain or ""),
        **usual | changes,
    )
    return sign(stated)
