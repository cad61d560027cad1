"""`rescind check` and `rescind revocations`."""

import time
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from infra.cli.client import segment
from infra.cli.columns import Column
from infra.cli.commands import ApiSession, command, noun
from infra.cli.errors import (
    SHOWN,
    ExitCode,
    Limit,
    Since,
    Until,
    UsageError,
    argument,
    drop_missing,
    option,
)
from infra.cli.output import label_actor
from shared.model import identifiers, times

_PATH: Final = "/v1/revocations"
_MOST_AT_ONCE: Final = 100
# The service responds after this many seconds, even if authorizers are missing.
_WAIT_AT_ONCE: Final = 25

_COLUMNS: Final = (
    Column("warrant", "warrant_id"),
    Column("revocation", "id"),
    Column("revoked at", "created_at"),
    Column("by", "by"),
    Column("reason", "reason", wraps=True),
)

RevocationId = Annotated[str, argument("REVOCATION", "svc_rev_…")]
Wait = Annotated[
    bool, option("--wait", "Wait until all registered authorizers refuse the warrants.")
]
Seconds = Annotated[int, option("--timeout", "Maximum seconds for --wait.", min=1)]

WarrantIdsOrNone = Annotated[
    list[str] | None,
    argument("WARRANT", "Warrant identifier, such as svc_wrt_laptop-17.", identifiers.warrant_id),
]
Token = Annotated[
    tuple[str, str, str] | None,
    option(
        "--token",
        "Token of another issuer: jwt, biscuit, ucan, x509 or other.",
        "KIND ISSUER VALUE",
    ),
]
JwtSession = Annotated[
    tuple[str, str] | None, option("--session", "All JWTs with this sid.", "ISSUER SID")
]
CheckedSubject = Annotated[
    tuple[str, str] | None, option("--subject", "A JWT with this sub.", "ISSUER SUB")
]
IssuedAt = Annotated[
    datetime | None,
    option(
        "--issued-at",
        "With --subject: the iat of the JWT (default: none).",
        "TIME",
        times.parse,
        show_default=False,
    ),
]

app = noun("List revocations, and show their propagation.")

CreatedBy = Annotated[
    str | None,
    option(
        "--created-by",
        "Created by this API key (svc_ak_…), e-mail or other name in `created_by`.",
        "KEY|NAME",
    ),
]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    command(root, "check", example="rescind check svc_wrt_laptop-17 || echo refused")(check)
    root.add_typer(app, name="revocations")


def filters_of(
    *,
    batch: str | None = None,
    created_by: str | None = None,
    since: str | None = None,
    until: str | None = None,
    **more: str | None,
) -> dict[str, object]:
    """Return the query of a search by an API key or an identity. Raises `UsageError`."""
    if (created_by or "").startswith(f"svc_{identifiers.PERSON}_"):
        raise UsageError(
            "--created-by takes the e-mail of a person; `rescind people list` shows it."
        )
    name = (
        "actor_key_id"
        if (created_by or "").startswith("svc_ak_") and "@" not in (created_by or "")
        else "created_by"
    )
    return drop_missing({"batch_id": batch, name: created_by, "from": since, "to": until, **more})


def identify_token(
    token: tuple[str, str, str], option: str = "--token", issued_before: int | None = None
) -> str:
    """Return the warrant identifier of a token. Raises `UsageError`."""
    try:
        return identifiers.token_id(*token, issued_before)
    except ValueError as error:
        raise UsageError(f"{option}: {error}.") from None


def check(
    session: ApiSession,
    warrants: WarrantIdsOrNone = None,
    token: Token = None,
    subject: CheckedSubject = None,
    issued_at: IssuedAt = None,
    jwt_session: JwtSession = None,
) -> int:
    """Check whether warrants or tokens are revoked. Exits with 3 if any is."""
    if issued_at is not None and subject is None:
        raise UsageError("--issued-at requires --subject.")
    warrants = [*(warrants or []), *([] if token is None else [identify_token(token)])]
    if jwt_session is not None:
        warrants.append(identify_token(("jwt-session", *jwt_session), "--session"))
    if subject is not None:
        # Every cutoff applies to a token without iat.
        before = 0 if issued_at is None else int(issued_at.timestamp())
        warrants.append(identify_token(("jwt-subject", *subject), "--subject", before))
    if not warrants:
        raise UsageError("name at least one warrant or token.")
    verdicts: dict[str, dict[str, Any]] = {}
    for start in range(0, len(warrants), _MOST_AT_ONCE):
        batch = warrants[start : start + _MOST_AT_ONCE]
        if len(batch) == 1:
            verdicts[batch[0]] = session.api.get(f"{_PATH}/check", {"warrant_id": batch[0]})
        else:
            body = {"warrant_ids": batch}
            verdicts |= session.api.post(f"{_PATH}/check-batch", body)["results"]
    results = [{"warrant_id": each, **verdicts[each]} for each in warrants]
    words = {True: "revoked", False: "not revoked"}
    rows = [{**each, "verdict": words[each["revoked"]]} for each in results]
    columns = [
        Column("warrant", "warrant_id"),
        Column("status", "verdict"),
        Column("revoked at", "revoked_at"),
    ]
    if len(warrants) == 1:  # The service returns no reasons for a batch.
        columns.append(Column("reason", "reason", wraps=True))
    session.out.print_table({"results": results}, rows, columns)
    return ExitCode.REVOKED if any(each["revoked"] for each in results) else ExitCode.DONE


@command(
    app,
    "list",
    example="rescind revocations list --created-by admin@acme.svc --reason laptop",
    watches=True,
)
def list_(
    session: ApiSession,
    warrant: Annotated[str | None, option("--warrant", "Revocations of this warrant.")] = None,
    prefix: Annotated[
        str | None, option("--prefix", "Revocations of warrants with this prefix (svc_wrt_…).")
    ] = None,
    batch: Annotated[str | None, option("--batch", "Revocations of this batch.")] = None,
    created_by: CreatedBy = None,
    since: Since = None,
    until: Until = None,
    reason: Annotated[str | None, option("--reason", "Part of the reason.")] = None,
    limit: Limit = SHOWN,
) -> None:
    """List matching revocations, newest first. With --prefix, sort them by warrant."""
    filters = filters_of(
        batch=batch,
        created_by=created_by,
        since=since,
        until=until,
        warrant_id=warrant,
        warrant_prefix=prefix,
        reason=reason,
        include="names",
    )
    page = session.api.list_records(_PATH, "revocations", most=limit, params=filters)
    rows = [
        {**each, "by": label_actor(each["created_by"], each["created_by_name"])}
        for each in page["revocations"]
    ]
    session.out.print_page(page, "revocations", _COLUMNS, rows)


@command(
    app,
    "counts",
    example="rescind revocations counts --since 2026-11-01 --until 2026-11-30",
    watches=True,
)
def show_counts(
    session: ApiSession,
    since: Annotated[
        str | None, option("--since", "First day (default: the last 14 days).", "DATE")
    ] = None,
    until: Annotated[str | None, option("--until", "Last day (default: today).", "DATE")] = None,
) -> None:
    """Count created and removed revocations for each day (UTC)."""
    counts = session.api.get(f"{_PATH}/counts", drop_missing({"from": since, "to": until}))
    columns = (Column("day", "date"), Column("revoked", "created"), Column("unrevoked", "deleted"))
    session.out.print_table(counts, counts["days"], columns)


@command(app, "show", example="rescind revocations show svc_rev_01J…", watches=True)
def show(session: ApiSession, revocation: RevocationId) -> None:
    """Show one revocation, and whether the feed and the SRL contain it."""
    session.out.record(session.api.get(f"{_PATH}/{segment(revocation)}"))


@command(app, "propagation", example="rescind revocations propagation svc_rev_01J… --wait")
def propagation(
    session: ApiSession, revocation: RevocationId, wait: Wait = False, timeout: Seconds = 180
) -> int | None:
    """Show how many authorizers refuse the warrant, and which may still accept it."""
    if wait:
        return wait_for(session, [{"id": revocation}], timeout)
    _show_progress(session, session.api.get(f"{_PATH}/{segment(revocation)}/propagation"))
    return None


def wait_for(session: ApiSession, records: list[dict[str, Any]], seconds: int) -> int:
    """Wait until all registered authorizers refuse the warrants. Print the final state."""
    deadline = time.monotonic() + seconds
    complete, registered, clients = True, 0, dict[tuple[str, str], dict[str, Any]]()
    with session.out.progress("Waiting for authorizers", len(records)) as bar:
        for record in records:
            progress = _wait_for_propagation(session, record["id"], deadline)
            complete = complete and progress["is_complete"]
            registered = progress["authorizers"]["total"]
            clients |= {(each["owner"], each["name"]): each for each in progress["unregistered"]}
            bar.advance()
            if not progress["is_complete"]:
                _show_progress(session, progress)
                if registered == 0:
                    session.out.print_message(
                        "No authorizer is registered, so enforcement cannot be confirmed."
                    )
                    break
    if complete:
        count = "The one" if registered == 1 else f"All {registered}"
        verb = "authorizer refuses" if registered == 1 else "authorizers refuse"
        session.out.print_message(f"{count} registered {verb} the warrant(s).")
    for each in clients.values():
        session.out.print_message(f"Not registered, state unknown: {format_refused_client(each)}")
    return ExitCode.DONE if complete else ExitCode.FAILED


def format_refused_client(client: dict[str, Any]) -> str:
    """Format a client that failed to register, with the reason, as one line."""
    return f"{client['name']} of {client['owner']} ({client['code']}, at {client['last_seen_at']})"


def _wait_for_propagation(session: ApiSession, revocation: str, deadline: float) -> dict[str, Any]:
    """Return the propagation once it is complete or final, or when the time is up."""
    path = f"{_PATH}/{segment(revocation)}/propagation"
    wait = 0
    while True:
        progress: dict[str, Any] = session.api.get(path, {"wait": wait})
        nobody = progress["authorizers"]["total"] == 0
        left = int(deadline - time.monotonic())
        if progress["is_complete"] or (nobody and progress["feed"]) or left <= 0:
            return progress
        # Without registered authorizers, the service would wait until its own timeout.
        wait = 1 if nobody else min(left, _WAIT_AT_ONCE)


def _show_progress(session: ApiSession, document: dict[str, Any]) -> None:
    """Print the propagation of a revocation, and the authorizers that may accept the warrant."""
    counts = document["authorizers"]
    published = document["feed"] and f"entry {document['feed']['sequence']}"
    session.out.record(
        {
            **document,
            "feed": published or "not yet",
            "srl": document["srl"] and f"version {document['srl']['version']}",
            "authorizers": ", ".join(
                f"{number} {state.replace('_', ' ')}" for state, number in counts.items()
            ),
            "lagging_authorizers": [
                f"{each['name']} ({each['enforcement']})"
                for each in document["lagging_authorizers"]
            ],
            "unregistered": [format_refused_client(each) for each in document["unregistered"]],
        }
    )
