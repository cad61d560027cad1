"""Bodies of the endpoints of status lists (TOKEN-5)."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field, JsonValue

from shared.model.identifiers import SIGNING_KEY, STATUS_LIST
from shared.model.status_lists import COUNT_MAX, PATH, SIZE
from shared.web.fields import (
    Algorithm,
    MomentOut,
    Name,
    PublicKey,
    RecordBody,
    RequestBody,
    ResponseBody,
    SigningKeyId,
    example,
    identifier,
    response_field,
    sample,
)

_URL: Final = re.compile(r"https?://[A-Za-z0-9._:\[\]-]+(?:/[A-Za-z0-9._~-]+)*")
_URL_MAX: Final = 512
_HOME: Final = "https://rescind.example"
_ADDRESS: Final = f"{_HOME}{PATH}/{sample(STATUS_LIST)}"
_LIST: Final[dict[str, JsonValue]] = {
    "id": sample(STATUS_LIST),
    "name": "badges",
    "uri": _ADDRESS,
    "size": SIZE,
    "allocated": 200,
    "created_at": "2026-11-21T12:00:00Z",
}


def address(value: str) -> str:
    """Return the URL of a service, without a slash at its end. Raises `ValueError`."""
    plain = value.removesuffix("/")
    if len(plain) > _URL_MAX or not _URL.fullmatch(plain):
        raise ValueError("must be the address of this service, such as https://rescind.example")
    return plain


ListId = Annotated[str, response_field("Identifier of the status list.", **identifier(STATUS_LIST))]


class CreateStatusList(RequestBody):
    """The status list to create."""

    model_config = example(name="badges", url=_HOME)

    name: Name = Field(description="A name for people.")
    url: Annotated[str, AfterValidator(address)] | None = Field(
        default=None,
        description="The address of the service, as verifiers reach it; by default that of this "
        "request. It cannot change later, because tokens name it.",
    )


class StatusListBody(RecordBody):
    """A status list."""

    model_config = example(**_LIST)

    id: ListId
    name: str = response_field("A name for people.")
    uri: str = response_field(
        "Where verifiers fetch the list, for `status.status_list.uri` of a token."
    )
    size: int = response_field("How many entries it has.")
    allocated: int = response_field("How many of them were given out.")
    created_at: MomentOut = response_field("When it was created.")


class StatusListList(ResponseBody):
    """All status lists of the tenant."""

    model_config = example(status_lists=[_LIST])

    status_lists: list[StatusListBody] = response_field("The status lists, newest first.")


class AllocateStatusEntries(RequestBody):
    """The number of entries to allocate."""

    model_config = example(count=3)

    count: int = Field(ge=1, le=COUNT_MAX, description="How many entries to give out.")


class StatusEntries(RecordBody):
    """Entries for tokens, each allocated only once."""

    model_config = example(uri=_ADDRESS, indexes=[90_412, 731_003, 4711])

    uri: str = response_field("The `uri` of `status.status_list` in each token.")
    indexes: list[int] = response_field("The `idx` of `status.status_list`, one for each token.")


class StatusKey(RecordBody):
    """The key that signs the status lists."""

    model_config = example(
        key_id=sample(SIGNING_KEY),
        algorithm="Ed25519",
        public_key="3Wu7mlkdA5sjA639d9p7b5CNORg92qQQz0uZixfeYJg=",
        created_at="2026-11-21T12:00:00Z",
    )

    key_id: SigningKeyId = Field(validation_alias="id")
    algorithm: Algorithm
    public_key: PublicKey
    created_at: MomentOut = response_field("When the key was made.")
