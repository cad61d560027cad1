"""The bodies of the history of lists (SRL-22)."""

from typing import Final

from pydantic import JsonValue

from functions.srl import examples
from shared.web.fields import (
    CURSOR,
    MomentOut,
    NextCursor,
    RecordBody,
    ResponseBody,
    SigningKeyId,
    example,
    shown,
)

_VERSION: Final[dict[str, JsonValue]] = {
    "version": 2,
    "issued_at": "2026-11-21T12:00:00Z",
    "expires_at": "2026-11-21T13:00:00Z",
    "count": 1,
    "added": 1,
    "removed": 0,
    "key_id": examples.SIGNER["key_id"],
    "sha256": "dc31d4b8ed6457468e78c38ab0ef5e56b04151747703cc0eccf7a11f90a2fb8f",
}


class SrlVersion(RecordBody):
    """A list that was published."""

    model_config = example(**_VERSION)

    version: int = shown("Number of the list.", minimum=1)
    issued_at: MomentOut = shown("When the list was made.")
    expires_at: MomentOut = shown("When the list expires.")
    count: int = shown("How many warrants are on the list.", minimum=0)
    added: int | None = shown(
        "How many of them were not on the list before; null if that could not be read.", minimum=0
    )
    removed: int | None = shown(
        "How many warrants were on the list before and are not on this one; null likewise.",
        minimum=0,
    )
    key_id: SigningKeyId
    sha256: str = shown(
        "The SHA-256 of the signed bytes, those in `Payload`, in hexadecimal digits.",
        pattern="^[0-9a-f]{64}$",
    )


class SrlVersionList(ResponseBody):
    """A page of the history of lists."""

    model_config = example(versions=[_VERSION], cursor=CURSOR)

    versions: list[SrlVersion] = shown("The lists, the newest first.")
    cursor: NextCursor
