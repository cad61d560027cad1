"""The state of a list: data that is not in the list, for the next list and for a restore.

It is stored beside its list and signed by the same signer (OPS-8, docs/adr/14).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from shared.authorizer.formats.trust import LogAnchor
from shared.errors import Corrupt
from shared.model import times
from shared.model.audit.kept import Kept
from shared.model.lists import signed_blob
from shared.model.lists.signers import ListSigner
from shared.model.lists.tombstones import Tombstones

PREFIX: Final = b"rescind-srl-state-v1\n"


@dataclass(frozen=True, slots=True)
class ListState:
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
        return signed_blob.sign(self._members(), PREFIX, seed=seed)

    @classmethod
    def opened(cls, blob: bytes, *, public_key: bytes, tenant_id: str, version: int) -> "ListState":
        """Return the state in a blob that `sign` made for this version of this tenant's list.

        Raises `NotSigned` if the key did not sign it, and `Corrupt` if it is the state of another
        list.
        """
        members = signed_blob.opened(blob, PREFIX, public_key=public_key)
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
    found = signed_blob.claimed(blob, PREFIX).get("ListSigners")
    signers = found if isinstance(found, list) else []
    return [each["statement"] for each in signers if isinstance(each, dict) and "statement" in each]


def claimed_log(blob: bytes, tenant_id: str) -> LogAnchor | None:
    """Return what a state says of the sealed log, if anything, without a check of its signature.

    Raises `Corrupt` if the blob is not a state.
    """
    members = signed_blob.claimed(blob, PREFIX)
    try:
        return Kept.from_members(members["Log"]).anchor(tenant_id) if "Log" in members else None
    except (KeyError, TypeError, ValueError):
        raise Corrupt("the signed state of a list is malformed") from None
