"""Bodies of the Signed Revocation List endpoints (service.md 2.4 and 4.3, decisions 3)."""

from typing import Self

from shared.model.seeds import ALGORITHM
from shared.model.srl import Head
from shared.model.srl_keys import SrlKey, Status
from shared.web.fields import MomentOut, ResponseBody


class SrlPayload(ResponseBody):
    """The decoded content of a list, its members named as they are signed."""

    Version: int
    IssuedAt: str
    ExpiresAt: str
    RevokedIDs: list[str]


class SignedPayload(ResponseBody):
    """The signed form: base64 of the CBOR, and of the Ed25519 signature over it."""

    Payload: str
    Signature: str


class SignedRevocationList(ResponseBody):
    """A Signed Revocation List. It is stored whole; this is its shape for readers."""

    payload: SrlPayload
    srl: SignedPayload


class Regenerated(ResponseBody):
    """What was published."""

    version: int
    issued_at: MomentOut
    expires_at: MomentOut
    revocation_count: int

    @classmethod
    def of(cls, head: Head) -> Self:
        """The list that is now in force."""
        return cls(
            version=head.version,
            issued_at=head.issued_at,
            expires_at=head.expires_at,
            revocation_count=head.count,
        )


class SrlSigner(ResponseBody):
    """A key that signs, or signed, the tenant's lists."""

    key_id: str
    algorithm: str
    public_key: str
    status: Status
    created_at: MomentOut

    @classmethod
    def of(cls, signer: SrlKey) -> Self:
        """The public side of the signer."""
        return cls(
            key_id=signer.id,
            algorithm=ALGORITHM,
            public_key=signer.public_key,
            status=signer.status,
            created_at=signer.created_at,
        )


class SrlSigners(ResponseBody):
    """The tenant's signers, the current one first."""

    keys: list[SrlSigner]
