"""`rescind revoke` and `rescind unrevoke`, for any number of warrants.

Many are revoked by calls of the API for 1000 at a time, under one batch (REVOKE-20), and unrevoked
by the parts of a manifest (REVOKE-27). If that stops, `--resume-batch` or `--manifest` continues
it: nothing is changed twice.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from ulid import ULID

from infra.cli import inputs
from infra.cli.client import ApiClient, segment
from infra.cli.columns import Column
from infra.cli.commands import ApiSession, command, confirm
from infra.cli.errors import (
    ApiError,
    ApprovalPending,
    BadResponse,
    DryRun,
    ExitCode,
    Reason,
    Since,
    UsageError,
    Yes,
    argument,
    option,
)
from infra.cli.output import Output
from infra.cli.revocations import (
    CreatedBy,
    JwtSession,
    Seconds,
    Token,
    Wait,
    WarrantIdsOrNone,
    filters_of,
    identify_token,
    wait_for,
)
from shared.model import identifiers, times
from shared.model.identifiers import BATCH, MANIFEST, REVOCATION, is_identifier, warrant_id
from shared.model.unrevoke_manifests import MEMBERS_MAX

_BATCH_PATH: Final = "/v1/revocations/batch"
_MANIFESTS: Final = "/v1/unrevoke-manifests"
_MOST: Final = 1000
_SERVER_ERROR: Final = 500
# The retries of a request after a lost response, or while something is unavailable.
_REPEATED: Final = 3
# A longer table prints slowly, so it shows failures only.
_SHOWN_MOST: Final = 100
# Accepted headings of an identifier column.
_HEADINGS: Final = ("warrant_id", "warrant", "revocation_id", "revocation", "id")
# Unrevoking a warrant without a revocation counts as a failure, because it is likely a mistake.
_NOT_DONE: Final = frozenset({"failed", "not_revoked"})
_CHANGES: Final = frozenset({"revoked", "extended", "unrevoked"})
_COLUMNS: Final = (
    Column("warrant", "warrant_id"),
    Column("revocation", "revocation_id"),
    Column("outcome", "outcome"),
    Column("message", "message", wraps=True),
)

Results = list[dict[str, Any]]


class Step(NamedTuple):
    """One request of a batch or a manifest, with the identifiers in it, if any."""

    id: str
    path: str
    body: Mapping[str, object]
    ids: Sequence[str] = ()


@dataclass
class BatchCalls:
    """One change of many revocations, in several requests. `results` collects their results."""

    session: ApiSession
    doing: str
    is_rehearsal: bool
    id: str
    results: Results = field(default_factory=list)

    def run(self, steps: Iterable[Step], total: int) -> ExitCode:
        """Make the requests, which have `total` results, and print the results."""
        api = self.session.api
        try:
            with self.session.out.progress(self.doing, total) as bar:
                for step in steps:
                    self.id = step.id
                    results = self._send(api, step)
                    self.results += results
                    bar.advance(len(results))
        except ApprovalPending:
            # The first request requested an approval, and changed no data.
            raise
        except BaseException as error:
            # If the service refused the first request, no data was changed.
            if self.results or not (isinstance(error, ApiError) and error.status < _SERVER_ERROR):
                self._report(is_stopped=True)
            raise
        self._report()
        has_failed = any(each["outcome"] in _NOT_DONE for each in self.results)
        return ExitCode.FAILED if has_failed else ExitCode.DONE

    def _send(self, api: ApiClient, step: Step) -> Results:
        """Make a request. Retry it after a lost response, or while something is unavailable."""
        for _ in range(_REPEATED):
            try:
                results = _results(api.post(step.path, step.body), step)
            except BadResponse:
                continue
            if not any(each.get("code") == "unavailable" for each in results):
                return results
        return _results(api.post(step.path, step.body), step)

    def _report(self, *, is_stopped: bool = False) -> None:
        """Print the results, then a summary even if standard output fails."""
        try:
            self._show()
        finally:
            self.session.out.print_message(self._summary(is_stopped=is_stopped))

    def _show(self) -> None:
        shown = self.results
        if self.session.out.is_for_people and not self.is_rehearsal and len(shown) > _SHOWN_MOST:
            shown = [each for each in shown if each["outcome"] in _NOT_DONE]
        if self.session.out.is_for_people and not shown:
            return
        rows = [{"warrant_id": each["id"], **each} for each in shown]
        for row in rows if self.is_rehearsal else []:
            if row["outcome"] in _CHANGES:
                row["outcome"] = f"would be {row['outcome'].replace('_', ' ')}"
        document = {
            "manifest_id" if self._is_of_manifest else "batch_id": self.id,
            "dry_run": self.is_rehearsal,
            "results": self.results,
            "counts": self._counts,
        }
        self.session.out.print_table(document, rows, _COLUMNS)

    def _summary(self, *, is_stopped: bool) -> str:
        counts = self._counts.items()
        outcomes = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in counts)
        if self.is_rehearsal:
            return f"Nothing was changed. The result would be: {outcomes or 'no changes'}."
        if is_stopped:
            command = f"the same command with --resume-batch {self.id}"
            if self._is_of_manifest:
                command = f"`rescind unrevoke --reason WHY --manifest {self.id}`"
            return (
                f"Stopped: {outcomes or 'no results'}. The last call may have changed more.\n"
                f"To continue, run {command}."
            )
        kind = "Manifest" if self._is_of_manifest else "Batch"
        return f"{outcomes or 'No changes'}. {kind if self.id else ''} {self.id}".strip()

    @property
    def _counts(self) -> Counter[str]:
        return Counter(each["outcome"] for each in self.results)

    @property
    def _is_of_manifest(self) -> bool:
        return self.id.startswith(f"svc_{MANIFEST}_")


def _results(answer: Any, step: Step) -> Results:
    """Return the results of all identifiers. Raises `BadResponse` if any is missing."""
    results: Results = []
    try:
        results = answer["results"]
        counts = Counter(each["id"] for each in results if isinstance(each["outcome"], str))
    except (KeyError, TypeError):
        counts = Counter()
    if not counts or (step.ids and counts != Counter(step.ids)):
        raise BadResponse("the service did not return a result for each identifier.")
    return results


def read_identifiers(
    out: Output, path: Path | None, check: Callable[[str], str], noun: str = "identifier"
) -> list[str]:
    """Return the identifiers in a file, one per line or in a column with a heading.

    `-` is standard input. Raises `UsageError` with the line number if `check` rejects an
    identifier.
    """
    if path is None:
        return []
    ids, blank, column = list[str](), 0, None
    for number, cells in inputs.read_rows(path):
        is_first = bool(cells) and column is None
        try:
            if is_first:
                column = _column(cells)
            if not cells:
                blank += 1
            elif not (is_first and cells[column or 0].lower() in _HEADINGS):
                ids.append(check(cells[column or 0]))
        except ValueError as error:
            first = f"; accepted headings, separated by commas: {', '.join(_HEADINGS)}"
            problem = f"the {noun} {error}{first if is_first else ''}"
            raise inputs.line_error(path, number, problem) from None
    if not ids:
        raise UsageError(f"{path} contains no identifiers.")
    once = list(dict.fromkeys(ids))
    repeated = len(ids) - len(once)
    rows = f"Read {len(ids) + blank} rows of {path}"
    out.print_message(f"{rows}: {len(once)} identifiers, {repeated} repeated, {blank} blank.")
    return once


def _column(cells: Sequence[str]) -> int:
    """Return the index of the identifier column, from the first row. Raises `ValueError`.

    The first heading takes precedence, because `rescind revocations list -o csv` prints several.
    """
    names = [each.lower() for each in cells]
    exact = _HEADINGS[:1] if names.count(_HEADINGS[0]) == 1 else _HEADINGS
    indexes = [number for number, each in enumerate(names) if each in exact]
    if len(cells) > 1 and len(indexes) != 1:
        raise ValueError(f"must be in one column, and {len(indexes)} columns have its heading")
    return indexes[0] if indexes else 0


def batch_id(value: str) -> str:
    """Return the identifier of a batch. Raises `ValueError`."""
    return _of(value, BATCH)


def manifest_id(value: str) -> str:
    """Return the identifier of a manifest. Raises `ValueError`."""
    return _of(value, MANIFEST)


def either(value: str) -> str:
    """Return the identifier of a warrant or of a revocation. Raises `ValueError`."""
    return warrant_id(value) if value.startswith("svc_wrt_") else _of(value, REVOCATION)


def _of(value: str, kind: str) -> str:
    if not is_identifier(value, kind=kind):
        raise ValueError(f"must be svc_{kind}_ and a ULID in lower case")
    return value


_PATH: Final = "/v1/revocations"
# Each warrant costs at least one request.
_WAITED_FOR: Final = 1000
# More than these are revoked or unrevoked only after a question.
_UNASKED: Final = 100

EitherIds = Annotated[
    list[str] | None, argument("REVOCATION|WARRANT", "svc_rev_… or svc_wrt_…", either)
]
File = Annotated[
    Path | None,
    option(
        "--file",
        "File with one identifier per line, or CSV with a heading such as warrant_id; - is "
        "standard input.",
        "FILE",
    ),
]
ResumedBatch = Annotated[
    str | None,
    option(
        "--resume-batch", "Continue this batch; its changes are not repeated.", "BATCH", batch_id
    ),
]
ManifestId = Annotated[
    str | None,
    option(
        "--manifest",
        "Apply this manifest, without other arguments; its changes are not repeated.",
        "MANIFEST",
        manifest_id,
    ),
]
SignedBy = Annotated[
    str | None, option("--signed-by", "Warrants that this key signed before --before.", "KEY")
]
Jwt = Annotated[
    Path | None,
    option(
        "--jwt",
        "File with one JWT per line, identified by iss and jti; - is standard input.",
        "FILE",
    ),
]
Subject = Annotated[
    tuple[str, str] | None,
    option(
        "--subject",
        "All JWTs with this sub that were issued earlier; not with other warrants or --dry-run.",
        "ISSUER SUB",
    ),
]
IssuedBefore = Annotated[
    datetime | None,
    option(
        "--issued-before",
        "With --subject: JWTs with iat at or before this time (default: now).",
        "TIME",
        times.parse,
        show_default=False,
    ),
]
Before = Annotated[
    datetime | None,
    option("--before", "With --signed-by: warrants signed before this time.", "TIME", times.parse),
]
Batch = Annotated[str | None, option("--batch", "Revocations of this batch.", "BATCH", batch_id)]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    command(root, "revoke", example='rescind revoke --file lost.csv --reason "stolen"')(revoke)
    command(
        root,
        "unrevoke",
        example='rescind unrevoke --batch svc_bat_01kbm4xt3rfz8c5w7y2q9n6d1e --reason "mistake"',
        is_protected=True,
    )(unrevoke)


def revoke(
    session: ApiSession,
    reason: Reason,
    warrants: WarrantIdsOrNone = None,
    file: File = None,
    jwt: Jwt = None,
    token: Token = None,
    subject: Subject = None,
    issued_before: IssuedBefore = None,
    jwt_session: JwtSession = None,
    signed_by: SignedBy = None,
    previous: Before = None,
    resume_batch: ResumedBatch = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    wait: Wait = False,
    timeout: Seconds = 180,
) -> int | None:
    """Revoke warrants or tokens. Existing revocations are not changed."""
    if (signed_by is None) != (previous is None):
        raise UsageError(
            "--signed-by and --before require each other; to revoke the key, use `rescind "
            "signing-keys revoke`."
        )
    if issued_before is not None and subject is None:
        raise UsageError("--issued-before requires --subject.")
    named = [
        *(warrants or []),
        *read_identifiers(session.out, file, identifiers.warrant_id),
        *read_identifiers(session.out, jwt, identifiers.jwt_id, "token"),
        *([] if token is None else [identify_token(token)]),
    ]
    if jwt_session is not None:
        named.append(identify_token(("jwt-session", *jwt_session), "--session"))
    if subject is not None:
        if named or signed_by or resume_batch or dry_run:
            raise UsageError(
                "--subject cannot be combined with other warrants, --resume-batch or --dry-run."
            )
        record = _revoke_subject(session, subject, issued_before or datetime.now(UTC), reason)
        return wait_for(session, [record], timeout) if wait else None
    asks = False
    if signed_by is not None and previous is not None:
        signed = _warrants_signed_by(session, signed_by, previous)
        named, asks = named + signed, bool(signed)
    elif not named:
        raise UsageError("name at least one warrant or token, or a file with --file.")
    named = list(dict.fromkeys(named))
    if wait and len(named) > _WAITED_FOR:
        raise UsageError(f"--wait supports at most {_WAITED_FOR} warrants.")
    if (asks or len(named) > _UNASKED) and not dry_run:
        confirm(f"Revoke {len(named)} warrant(s)?", yes=yes, number=len(named))
    id_ = resume_batch or f"svc_{BATCH}_{ULID()!s}".lower()
    calls = BatchCalls(session, "Revoking", dry_run, id_)
    body = {"action": "revoke", "reason": reason, "dry_run": dry_run, "batch_id": id_}
    chunks = [named[start : start + _MOST] for start in range(0, len(named), _MOST)]
    steps = [Step(id_, _BATCH_PATH, {**body, "warrant_ids": each}, each) for each in chunks]
    code = calls.run(steps, len(named))
    records = [{"id": each["revocation_id"]} for each in calls.results if "revocation_id" in each]
    return max(code, wait_for(session, records, timeout)) if wait and not dry_run else code


def unrevoke(
    session: ApiSession,
    reason: Reason,
    revocations: EitherIds = None,
    file: File = None,
    batch: Batch = None,
    created_by: CreatedBy = None,
    since: Since = None,
    manifest: ManifestId = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> int | None:
    """Unrevoke warrants. Warrants of a revoked key stay revoked."""
    if created_by is not None and since is None:
        raise UsageError("--created-by requires --since, which excludes older revocations.")
    if since is not None and created_by is None and batch is None:
        raise UsageError("--since requires --created-by or --batch.")
    named = [*(revocations or []), *read_identifiers(session.out, file, either)]
    asks = False
    if batch is not None or created_by is not None:
        filters = filters_of(batch=batch, created_by=created_by, since=since)
        page = session.api.list_records(_PATH, "revocations", params=filters)
        asks = bool(page["revocations"])
        if not asks:
            session.out.print_message(
                "No revocation matches; `rescind revocations list` shows all."
            )
        named += [each["id"] for each in page["revocations"]]
    elif bool(named) is (manifest is not None):
        raise UsageError("name at least one revocation, a file with --file, or --manifest alone.")
    if session.request_approval is not None and len(named) > MEMBERS_MAX:
        raise UsageError(f"an approval covers at most {MEMBERS_MAX} revocations; split the input.")
    if manifest is not None:
        listed = [session.api.get(f"{_MANIFESTS}/{segment(manifest)}")]
    else:
        listed = [*_manifests(session, list(dict.fromkeys(named)))]
    number = sum(each["count"] for each in listed)
    changes = not dry_run and session.request_approval is None
    if changes and (asks or number > _UNASKED):
        confirm(f"Unrevoke {number} warrant(s)?", yes=yes, number=number)
    calls = BatchCalls(session, "Unrevoking", dry_run, listed[0]["id"] if listed else "")
    for each in listed:
        unknown = each.get("not_revoked", [])
        calls.results += [{"id": name, "outcome": "not_revoked"} for name in unknown]
        calls.results += _rehearse(session, each["id"]) if dry_run else []
    steps = [] if dry_run else [step for each in listed for step in _steps(each, reason)]
    return calls.run(steps, number)


def _manifests(session: ApiSession, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Create the fewest manifests for identifiers of revocations and warrants."""
    for start in range(0, len(names), MEMBERS_MAX):
        some = names[start : start + MEMBERS_MAX]
        kinds = {"revocation_ids": f"svc_{REVOCATION}_", "warrant_ids": "svc_wrt_"}
        ids = {name: [each for each in some if each.startswith(kinds[name])] for name in kinds}
        body = {name: each for name, each in ids.items() if each}
        yield session.api.post(_MANIFESTS, body, is_protected=False)


def _steps(manifest: Mapping[str, Any], reason: str) -> Iterator[Step]:
    """Yield the requests that apply the parts of a manifest."""
    path = f"{_MANIFESTS}/{segment(manifest['id'])}/parts"
    for number in range(1, manifest["parts"] + 1):
        yield Step(manifest["id"], f"{path}/{number}/apply", {"reason": reason})


def _rehearse(session: ApiSession, manifest: str) -> Results:
    """Return the results that a manifest would have."""
    page = session.api.list_records(f"{_MANIFESTS}/{segment(manifest)}/members", "members")
    return [
        {
            "id": each["revocation_id"],
            **each,
            # A member without a creator no longer exists.
            "outcome": "not_revoked" if each["created_by"] is None else "unrevoked",
        }
        for each in page["members"]
    ]


def _revoke_subject(
    session: ApiSession, subject: tuple[str, str], issued_before: datetime, reason: str
) -> dict[str, Any]:
    """Revoke all tokens of a subject, and return the revocation.

    The service uses the token lifetime that the tenant configured for the issuer.
    """
    token = {"kind": "jwt-subject", "issuer": subject[0], "value": subject[1]}
    # Round up to whole seconds, as the iat of a token is compared.
    token_before = {**token, "issued_before": ceil(issued_before.timestamp())}
    record = session.api.post(_PATH, {"token": token_before, "reason": reason})
    session.out.record(record)
    return dict(record)


def _warrants_signed_by(session: ApiSession, key: str, before: datetime) -> list[str]:
    """Return the warrants that a key signed before a time."""
    page = session.api.list_records(f"/v1/keys/{segment(key)}/warrants", "warrants")
    return [
        each["warrant_id"]
        for each in page["warrants"]
        if datetime.fromisoformat(each["signed_at"]) < before
    ]
