"""Bodies of the endpoints of trust documents (TRUST-8, TRUST-17)."""

from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, BeforeValidator, Field, JsonValue
from pydantic.json_schema import WithJsonSchema

from shared.authorizer.formats import ed25519
from shared.authorizer.formats.documents import SIGNATURES_MAX, SignedDocument
from shared.authorizer.formats.members import from_base64
from shared.authorizer.formats.trust import ROOTS_MAX, RootSet
from shared.errors import InvalidRequest
from shared.web.fields import (
    BASE64,
    MomentOut,
    PublicKey,
    RecordBody,
    RequestBody,
    ResponseBody,
    Signature,
    decimal,
    example,
    field,
    omittable,
)

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
