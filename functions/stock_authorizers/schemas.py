"""Bodies of stock authorizers and of the native signer (NATIVE-2, NATIVE-6, NATIVE-7)."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from functions.authorizers import bodies
from functions.authorizers.records import AuthorizerDescription
from functions.stock_authorizers.operations import SignedEvent
from shared.model import text
from shared.model.identifiers import SIGNING_KEY
from shared.web.fields import (
    BASE64,
    MomentOut,
    RecordBody,
    ResponseBody,
    attribute,
    example,
    field,
    identifier,
    omittable,
    sample,
)

_KEY: Final = "aQ7yt9eOlb0Cd0m3Zl1YV1C9Rk4dqcm0b9mYxGJ0x1s="
_HEX: Final = re.compile("[0-9a-f]{64}")
_KEY_HEX: Final = "690ef2b7d78e95bd027749b7665d585750bd464e1da9c9b46fd998c46274c75b"
# More registration fields that help people recognize an authorizer.
_ENVIRONMENT: Final = ("agent_id", "environment")
_ENVIRONMENTS: Final = ("k8s_", "cloud_")


def _or_none(value: object) -> str | None:
    """Return a storable text, cut to the maximum bytes; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        return text.name(
            value.encode(errors="ignore")[: bodies.WORD_BYTES_MAX].decode(errors="ignore")
        )
    except ValueError:
        return None


def _hex(value: str) -> str:
    if not _HEX.fullmatch(value):
        raise ValueError("must be 64 lower-case hexadecimal digits")
    return value


_Lenient = Annotated[Any, BeforeValidator(_or_none)]
_Hash = Annotated[str, AfterValidator(_hex), Field(json_schema_extra={"pattern": "^[0-9a-f]{64}$"})]


class RegisterStockAuthorizer(bodies.OpenBody):
    """The stock authorizer to register. Unknown fields are ignored."""

    model_config = example(
        name="gateway-1", type="sidecar", version="0.3.3", public_key=_KEY_HEX
    ) | {"extra": "allow"}

    name: bodies.ShortName = Field(
        description="Name of the authorizer, unique for the caller, of at most 255 bytes."
    )
    type: _Lenient = omittable("Type of the program. Ignored unless it is a string.")
    version: _Lenient = omittable("Version of the program. Ignored unless it is a string.")
    public_key: _Hash | None = omittable(
        "Ed25519 public key that signs the events, in hexadecimal."
    )
    metadata: Any = omittable(
        "Labels for people, as names with values. Labels beyond 512 bytes are dropped."
    )

    def description(self) -> AuthorizerDescription:
        """Return the argument of the operation."""
        labels = {
            name: value
            for name, value in (self.model_extra or {}).items()
            if name in _ENVIRONMENT or name.startswith(_ENVIRONMENTS)
        }
        labels |= dict(self.metadata) if isinstance(self.metadata, Mapping) else {}
        metadata, left = dict[str, str](), bodies.METADATA_BYTES_MAX
        for pair in labels.items():
            # Other types and control characters cannot be stored.
            name, value = map(_or_none, pair)
            if name is None or value is None:
                continue
            left -= len(name.encode()) + len(value.encode())
            if left < 0:
                break
            metadata[name] = value
        return AuthorizerDescription(
            self.name, self.type or "", self.version or "", self.public_key or "", metadata
        )


class StockHeartbeatResponse(bodies.Pace):
    """The response to a heartbeat of a stock authorizer."""

    model_config = example(
        status="ok",
        feed_sequence=61,
        latest_srl_version=62,
        report_after_seconds=300,
        jitter_seconds=0,
    )

    status: bodies.ReportedStatus
    feed_sequence: bodies.FeedSequence
    # `tenuo` reads this name: it fetches the list at once if it holds an older one.
    latest_srl_version: bodies.NativeVersion


class StockEvent(bodies.OpenBody):
    """A signed event of a stock authorizer. Unknown fields are ignored."""

    signature: Any = omittable("Base64 of the 64-byte Ed25519 signature.")
    signing_payload: Any = omittable("Base64 of the signed bytes.")

    def to_signed_event(self) -> SignedEvent:
        """Return the argument of the operation."""
        return SignedEvent(self.signing_payload, self.signature)


class CountedEvents(RecordBody):
    """The counts of a batch of events."""

    model_config = example(accepted=100, rejected=0)

    accepted: int = field(
        "Number of events with a valid signature by the registered key.", minimum=0
    )
    rejected: int = field(
        "Number of events without a valid signature by the registered key.", minimum=0
    )


class NativeSrl(ResponseBody):
    """The native list."""

    model_config = example(srl="omdwYXlsb2FkpGtyZXZva2VkX2lkc4A…", version=62)

    srl: str = field("The signed native list: base64 of CBOR.", **BASE64)
    version: int = field("Sequence of the last feed entry in the list, plus one.", minimum=1)


class NativeKey(RecordBody):
    """The key that signs native lists."""

    model_config = example(
        key_id=sample(SIGNING_KEY),
        algorithm="Ed25519",
        public_key=_KEY,
        public_key_hex=_KEY_HEX,
        created_at="2026-11-21T12:00:00Z",
    )

    key_id: str = attribute("id", "Identifier of the key.", **identifier(SIGNING_KEY))
    algorithm: str = field("Algorithm of the key. Always `Ed25519`.")
    public_key: str = field("Base64 of the 32-byte public key.", **BASE64)
    public_key_hex: Annotated[str, BeforeValidator(bytes.hex)] = attribute(
        "public_bytes",
        "The public key in hexadecimal. It must come first in `TENUO_TRUSTED_KEYS`.",
        pattern="^[0-9a-f]{64}$",
    )
    created_at: MomentOut = field("Time of creation.")
