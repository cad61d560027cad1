"""The state of a list: data that is not in the list, for the next list and for a restore.

It is stored beside its list and signed by the same signer (OPS-8, docs/adr/0024).
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import cbor2
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from shared.errors import Corrupt
from shared.model import seeds, times
from shared.model.sealed_log.kept import Kept
from shared.model.srl.signers import ListSigner
from shared.model.srl.tombstones import Tombstones

# The payload of a list is a CBOR map, which cannot begin with this. So no state passes for a list.
PREFIX: Final = b"rescind-srl-state-v1\n"
_SIGNATURE_BYTES: Final = 64


class NotSigned(Corrupt):
    """A state whose signature is missing, or made by another key."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of one version of a tenant's list.

    `ends` has the known ends of listed warrants, as RFC 3339 text in UTC. `signers` are the revoked
    signers whose warrants are listed. `list_signers` are the tenant's list signers, without the
    archived ones and without seeds. The list covers the entries of the feed up to `sequence`. `log`
    is what the sealed log of the tenant stated before.
    """

    tenant_id: str
    version: int
    issued_at: datetime
    ends: Mapping[str, str] = field(default_factory=dict)
    signers: tuple[str, ...] = ()
    list_signers: tuple[ListSigner, ...] = ()
    tombstones: Tombstones = field(default_factory=Tombstones)
    sequence: int = 0
    log: Kept | None = None

    def sign(self, *, seed: bytes) -> bytes:
        """Return the blob: the Ed25519 signature (64 bytes), the prefix, the state as CBOR.

        The signature covers everything after it.
        """
        signed = PREFIX + cbor2.dumps(self._members(), canonical=True)
        return base64.b64decode(seeds.sign(signed, seed=seed)) + signed

    @classmethod
    def opened(cls, blob: bytes, *, public_key: bytes, tenant_id: str, version: int) -> "State":
        """Return the state in a blob that `sign` made for this version of this tenant's list.

        Raises `NotSigned` if the key did not sign it, and `Corrupt` if it is the state of another
        list.
        """
        members = _members(blob, public_key)
        try:
            state = cls(
                members["Tenant"],
                members["Version"],
                times.parse(members["IssuedAt"]),
                members["Ends"],
                tuple(members["Signers"]),
                tuple(map(ListSigner.from_item, members["ListSigners"])),
                Tombstones.of(members["Tombstones"]),
                # Releases without a feed stored none.
                int(members.get("Sequence", 0)),
                Kept.from_members(members["Log"]) if "Log" in members else None,
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            raise Corrupt("the signed state of a list is malformed") from None
        if (state.tenant_id, state.version) != (tenant_id, version):
            raise Corrupt("a blob holds the state of another list")
        return state

    def _members(self) -> dict[str, Any]:
        log = {} if self.log is None else {"Log": self.log.members()}
        return log | {
            "Tenant": self.tenant_id,
            "Version": self.version,
            "IssuedAt": times.text(self.issued_at),
            "Ends": self.ends,
            "Signers": self.signers,
            "ListSigners": [each.to_item() for each in self.list_signers],
            "Tombstones": self.tombstones.members(),
            "Sequence": self.sequence,
        }


def claimed_statements(blob: bytes) -> list[dict[str, str]]:
    """Return the statements in a state, without a check of the state's signature.

    Each statement has a signature of its own. Raises `Corrupt` if the blob is not a state.
    """
    found = _decoded(blob[_SIGNATURE_BYTES:]).get("ListSigners")
    signers = found if isinstance(found, list) else []
    return [each["statement"] for each in signers if isinstance(each, dict) and "statement" in each]


def _members(blob: bytes, public_key: bytes) -> dict[str, Any]:
    signature, signed = blob[:_SIGNATURE_BYTES], blob[_SIGNATURE_BYTES:]
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, signed)
    except InvalidSignature:
        raise NotSigned("the state of a list is not signed by its signer") from None
    return _decoded(signed)


def _decoded(signed: bytes) -> dict[str, Any]:
    if not signed.startswith(PREFIX):
        raise Corrupt("a blob among the states of a tenant's lists is not a state")
    try:
        members = cbor2.loads(signed[len(PREFIX) :])
    except (cbor2.CBORError, UnicodeError, RecursionError, ValueError):
        raise Corrupt("the signed state of a list is malformed") from None
    if not isinstance(members, dict):
        raise Corrupt("the signed state of a list is malformed")
    return members
