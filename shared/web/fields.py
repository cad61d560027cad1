"""Field types of bodies and parameters, each with its rule of the contract."""

import re
from contextlib import suppress
from datetime import date, datetime
from functools import partial
from operator import is_
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    model_validator,
)
from pydantic.json_schema import WithJsonSchema

from shared.errors import InvalidRequest
from shared.model import identifiers, text, times
from shared.model.identifiers import REVOCATION


def _text_schema(longest: int, *, controls: str) -> WithJsonSchema:
    """Return the schema of a text without these control characters, except in trimmed space.

    JavaScript's white space lacks some characters that Python's has, so the pattern lists them.
    """
    space = r"[\s\x1c-\x1f\x85]*"
    pattern = f"^{space}[^{controls}]+{space}$"
    return WithJsonSchema(
        {"type": "string", "minLength": 1, "maxLength": longest, "pattern": pattern}
    )


def decimal(pattern: str, *, must: str) -> BeforeValidator:
    """Return a validator for an integer in a query. Its whole text must match `pattern`.

    Python and pydantic accept `+5`, ` 5` and `1_0` as integers; the contract does not. `must`
    completes the error message.
    """

    def plain(value: object) -> object:
        if isinstance(value, str) and not re.fullmatch(pattern, value):
            raise ValueError(f"must {must}")
        return value

    return BeforeValidator(plain)


WHOLE_PATTERN: Final = "0|[1-9][0-9]{0,15}"
WHOLE: Final = decimal(
    WHOLE_PATTERN, must="be a whole number in decimal digits, without a leading zero"
)

_NAME: Final = _text_schema(text.NAME_MAX, controls=r"\x00-\x1f\x7f-\x9f")
_REASON: Final = _text_schema(text.REASON_MAX, controls=r"\x00-\x08\x0b-\x1f\x7f-\x9f")

Name = Annotated[str, AfterValidator(text.name), _NAME]
Reason = Annotated[str, AfterValidator(text.reason), _REASON]
WarrantId = Annotated[
    str,
    AfterValidator(identifiers.warrant_id),
    WithJsonSchema({"type": "string", "pattern": f"^{identifiers.WARRANT_ID_PATTERN}$"}),
]


def _moment(value: Any) -> datetime:
    # Only text, because pydantic would also convert a number or a date.
    if not isinstance(value, str):
        raise ValueError("must be an RFC 3339 timestamp in a string")  # noqa: TRY004 (pydantic's)
    return times.parse(value)


_TIMESTAMP: Final = WithJsonSchema({"type": "string", "format": "date-time"})

# Timestamps in requests and in responses.
MomentIn = Annotated[datetime, BeforeValidator(_moment), _TIMESTAMP]
MomentOut = Annotated[datetime, PlainSerializer(times.format_utc), _TIMESTAMP]


def _date(value: Any) -> date:
    # Only this form, because Python also accepts `20261121` and `2026-W47-6`.
    if isinstance(value, str) and _DATE.fullmatch(value):
        with suppress(ValueError):
            return date.fromisoformat(value)
    raise ValueError("must be a date of the year 2000 or later, such as 2026-11-21")


_DATE: Final = re.compile("[2-9][0-9]{3}-[0-9]{2}-[0-9]{2}")

# Dates in requests and in responses.
DateIn = Annotated[
    date, BeforeValidator(_date), WithJsonSchema({"type": "string", "format": "date"})
]
DateOut = date


def example(**members: JsonValue) -> ConfigDict:
    """Return the model configuration with an example for the API document."""
    return ConfigDict(json_schema_extra={"examples": [members]})


def field(description: str, **schema: JsonValue) -> Any:
    """Return a response field with a description and a schema for the API document.

    Responses are not validated against this schema.
    """
    return Field(description=description, json_schema_extra=schema)


def attribute(name: str, description: str, /, **schema: JsonValue) -> Any:
    """Return a response field for the attribute `name` of the record, which has another name.

    `name` may be a path of attributes, such as `head.version`.
    """
    path = AliasPath(*name.split("."))
    return Field(validation_alias=path, description=description, json_schema_extra=schema)


def omittable(description: str, **schema: JsonValue) -> Any:
    """Return a request field that is None if it is omitted."""
    return Field(default=None, description=description, json_schema_extra=schema)


def optional(description: str, *, of: str | None = None) -> Any:
    """Return a response field that is omitted if it is None.

    `of` is the attribute of the record, or its path, if its name differs from the field's.
    """
    return Field(
        default=None,
        validation_alias=None if of is None else AliasPath(*of.split(".")),
        exclude_if=partial(is_, None),
        description=description,
        json_schema_extra=_remove_null,
    )


def _remove_null(schema: dict[str, Any]) -> None:
    (kind,) = (each for each in schema.pop("anyOf") if each != {"type": "null"})
    schema.pop("default")
    schema.update(kind)


def identifier(kind: str) -> dict[str, JsonValue]:
    """Return the schema of identifiers of this kind, with an example."""
    return {"pattern": f"^svc_{kind}_{identifiers.ULID}$", "examples": [sample(kind)]}


def is_of(kind: str) -> AfterValidator:
    """Return a validator for an identifier of this kind in a request."""

    def check(value: str) -> str:
        if not identifiers.is_identifier(value, kind=kind):
            raise ValueError(f"must be svc_{kind}_ and a ULID in lower case")
        return value

    return AfterValidator(check)


def sample(kind: str) -> str:
    """Return an identifier of this kind, for examples."""
    return f"svc_{kind}_01kbm4xt3rfz8c5w7y2q9n6d1e"


RevocationId = Annotated[str, field("Identifier of the revocation.", **identifier(REVOCATION))]


# Padded, with the standard alphabet.
BASE64: Final[dict[str, JsonValue]] = {"contentEncoding": "base64"}
# An example of a cursor.
CURSOR: Final = "6t1Xw0eJ2m9Qb7kLc3ZyX3YxX2FrXzAxa2Jt"

ApiKeyId = Annotated[str, field("Identifier of the API key.", **identifier(identifiers.API_KEY))]
SigningKeyId = Annotated[
    str, field("Identifier of the signing key.", **identifier(identifiers.SIGNING_KEY))
]
SignedWarrantId = Annotated[
    str,
    field(
        "Identifier of the warrant.",
        pattern=f"^{identifiers.WARRANT_ID_PATTERN}$",
        examples=["svc_wrt_laptop-17"],
    ),
]
PublicKey = Annotated[
    str,
    field("Ed25519 public key: base64 of its 32 bytes.", minLength=44, maxLength=44, **BASE64),
]
Signature = Annotated[
    str,
    field("Ed25519 signature: base64 of its 64 bytes.", minLength=88, maxLength=88, **BASE64),
]
Algorithm = Annotated[str, field("Algorithm of the key and the signature.", const="Ed25519")]
Total = Annotated[int, field("Number of entries on all pages together.", minimum=0)]
NextCursor = Annotated[
    str | None, field("Pass this as `cursor` to get the next page; null on the last page.")
]


class RequestBody(BaseModel):
    """A JSON object with only the declared fields. Each value must have the exact type."""

    model_config = ConfigDict(extra="forbid", strict=True)


TokenKind = Annotated[str, WithJsonSchema({"type": "string", "enum": [*identifiers.TOKEN_KINDS]})]
_TOKEN: Final[dict[str, JsonValue]] = {"type": "string", "maxLength": identifiers.TOKEN_PART_MAX}
TokenPart = Annotated[str, WithJsonSchema(_TOKEN)]
IssuedBefore = Annotated[int, Field(ge=0, le=identifiers.MOMENT_MAX)]


class Token(RequestBody):
    """A token of another issuer, which identifies a warrant (TOKEN-1)."""

    model_config = example(kind="jwt", issuer="https://as.example", value="bad-1")

    kind: TokenKind = Field(description="Kind of the token.")
    issuer: TokenPart = Field(
        default="",
        description="Issuer. `jwt`, `jwt-session`, `jwt-subject`: the `iss` of the token. `x509`: "
        "the SHA-256 of the issuer's DER name, in hexadecimal. `other`: your choice. The other "
        "kinds have no issuer.",
    )
    value: TokenPart = Field(
        description="Value. `jwt`: the `jti`. `jwt-session`: the `sid`. `jwt-subject`: the `sub`. "
        "`biscuit`: a revocation identifier in lower-case hexadecimal. `ucan`: the CIDv1 in "
        "base32. `x509`: the serial number in hexadecimal, without leading zeros. `other`: your "
        "choice."
    )
    issued_before: IssuedBefore | None = Field(
        default=None,
        description="`jwt-subject` only, in seconds since 1970, at most a day from now. Covers "
        "all tokens of the subject with an `iat` at or before this time, or without `iat`.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.warrant_id
        return self

    @property
    def warrant_id(self) -> str:
        """The warrant identifier of the token."""
        return identifiers.token_id(self.kind, self.issuer, self.value, self.issued_before)


_ONE: Final = "pass either the identifier of a warrant or a token."


class WarrantReferenceBody(RequestBody):
    """A body that names a warrant by its identifier or by a token."""

    warrant_id: WarrantId | None = None
    token: Token | None = Field(
        default=None,
        description="Token of another issuer, in place of `warrant_id`.",
    )

    @property
    def warrant_id_or_none(self) -> str | None:
        """The warrant identifier or None. Raises `InvalidRequest` if both members are given."""
        if self.token is None:
            return self.warrant_id
        if self.warrant_id is not None:
            raise InvalidRequest(f"warrant_id, token: {_ONE}")
        return self.token.warrant_id

    @property
    def one(self) -> str:
        """The warrant identifier. Raises `InvalidRequest` unless exactly one is given."""
        if self.warrant_id_or_none is None:
            raise InvalidRequest(f"warrant_id: is required; {_ONE}")
        return self.warrant_id_or_none


class ResponseBody(BaseModel):
    """A JSON object with exactly the declared fields. Only `optional` fields may be absent."""

    model_config = ConfigDict(extra="forbid")


class RecordBody(ResponseBody):
    """A JSON object with the attributes of a record that match its field names."""

    model_config = ConfigDict(from_attributes=True)

    @classmethod
    def of(cls, record: object) -> Self:
        """Return the body for `record`."""
        return cls.model_validate(record)
