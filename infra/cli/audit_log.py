"""`rescind audit-log`: who did what, an export, and whether the log is whole."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, Any, Final

from functions.transparency_log.merkle import TileAddress
from infra.audit_verification.entries import CreatedRecord
from infra.audit_verification.source import Pin, Report
from infra.audit_verification.trusted import TrustedLog
from infra.audit_verification.verification import verify as verify_log
from infra.cli.client import ApiClient
from infra.cli.columns import Column
from infra.cli.commands import ApiSession, command, noun
from infra.cli.errors import (
    SHOWN,
    ApiError,
    BadResponse,
    ExitCode,
    Limit,
    Since,
    Until,
    UsageError,
    option,
)
from infra.cli.output import label_actor
from infra.cli.trust import Root, follow_documents
from shared.authorizer import files
from shared.authorizer.http1 import Response
from shared.model.items import Item

PATH: Final = "/v1/audit-logs"
_NEXT: Final = "x-next-cursor"
_NOT_FOUND: Final = 404
_UNAVAILABLE: Final = 503
# Collections of records that audit entries create, with the member that contains the records.
_RECORDS: Final = {
    "api-keys": "api_keys",
    "service-accounts": "service_accounts",
    "keys": "keys",
    "revocations": "revocations",
}


class ServedLog:
    """Reads the audit log of a tenant from a service, for `infra.audit_verification`."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._refused = False

    def checkpoint(self) -> str | None:
        """Return the newest checkpoint, or None if the service serves none.

        There is no checkpoint before the first entry is appended. The service refuses to serve one
        if its log was truncated.
        """
        answer = self._get_or_none("checkpoint", but=(_NOT_FOUND, _UNAVAILABLE))
        return None if answer is None else answer.body.decode()

    def refuses(self) -> bool:
        """Return whether the service refused to serve a checkpoint of a truncated log."""
        return self._refused

    def read_cosigned_checkpoint(self) -> str | None:
        """Return the newest checkpoint that a quorum of witnesses has cosigned, or None."""
        answer = self._get_or_none("checkpoint?witnessed=true", but=(_NOT_FOUND, _UNAVAILABLE))
        return None if answer is None else answer.body.decode()

    def verifier_keys(self) -> list[str]:
        """Return the verifier keys of the audit signers."""
        return [each["verifier_key"] for each in self._api.get(f"{PATH}/keys")["keys"]]

    def tile(self, place: TileAddress) -> bytes | None:
        """Return a tile or an entry bundle, or None if it does not exist."""
        answer = self._get_or_none(f"tile/{place.path}")
        return None if answer is None else answer.body

    def entries(self) -> Iterator[Item]:
        """Yield all entries, oldest first."""
        for part in stream_export(self._api, {}):
            for line in part.splitlines():
                entry = json.loads(line).get("entry")
                if entry is not None:
                    yield entry

    def _get_or_none(self, path: str, but: tuple[int, ...] = (_NOT_FOUND,)) -> Response | None:
        try:
            return self._api.send("GET", f"{PATH}/{path}")
        except ApiError as error:
            if error.status not in but:
                raise
            self._refused |= error.status == _UNAVAILABLE
            return None


def records(api: ApiClient) -> Iterator[CreatedRecord]:
    """Yield the API keys, service accounts, signing keys and revocations of the tenant."""
    for path, name in _RECORDS.items():
        for page in api.pages(f"/v1/{path}"):
            for each in page[name]:
                yield CreatedRecord(each["id"], each["created_at"])


def stream_export(api: ApiClient, query: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the parts of an export. Joined, they are one export.

    Raises `BadResponse` if an NDJSON export lacks its last line.
    """
    cursor: str | None = None
    while True:
        answer = api.send("GET", f"{PATH}/export", params={**query, "cursor": cursor})
        body, cursor = answer.body, answer.headers.get(_NEXT)
        if query.get("format") == "csv":
            yield body
        else:
            end = body[:-1].rfind(b"\n") + 1
            entries, last = body[:end], body[end:]
            if (b'{"checkpoint"' if cursor is None else b'{"next"') != last.partition(b":")[0]:
                raise BadResponse(
                    "the export is incomplete: its last line is missing; run the command again."
                )
            yield body if cursor is None else entries
        if cursor is None:
            return


_FIRST: Final = "2000-01-01T00:00:00Z"
_COLUMNS: Final = (
    Column("time", "timestamp"),
    Column("actor", "who"),
    Column("action", "action"),
    Column("resource", "resource_id"),
    Column("details", "details", wraps=True),
)

_SUMMARY: Final = "revocation.batch"
# The actions of batch entries, mapped to the action in the batch's summary entry.
_KINDS: Final = {
    "revocation.create_batch": "revoke",
    "revocation.extend_batch": "revoke",
    "revocation.delete_batch": "unrevoke",
}
_FOLDED: Final = {"batch_id", "summary_id", "revocations"}
_SHOWN: Final = (
    "whole",
    "origin",
    "size",
    "checked",
    "expired",
    "records",
    "statements",
    "witnessed",
)

Warrant = Annotated[str | None, option("--warrant", "Entries about this warrant.")]
ApiKey = Annotated[str | None, option("--key", "Entries of this API key.")]
Actor = Annotated[
    str | None, option("--actor", "Entries of this identity, such as admin@acme.svc.")
]
Person = Annotated[str | None, option("--person", "Entries of this person (svc_usr_…).")]
Action = Annotated[
    str | None, option("--action", "Entries with this action, such as revocation.create.")
]
Resource = Annotated[str | None, option("--resource", "Entries about this resource.")]
Batch = Annotated[str | None, option("--batch", "Entries of this batch.")]


class ExportFile(StrEnum):
    """The format of an export."""

    NDJSON = "ndjson"
    CSV = "csv"


app = noun("List, export and verify the audit log.")


@command(app, "list", example="rescind audit-log list --warrant svc_wrt_laptop-17", watches=True)
def list_(
    session: ApiSession,
    warrant: Warrant = None,
    key: ApiKey = None,
    actor: Actor = None,
    person: Person = None,
    action: Action = None,
    resource: Resource = None,
    batch: Batch = None,
    since: Since = None,
    until: Until = None,
    expand_batches: Annotated[
        bool, option("--expand-batches", "Show one row per entry of a batch.")
    ] = False,
    limit: Limit = SHOWN,
) -> None:
    """List matching entries, newest first. The default period is the last 7 days.

    With --warrant or --batch, the default period is unlimited. The table shows one row for each
    batch.
    """
    if since is None and (warrant or batch):
        since = _FIRST
    query = {
        "warrant_id": warrant,
        "actor_key_id": key,
        "actor": actor,
        "actor_id": person,
        "action": action,
        "resource_id": resource,
        "batch_id": batch,
        "from": since,
        "to": until,
    }
    page = session.api.list_records(PATH, "audit_logs", most=limit, params=query)
    # A batch has one row, at the position of its newest entry.
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in page["audit_logs"]:
        details = entry["details"]
        kind = details.get("action", _KINDS.get(entry["action"], entry["action"]))
        batch_id = None if expand_batches else details.get("batch_id")
        groups.setdefault((batch_id or entry["id"], kind), []).append(entry)
    rows = [_row(each) for each in groups.values()]
    session.out.print_page(page, "audit_logs", _COLUMNS, rows)


def _row(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of one entry, or one row for all entries of a batch."""
    parts = [each for each in entries if each["action"] != _SUMMARY]
    row = [*parts, *entries][0]
    row = row | {"who": label_actor(row["actor"], row["actor_name"])}
    if not parts or "batch_id" not in row["details"]:
        return row
    warrants = sum(len(each["details"].get("revocations", ())) for each in parts)
    rest = {name: value for name, value in row["details"].items() if name not in _FOLDED}
    return row | {"details": {"warrants": warrants, "entries": len(entries)} | rest}


@command(app, "export", example="rescind audit-log export --format csv --file audit.csv")
def export(
    session: ApiSession,
    format_: Annotated[
        ExportFile, option("--format", "Export format. Only ndjson can be verified.")
    ] = ExportFile.NDJSON,
    file: Annotated[
        Path | None, option("--file", "Write to this file instead of standard output.")
    ] = None,
    warrant: Warrant = None,
    key: ApiKey = None,
    actor: Actor = None,
    person: Person = None,
    action: Action = None,
    resource: Resource = None,
    batch: Batch = None,
    since: Since = None,
    until: Until = None,
) -> None:
    """Export matching entries, oldest first, to a file or to standard output."""
    query = {
        "warrant_id": warrant,
        "actor_key_id": key,
        "actor": actor,
        "actor_id": person,
        "action": action,
        "resource_id": resource,
        "batch_id": batch,
        "from": since,
        "to": until,
    }
    with _destination(file) as out:
        for part in stream_export(session.api, {**query, "format": format_}):
            out.write(part)


@command(app, "verify", example="rescind audit-log verify")
def verify(
    session: ApiSession,
    checkpoint: Annotated[
        Path | None, option("--checkpoint", "Also check the log against this saved checkpoint.")
    ] = None,
    reset_pin: Annotated[
        bool, option("--reset-pin", "Discard the pinned checkpoint, after a known restore.")
    ] = False,
    with_records: Annotated[
        bool, option("--records", "Also compare keys and revocations with the entries.")
    ] = False,
    root: Root = None,
) -> int:
    """Verify that no entry was changed, removed, inserted or reordered.

    Exits with 1 if the log is not whole. Exits with 3 if a recovery has started a new log
    generation. The verified checkpoint is pinned in the profile. The next verification requires
    that the log extends it. With --trust-pin, also check the log anchor of the trust document and a
    quorum of witnesses.
    """
    tenant_id = str(session.api.get("/v1/whoami")["tenant_id"])
    path = session.profile.folder / f"audit-{tenant_id}.json"
    pins = [] if reset_pin else _pins(path)
    if checkpoint is not None:
        pins += _pins(checkpoint, must_exist=True)
    report, pin = verify_log(
        ServedLog(session.api),
        tenant_id,
        pins=pins,
        now=lambda: datetime.now(UTC),
        records=records(session.api) if with_records else None,
        trusted_log=TrustedLog(follow_documents(session, tenant_id, root)) if root else None,
    )
    if pin is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.replace(path, pin.to_text().encode())
    _show(session, report)
    if not report.is_whole:
        return ExitCode.FAILED
    return ExitCode.UNKNOWN if report.begun else ExitCode.DONE


def _show(session: ApiSession, report: Report) -> None:
    """Print the result, with one line for each finding."""
    session.out.record({"whole": report.is_whole, **asdict(report)}, _SHOWN)
    if session.out.is_document:
        return
    for title, lines in (
        ("Not appended yet", report.pending),
        ("Late", report.late),
        ("New generation", report.begun),
        ("Note", report.notes),
        ("WRONG", report.findings),
    ):
        for line in lines:
            session.out.print_message(f"{title}: {line}")
    conclusion = f"The audit log is {'' if report.is_whole else 'NOT '}whole."
    if report.is_whole and report.begun:
        conclusion = (
            "The audit log is whole since its new generation. If you expected this restore, run "
            "the command again with --reset-pin."
        )
    session.out.print_message(conclusion)


def _pins(path: Path, *, must_exist: bool = False) -> list[Pin]:
    try:
        pin = Pin.load(path)
    except ValueError as error:
        raise UsageError(f"{path} is not a checkpoint: {error}") from error
    if pin is None and must_exist:
        raise UsageError(f"{path} does not exist.")
    return [] if pin is None else [pin]


@contextmanager
def _destination(file: Path | None) -> Iterator[IO[bytes]]:
    """Yield the output file. A named file is renamed into place once it is complete."""
    if file is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = file.parent / f".{file.name}.{os.getpid()}"
    try:
        with part.open("wb") as out:
            yield out
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
