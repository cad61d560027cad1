"""A stock authorizer at the level of operations: the rules by which it accepts a native list."""

import base64
import json
from dataclasses import dataclass, field
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from functions.stock_authorizers import operations as native_list
from shared.ports import Ports
from tests.kit.tenants import Tenant


def fetch(ports: Ports, tenant: Tenant) -> bytes:
    """The response body of the list endpoint."""
    form, _ = native_list.current(ports, tenant.operator)
    return native_list.body(ports, tenant.operator, of=form)


@dataclass
class Stock:
    """It pins the key that the service says, and keeps the newest list that it accepted.

    Written by the rules of the other project, and not by our code.
    """

    public_key: bytes
    version: int = 0
    ids: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, ports: Ports, tenant: Tenant) -> "Stock":
        return cls(native_list.signer(ports, tenant.operator).public_bytes)

    def accept(self, body: bytes) -> "Stock":
        """Take a list. Raises `AssertionError` or `InvalidSignature` if it must not be taken."""
        answer: dict[str, Any] = json.loads(body)
        listed = base64.b64decode(answer["srl"], validate=True)
        members = cbor2.loads(listed)
        assert list(members) == ["payload", "signature"]
        payload, (algorithm, signature) = members["payload"], members["signature"]
        assert list(payload) == ["revoked_ids", "version", "issued_at", "issuer"]
        assert (algorithm, payload["issuer"]) == (1, [1, self.public_key])
        # The signature covers the payload as another encoder writes it.
        signed = b"tenuo-warrant-v1tenuo-srl-v1" + cbor2.dumps(payload)
        Ed25519PublicKey.from_public_bytes(self.public_key).verify(signature, signed)
        version, ids = payload["version"], set(payload["revoked_ids"])
        assert len(ids) == len(payload["revoked_ids"])
        assert payload["issued_at"].endswith("Z")
        assert answer == {"srl": answer["srl"], "version": version}
        assert version > 0
        assert version >= self.version, "rollback"
        assert version > self.version or ids == self.ids, "changed at one version"
        self.version, self.ids = version, ids
        return self
