"""The types of fields that bodies and parameters share, each with its rule of the contract."""

from datetime import datetime
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    JsonValue,
    PlainSerializer,
)
from pydantic.json_schema import WithJsonSchema

from shared.model import identifiers, text, times

Name = Annotated[
    str,
    AfterValidator(text.name),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": text.NAME_MAX}),
]
Reason = Annotated[
    str,
    AfterValidator(text.reason),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": text.REASON_MAX}),
]
WarrantId = Annotated[
    str,
    AfterValidator(identifiers.warrant_id),
    WithJsonSchema({"type": "string", "pattern": f"^{identifiers.WARRANT_ID_PATTERN}$"}),
]


def _moment(value: Any) -> datetime:
    # Only text: to pydantic, a number or a date is a moment too.
    if not isinstance(value, str):
        raise ValueError("must be an RFC 3339 timestamp in a string")  # noqa: TRY004 (pydantic's)
    return times.parse(value)


_TIMESTAMP: Final = WithJsonSchema({"type": "string", "format": "date-time"})

# A moment in a request, and one in a response.
MomentIn = Annotated[datetime, BeforeValidator(_moment), _TIMESTAMP]
MomentOut = Annotated[datetime, PlainSerializer(times.text), _TIMESTAMP]


def example(**members: JsonValue) -> ConfigDict:
    """The configuration of a body that shows readers this example."""
    return ConfigDict(json_schema_extra={"examples": [members]})


class RequestBody(BaseModel):
    """A JSON object with the declared fields only, each of exactly its type."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ResponseBody(BaseModel):
    """A JSON object with exactly the fields that were set."""

    model_config = ConfigDict(extra="forbid")


class RecordBody(ResponseBody):
    """A JSON object that shows a record: the attributes that have the names of its fields."""

    model_config = ConfigDict(from_attributes=True)

    @classmethod
    def of(cls, record: object) -> Self:
        """The response that shows `record`."""
        return cls.model_validate(record)
