"""Bodies of trust documents and of the trust bundle (TRUST-1, TRUST-8, TRUST-17)."""

from typing import Annotated, Any, Final, Self

from pydantic import AliasPath, BaseModel, BeforeValidator, Field, JsonValue
from pydantic.json_schema import WithJsonSchema

from functions.trust.trust_bundle import BundleRevision, TrustedKey
from shared.authorizer.formats import ed25519
from shared.authorizer.formats.documents import SIGNATURES_MAX, SignedDocument
from shared.authorizer.formats.members import from_base64
from shared.authorizer.formats.trust import ROOTS_MAX, RootSet
from shared.errors import InvalidRequest
from shared.model import signing_keys
from shared.model.identifiers import SIGNING_KEY
from shared.model.lists.signers import SrlSignerStatus
from shared.operations.base.paging import Page
from shared.web.fields import (
    BASE64,
    CURSOR,
    MomentOut,
    NextCursor,
    PublicKey,
    RecordBody,
    RequestBody,
    ResponseBody,
    Signature,
    SigningKeyId,
    attribute,
    decimal,
    example,
    field,
    identifier,
    omittable,
    optional,
    sample,
)
from shared.web.paging import CursorCodec

_KEY: Final = "3Wu7mlkdA5sjA639d9p7b5CNORg92qQQz0uZixfeYJg="
_SIGNATURE: Final = (
    "JeAvmkK35L+RL9lDd6gCC7Bw66Pw4hA0XZrSU93mGUGcSuvABerYZI3Jyh72MGdc4C2h/PGqRKEHvzfc65DbAw=="
)
_SIGNED: Final[dict[str, JsonValue]] = {
    "Payload": "qGRMb2ej",
    "Signatures": [{"Key": _KEY, "Signature": _SIGNATURE}],
}


# The API document omits constraints that follow a validator.
_NUMBER: Final = decimal("[1-9]", must="be a decimal digit from 1 to 9")


def _base64(value: Any) -> bytes:
    try:
        return from_base64(value)
    except (TypeError, ValueError):
        raise ValueError("must be canonical base64") from None


Bytes = Annotated[bytes, BeforeValidator(_base64), WithJsonSchema({"type": "string", **BASE64})]


class RootSignature(ResponseBody):
    """A signature over a document."""

    model_config = example(Key=_KEY, Signature=_SIGNATURE)

    Key: PublicKey
    Signature: Signature


class TrustDocumentBody(ResponseBody):
    """A trust document with its signatures."""

    model_config = example(**_SIGNED)

    Payload: str = field("The trust document: base64 of a CBOR map.", **BASE64)
    Signatures: list[RootSignature] = field(
        "Signatures by root keys and the SRL signer over `rescind-trust-v1`, a line feed and the "
        "SHA-256 of the document."
    )

    @classmethod
    def of(cls, document: SignedDocument) -> Self:
        """Return the body for a document."""
        return cls.model_validate(document.form())


class TrustDocuments(ResponseBody):
    """The trust documents that a client has not yet applied."""

    model_config = example(documents=[_SIGNED])

    documents: list[TrustDocumentBody] = field(
        "Each document that changes the trust root, and the newest document, in ascending order."
    )


class SignatureInput(RequestBody):
    """A signature over the document."""

    Key: Bytes = Field(description="Base64 of the 32-byte public key of the root.")
    Signature: Bytes = Field(description="Base64 of the 64-byte signature.")


class PublishTrust(RequestBody):
    """The signed document."""

    model_config = example(**_SIGNED)

    Payload: Bytes = Field(description="The draft that `GET /v1/trust/draft` returned.")
    Signatures: list[SignatureInput] = Field(
        description="Signatures by root keys, at most one per key.",
        min_length=1,
        max_length=SIGNATURES_MAX,
    )

    def signatures(self) -> dict[bytes, bytes]:
        """Return the signatures by key. Raises `InvalidRequest`."""
        signatures = {each.Key: each.Signature for each in self.Signatures}
        if len(signatures) < len(self.Signatures) or not all(map(ed25519.is_safe, signatures)):
            raise InvalidRequest("Signatures: must be by different Ed25519 keys.")
        return signatures


class PublishedTrust(RecordBody):
    """The newest trust document."""

    model_config = example(version=7, pin="9f" * 32, expires_at="2027-05-20T12:00:00Z")

    version: int = field("Version of the document.", minimum=1)
    pin: str = field("Pin of the trust root, in hexadecimal.", pattern="^[0-9a-f]{64}$")
    expires_at: MomentOut = field("Expiry of the document.")


class DraftQuery(BaseModel):
    """The roots of the draft, if they differ from the roots of the current document."""

    roots: str | None = omittable(
        f"Public keys of 1 to {ROOTS_MAX} roots, separated by commas, each base64 of "
        "32 bytes. The default is the current trust root."
    )
    threshold: Annotated[int, Field(ge=1, le=ROOTS_MAX), _NUMBER] = Field(
        default=1, description="Number of root signatures that a document requires."
    )

    def requested_roots(self) -> RootSet | None:
        """Return the requested roots. Raises `InvalidRequest`."""
        if self.roots is None:
            return None
        try:
            keys = tuple(sorted({from_base64(each) for each in self.roots.split(",")}))
            return RootSet.of({"Keys": [*keys], "Threshold": self.threshold})
        except ValueError:
            raise InvalidRequest(
                f"roots: must be 1 to {ROOTS_MAX} Ed25519 keys in base64, separated by commas; "
                "threshold must be at most their number."
            ) from None


_SIGNING_KEY: Final[dict[str, JsonValue]] = {
    "type": "issuer",
    "parent_id": "svc_key_01kbm4w9d2a7x5t8v3q6h1j4pz",
    "public_key": "/5lp4vugTaeGeBxn21sH0Fa+7/XyhWABmbdHrhhvxdE=",
    "expires_at": "2027-12-31T00:00:00Z",
    "key_id": sample(SIGNING_KEY),
    "key_version": 1,
    "status": "active",
    "created_at": "2026-11-21T12:00:00Z",
}
_SIGNER: Final[dict[str, JsonValue]] = {
    "key_id": "svc_key_01kbm9h2r5c8e1f4g7j0k3m6np",
    "status": "active",
    "public_key": _KEY,
}
_REVISION: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


class TrustedKeyFields(RecordBody):
    """A version of a signing key."""

    model_config = example(**_SIGNING_KEY)

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
        keys=[_SIGNING_KEY],
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
