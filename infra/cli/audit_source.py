"""The sealed log and the audit log of a tenant, read over HTTP (LOG-6, LOG-20)."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx2

from infra.audit_verification.entries import CreatedRecord
from infra.cli.client import Api
from infra.cli.errors import ApiError, NoUsableAnswer
from shared.model.audit.merkle import Place
from shared.model.items import Item

PATH: Final = "/v1/audit-logs"
_NEXT: Final = "X-Next-Cursor"
_NOT_FOUND: Final = 404
_UNAVAILABLE: Final = 503
# The lists whose records entries create, each with the name of its records.
_RECORDS: Final = {
    "api-keys": "api_keys",
    "service-accounts": "service_accounts",
    "keys": "keys",
    "revocations": "revocations",
}


class ServedLog:
    """A tenant's log at a service, as `infra.audit_verification` reads it."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def checkpoint(self) -> str | None:
        """Return the newest checkpoint, or None if the service shows none.

        It has none if nothing is sealed yet. It refuses to show one if its log was cut.
        """
        answer = self._found("checkpoint", but=(_NOT_FOUND, _UNAVAILABLE))
        return None if answer is None else answer.text

    def verifier_keys(self) -> list[str]:
        """Return the verifier keys of the audit signers."""
        return [each["verifier_key"] for each in self._api.get(f"{PATH}/keys")["keys"]]

    def tile(self, place: Place) -> bytes | None:
        """Return a tile or bundle, or None if there is none."""
        answer = self._found(f"tile/{place.path}")
        return None if answer is None else answer.content

    def entries(self) -> Iterator[Item]:
        """Yield all entries, oldest first."""
        for part in exported(self._api, {}):
            for line in part.splitlines():
                entry = json.loads(line).get("entry")
                if entry is not None:
                    yield entry

    def _found(self, path: str, but: tuple[int, ...] = (_NOT_FOUND,)) -> httpx2.Response | None:
        try:
            return self._api.send("GET", f"{PATH}/{path}")
        except ApiError as error:
            if error.status not in but:
                raise
            return None


def records(api: Api) -> Iterator[CreatedRecord]:
    """Yield the API keys, accounts, signing keys and revocations of the tenant."""
    for path, name in _RECORDS.items():
        for page in api.pages(f"/v1/{path}"):
            for each in page[name]:
                yield CreatedRecord(each["id"], each["created_at"])


def exported(api: Api, query: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the parts of an export, which are one export if they are joined.

    Raises `NoUsableAnswer` if an export as NDJSON ends without its last line.
    """
    cursor: str | None = None
    while True:
        answer = api.send("GET", f"{PATH}/export", params={**query, "cursor": cursor})
        body, cursor = answer.content, answer.headers.get(_NEXT)
        if query.get("format") == "csv":
            yield body
        else:
            entries, last = _split(body)
            if (b'{"checkpoint"' if cursor is None else b'{"next"') != last.partition(b":")[0]:
                raise NoUsableAnswer("the export was cut off: its last line is missing.")
            yield body if cursor is None else entries
        if cursor is None:
            return


def _split(body: bytes) -> tuple[bytes, bytes]:
    """Return the lines of a part with entries, and its last line."""
    end = body[:-1].rfind(b"\n") + 1
    return body[:end], body[end:]
