"""The body of the trust bundle (TRUST-1)."""

from typing import Annotated, Final, Self

from pydantic import AliasPath, Field, JsonValue

from functions.signing_keys import schemas
from shared.model import signing_keys
from shared.model.identifiers import SIGNING_KEY
from shared.model.lists.signers import SrlSignerStatus
from shared.model.trust_bundle import TrustedKey
from shared.operations.base.paging import Page
from shared.operations.changes.trust_bundle import BundleRevision
from shared.web.fields import (
    CURSOR,
    MomentOut,
    NextCursor,
    PublicKey,
    RecordBody,
    ResponseBody,
    SigningKeyId,
    attribute,
    example,
    field,
    identifier,
    optional,
    sample,
)
from shared.web.paging import CursorCodec

_KEY: Final[dict[str, JsonValue]] = {
    name: schemas.KEY_EXAMPLE[name] for name in ("type", "parent_id", "public_key", "expires_at")
} | {
    "key_id": sample(SIGNING_KEY),
    "key_version": 1,
    "status": "active",
    "created_at": "2026-11-21T12:00:00Z",
}
_SIGNER: Final[dict[str, JsonValue]] = {
    "key_id": "svc_key_01kbm9h2r5c8e1f4g7j0k3m6np",
    "status": "active",
    "public_key": "3Wu7mlkdA5sjA639d9p7b5CNORg92qQQz0uZixfeYJg=",
}
_REVISION: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


class TrustedKeyFields(RecordBody):
    """A version of a signing key."""

    model_config = example(**_KEY)

    key_id: SigningKeyId = Field(validation_alias=AliasPath("key", "signer", "key_id"))
    key_version: int = attribute(
        "key.key_version",
        "Version of the key. The `kid` of a warrant is `<key_id>#<key_version>`.",
        minimum=1,
    )
    type: signing_keys.SigningKeyType = attribute("key.type", "Type of the key.")
    status: signing_keys.KeyStatus = field(
        "`active`: its warrants are valid. `suspended`: warrants signed before `suspended_at` are "
        "valid. `rotated`: an old version; warrants signed before `rotated_at` are valid. "
        "`revoked`: none of its warrants is valid."
    )
    parent_id: str | None = attribute(
        "key.parent_id",
        "The `key_id` of the parent, a root or an issuer; null for a root.",
        **identifier(SIGNING_KEY),
    )
    public_key: PublicKey = Field(validation_alias=AliasPath("key", "public_key"))
    created_at: MomentOut = attribute("key.version_created_at", "Time of creation of this version.")
    expires_at: MomentOut | None = attribute(
        "key.expires_at", "Expiry of the key; null if it does not expire."
    )
    rotated_at: MomentOut | None = optional(
        "Time of the rotation that replaced this version; absent for the current version.",
        of="key.superseded_at",
    )
    suspended_at: MomentOut | None = optional(
        "Time of the suspension; absent unless the key is suspended.", of="key.suspended_at"
    )
    revoked_at: MomentOut | None = optional(
        "Time of the revocation of this version; absent if it is not revoked. If the whole key is "
        "revoked, the current version has the time.",
        of="key.revoked_at",
    )


class TrustedSigner(RecordBody):
    """A past, current or future signer of the Signed Revocation List and the feed."""

    model_config = example(**_SIGNER)

    key_id: Annotated[str, Field(validation_alias="id")] = field(
        "Identifier of the SRL signer.", **identifier(SIGNING_KEY)
    )
    status: SrlSignerStatus = field(
        "`revoked`: the key was stolen; reject everything that it signed. `GET "
        "/v1/revocations/srl/keys` explains the other values and has the succession statements."
    )
    public_key: PublicKey


class TrustBundle(ResponseBody):
    """A page of the keys that verify warrants and SRLs."""

    model_config = example(
        tenant_id="svc_tnt_01kbm4xt3rfz8c5w7y2q9n6d1e",
        revision=_REVISION,
        keys=[_KEY],
        srl_signers=[_SIGNER],
        cursor=CURSOR,
    )

    tenant_id: str = field("Identifier of the tenant: the `iss` of its warrants.")
    revision: str = field(
        "Identifies this state of all keys. If the revision changes between two pages, start "
        "again with the first page."
    )
    keys: list[TrustedKeyFields] = field("The signing keys and their old versions.")
    srl_signers: list[TrustedSigner] = field(
        "The SRL signers, newest first; only on the first page."
    )
    cursor: NextCursor

    @classmethod
    def page(cls, of: BundleRevision, page: Page[TrustedKey], pager: CursorCodec) -> Self:
        """Return the body for a page of keys."""
        signers = of.srl_signers if pager.cursor is None else []
        return cls(
            tenant_id=pager.caller.tenant_id,
            revision=of.name,
            keys=[TrustedKeyFields.of(each) for each in page.entries],
            srl_signers=[TrustedSigner.of(each) for each in signers],
            cursor=pager.cursor_after(page.next_before),
        )
