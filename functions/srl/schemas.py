"""Bodies of the Signed Revocation List endpoints (SRL-1, SIGNER-8)."""

from typing import Self

from pydantic import Field

from functions.srl import examples
from shared.model.lists.signers import SignerStatus
from shared.operations.changes.list_signers import ShownSigner
from shared.web.fields import (
    BASE64,
    CURSOR,
    Algorithm,
    MomentOut,
    NextCursor,
    PublicKey,
    RecordBody,
    RequestBody,
    ResponseBody,
    Signature,
    SignedWarrantId,
    SigningKeyId,
    example,
    shown,
)


class SrlPayload(ResponseBody):
    """The content of a list in readable form. Only the signed form is authoritative."""

    model_config = example(**examples.PAYLOAD)

    Version: int = shown("Number of the list. Each list has the next one.", minimum=1)
    IssuedAt: MomentOut = shown("When the list was made.")
    ExpiresAt: MomentOut = shown("When the list expires.")
    RevokedIDs: list[SignedWarrantId] = shown(
        "The revoked warrants, sorted, each once.", uniqueItems=True
    )


class SignedSrlPayload(ResponseBody):
    """The signed form of a list."""

    model_config = example(**examples.SIGNED)

    Payload: str = shown(
        "What is signed: base64 of a CBOR map with the members of `payload`.", **BASE64
    )
    Signature: Signature


class SignedRevocationList(ResponseBody):
    """A Signed Revocation List."""

    model_config = example(payload=examples.PAYLOAD, srl=examples.SIGNED)

    payload: SrlPayload
    srl: SignedSrlPayload


class PublishedList(RecordBody):
    """The list that was published, and is now in force."""

    model_config = example(
        version=2,
        issued_at="2026-11-21T12:00:00Z",
        expires_at="2026-11-21T13:00:00Z",
        revocation_count=1,
    )

    version: int = shown("Number of the list.", minimum=1)
    issued_at: MomentOut = shown("When the list was made.")
    expires_at: MomentOut = shown("When the list expires.")
    revocation_count: int = Field(
        validation_alias="count",
        description="How many warrants are on the list.",
        json_schema_extra={"minimum": 0},
    )


class ActivateSrlKey(RequestBody):
    """How to activate the key."""

    model_config = example(force=True)

    force: bool = Field(
        default=False,
        description="Activate the key before its `activates_at`. Authorizers that do not know the "
        "key refuse the lists that it signs.",
    )


class RotateSrlKey(RequestBody):
    """How to rotate the key."""

    model_config = example(compromised=True)

    compromised: bool = Field(
        default=False,
        description="The present key was stolen. It is revoked, and the new key has no "
        "`statement`: give its public key to all authorizers.",
    )


class SrlKeyStatement(ResponseBody):
    """A statement by the previous key about this one. Verifiers follow it to the new key."""

    model_config = example(**examples.STATEMENT)

    Payload: str = shown(
        "What is signed: base64 of a CBOR map with Tenant, Number, KeyId, PublicKey, Previous and "
        "IssuedAt.",
        **BASE64,
    )
    Signature: Signature


class SrlKey(ResponseBody):
    """A key that signs the lists of the tenant, did so, or will."""

    model_config = example(**examples.SIGNER)

    key_id: SigningKeyId
    algorithm: Algorithm
    public_key: PublicKey
    status: SignerStatus = shown(
        "`pending`: will sign; `active`: signs now; `retired`: signed before, and its last list "
        "has not expired; `revoked`: was stolen, do not accept its lists."
    )
    created_at: MomentOut = shown("When the key was created.")
    activates_at: MomentOut | None = shown(
        "For a pending key, when it can be activated without `force`. For other keys, when they "
        "began to sign; null if the key is revoked."
    )
    statement: SrlKeyStatement | None = shown(
        "The statement by the previous key; null for the first key, and for one that replaced a "
        "revoked key."
    )

    @classmethod
    def of(cls, signer: ShownSigner) -> Self:
        """Return the body for a signer."""
        record, statement = signer.record, signer.record.statement
        return cls(
            key_id=record.id,
            algorithm=record.algorithm,
            public_key=record.public_key,
            status=record.status,
            created_at=record.created_at,
            activates_at=signer.activates_at,
            statement=None if statement is None else SrlKeyStatement(**statement),
        )


class SrlKeyList(ResponseBody):
    """The keys of the lists, the one that signed the list in force first."""

    model_config = example(keys=[examples.SIGNER], cursor=CURSOR)

    keys: list[SrlKey] = shown("The keys.")
    cursor: NextCursor
