"""Bodies of the endpoints of authorizers (FLEET-2, FLEET-4)."""

import re
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from shared.authorizer.wire import NUMBER_MAX
from shared.model import text
from shared.model.authorizers import Description, Heartbeat, Registered, native_version
from shared.model.identifiers import AUTHORIZER
from shared.operations.api.authorizers import HeartbeatStatus, Registration, Reported
from shared.web.fields import (
    MomentIn,
    Name,
    ResponseBody,
    example,
    identifier,
    sample,
    shown,
)

_HASH: Final[dict[str, JsonValue]] = {"pattern": "^[0-9a-f]{64}$"}
_HEX: Final = re.compile("[0-9a-f]{64}")
_CHAIN: Final = "9c2f" * 16

# A registration is stored in one item of at most 2 KB (FLEET-3).
_NAME_BYTES_MAX: Final = 255
_WORD_BYTES_MAX: Final = 64
_METADATA_BYTES_MAX: Final = 512
_REASONS_MAX: Final = 20
_REASON: Final = re.compile("[a-z_]{1,16}")


def _short(value: str) -> str:
    if len(value.encode()) > _NAME_BYTES_MAX:
        raise ValueError(f"must have at most {_NAME_BYTES_MAX} bytes as UTF-8")
    return value


def _word(value: str) -> str:
    if len(value.encode()) > _WORD_BYTES_MAX:
        raise ValueError(f"must have at most {_WORD_BYTES_MAX} bytes as UTF-8")
    return value


def _hex(value: str) -> str:
    if not _HEX.fullmatch(value):
        raise ValueError("must be 64 hexadecimal digits, in lower case")
    return value


def _metadata(value: dict[str, str]) -> dict[str, str]:
    size = sum(len(part.encode(errors="surrogatepass")) for pair in value.items() for part in pair)
    if size > _METADATA_BYTES_MAX:
        raise ValueError(f"may have at most {_METADATA_BYTES_MAX} bytes in all, as UTF-8")
    for part in filter(None, [*value.values(), *value]):
        text.name(part)
    if "" in value:
        raise ValueError("must have no empty name")
    return value


def _refused(value: dict[str, int]) -> dict[str, int]:
    if not all(_REASON.fullmatch(each) for each in value) or len(value) > _REASONS_MAX:
        raise ValueError(f"must have at most {_REASONS_MAX} reasons, each a word of a-z and '_'")
    return value


ShortName = Annotated[Name, AfterValidator(_short)]
Word = Annotated[Name, AfterValidator(_word)]
Hash = Annotated[str, AfterValidator(_hex), Field(json_schema_extra=_HASH)]
Number = Annotated[int, Field(ge=0, le=NUMBER_MAX)]
AuthorizerId = Annotated[str, shown("Identifier of the authorizer.", **identifier(AUTHORIZER))]


class OpenBody(BaseModel):
    """A JSON object whose declared fields have exactly their types; others are ignored (FLEET-7).

    An authorizer that gets 400 may never report again, and a newer one may report more.
    """

    model_config = ConfigDict(extra="ignore", strict=True)


class RegisterAuthorizer(OpenBody):
    """The authorizer to register. Unknown fields are ignored."""

    model_config = example(
        name="checkout-7c9f", type="rescind-authorizer", version="0.2.0", metadata={"zone": "a"}
    )

    name: ShortName = Field(
        description="A name that the caller gives to one authorizer only, of at most 255 bytes."
    )
    type: Word | None = Field(default=None, description="The kind of program.")
    version: Word | None = Field(default=None, description="The version of the program.")
    public_key: Hash | None = Field(
        default=None,
        description="The Ed25519 public key of the authorizer in hexadecimal, if it has one.",
    )
    metadata: Annotated[dict[str, str], AfterValidator(_metadata)] | None = Field(
        default=None, description="Texts by name that people recognise it by; 512 bytes in all."
    )
    relay: Word | None = Field(
        default=None, description="The name of the relay that polls and reports for it, if any."
    )

    def description(self) -> Description:
        """Return the argument of the operation."""
        return Description(
            self.name,
            self.type or "",
            self.version or "",
            self.public_key or "",
            self.metadata or {},
            self.relay or "",
        )


class Report(OpenBody):
    """What an authorizer holds. Unknown fields are ignored."""

    model_config = example(
        sequence=61,
        chain=_CHAIN,
        verified_at="2026-11-21T12:00:00Z",
        max_staleness_seconds=30,
        allow_when_stale=False,
    )

    sequence: Number | None = Field(
        default=None,
        description="The last entry of the feed that it applied; omit it if it holds nothing.",
    )
    srl_version: Number | None = Field(
        default=None,
        description="The version of the native list that it holds, if it does not follow the "
        "feed: the sequence and 1.",
    )
    chain: Hash | None = Field(
        default=None, description="The chain of the feed at `sequence`, in hexadecimal."
    )
    verified_at: MomentIn | None = Field(
        default=None, description="When the service last confirmed what it holds."
    )
    max_staleness_seconds: Number | None = Field(
        default=None,
        description="How long after `verified_at` it refuses every warrant if it hears nothing.",
    )
    allow_when_stale: bool = Field(
        default=False, description="Whether it then allows warrants instead."
    )
    refused: Annotated[dict[str, Number], AfterValidator(_refused)] | None = Field(
        default=None, description="How many answers of the service it refused, by reason."
    )

    def beat(self) -> Heartbeat:
        """Return the argument of the operation."""
        return Heartbeat(
            self._held(),
            self.chain or "",
            self.verified_at,
            self.max_staleness_seconds,
            self.allow_when_stale,
            self.refused or {},
        )

    def _held(self) -> int | None:
        if self.sequence is None and self.srl_version:
            return self.srl_version - 1
        return self.sequence


class Pace(ResponseBody):
    """When authorizers report."""

    report_after_seconds: int = shown(
        "How many seconds after a heartbeat the next one is due, if nothing changes.", minimum=1
    )
    spread_seconds: int = shown(
        "After each advance, report once, after a random time of up to this many seconds.",
        minimum=0,
    )


class RegisteredAuthorizer(Pace):
    """A registered authorizer."""

    model_config = example(id=sample(AUTHORIZER), report_after_seconds=300, spread_seconds=0)

    id: AuthorizerId

    @classmethod
    def of(cls, made: Registration) -> Self:
        """Return the body for a registration."""
        return cls(id=made.authorizer.id, **pace(made.numbers))


class HeartbeatTaken(Pace):
    """The answer to a heartbeat."""

    model_config = example(
        status="ok",
        latest_sequence=61,
        latest_srl_version=62,
        report_after_seconds=300,
        spread_seconds=0,
    )

    status: HeartbeatStatus = shown(
        "`foreign`: the authorizer holds entries that this service did not publish. Its list may "
        "be forged, or the service was restored from a backup."
    )
    latest_sequence: int = shown("The last entry of the feed; 0 before the first.", minimum=0)
    latest_srl_version: int = shown(
        "The version of the newest native list; 0 before the first.", minimum=0
    )

    @classmethod
    def of(cls, taken: Reported) -> Self:
        """Return the body for a heartbeat."""
        return cls(status=taken.status, **latest(taken.latest), **pace(taken.numbers))


def latest(sequence: int | None) -> dict[str, int]:
    """Return the fields that say where the feed ends, which is None before the first list."""
    return {"latest_sequence": sequence or 0, "latest_srl_version": native_version(sequence)}


def pace(numbers: Registered) -> dict[str, int]:
    """Return the fields that say when authorizers report."""
    return {
        "report_after_seconds": numbers.report_after_seconds,
        "spread_seconds": numbers.spread_seconds,
    }
