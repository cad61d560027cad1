"""Bodies of the endpoints of status lists (TOKEN-5)."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field, JsonValue

from functions.status_lists.records import COUNT_MAX, PATH, SIZE
from shared.model.identifiers import SIGNING_KEY, STATUS_LIST
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
    field,
    identifier,
    omittable,
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
        raise ValueError("must be the URL of this service, such as https://rescind.example")
    return plain


ListId = Annotated[str, field("Identifier of the status list.", **identifier(STATUS_LIST))]


class CreateStatusList(RequestBody):
    """The status list to create."""

    model_config = example(name="badges", url=_HOME)

    name: Name = Field(description="Display name.")
    url: Annotated[str, AfterValidator(address)] | None = omittable(
        "URL at which verifiers reach the service. The default is the URL of this request. It "
        "cannot be changed later, because tokens contain it."
    )


class StatusListBody(RecordBody):
    """A status list."""

    model_config = example(**_LIST)

    id: ListId
    name: str = field("Display name.")
    uri: str = field("URL of the list, for `status.status_list.uri` of a token.")
    size: int = field("Number of entries.")
    allocated: int = field("Number of allocated entries.")
    created_at: MomentOut = field("Time of creation.")


class StatusListList(ResponseBody):
    """All status lists of the tenant."""

    model_config = example(status_lists=[_LIST])

    status_lists: list[StatusListBody] = field("The status lists, newest first.")


class AllocateStatusEntries(RequestBody):
    """The number of entries to allocate."""

    model_config = example(count=3)

    count: int = Field(ge=1, le=COUNT_MAX, description="Number of entries to allocate.")


class StatusEntries(RecordBody):
    """Entries for tokens, each allocated only once."""

    model_config = example(uri=_ADDRESS, indexes=[90_412, 731_003, 4711])

    uri: str = field("The `status.status_list.uri` of each token.")
    indexes: list[int] = field("The `status.status_list.idx` values, one for each token.")


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
    created_at: MomentOut = field("Time of creation.")
