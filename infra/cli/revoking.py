"""`rescind revoke` and `unrevoke`: a few warrants, or very many."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from infra.cli import batches
from infra.cli.batches import BatchCalls, batch_id, body, either
from infra.cli.client import segment
from infra.cli.commands import ApiSession, command, confirm
from infra.cli.errors import DryRun, Reason, Since, WrongUsage, Yes, checked
from infra.cli.revocations import By, Seconds, Wait, filters_of, wait_for
from shared.model import identifiers, times

_PATH: Final = "/v1/revocations"
# Each costs a request, after the first ones at once.
_WAITED_FOR: Final = 1000
# More than these are revoked, or taken back, only after a question.
_UNASKED: Final = 100

WarrantIdsOrNone = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="WARRANT",
        parser=checked(identifiers.warrant_id),
        help="Such as svc_wrt_laptop-17.",
    ),
]
EitherIds = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="REVOCATION|WARRANT", parser=checked(either), help="svc_rev_… or svc_wrt_…"
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="One identifier a line, or a CSV file with a heading such as warrant_id; - is "
        "standard input.",
    ),
]
BatchId = Annotated[
    str | None,
    typer.Option(
        "--batch",
        metavar="BATCH",
        parser=checked(batch_id),
        help="Continue this batch; its changes are not repeated.",
    ),
]
SignedBy = Annotated[
    str | None,
    typer.Option("--signed-by", metavar="KEY", help="The warrants that this signing key signed."),
]
Before = Annotated[
    datetime | None,
    typer.Option(
        "--before",
        metavar="TIME",
        parser=checked(times.parse),
        help="With --signed-by: until then.",
    ),
]
OfBatch = Annotated[
    str | None,
    typer.Option(
        "--of-batch",
        metavar="BATCH",
        parser=checked(batch_id),
        help="This batch's revocations.",
    ),
]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    command(root, "revoke", example='rescind revoke --from lost.csv --reason "stolen"')(revoke)
    command(
        root,
        "unrevoke",
        example='rescind unrevoke --of-batch svc_bat_01kbm4xt3rfz8c5w7y2q9n6d1e --reason "mistake"',
        is_protected=True,
    )(unrevoke)


def revoke(
    session: ApiSession,
    reason: Reason,
    warrants: WarrantIdsOrNone = None,
    from_: File = None,
    signed_by: SignedBy = None,
    before: Before = None,
    batch: BatchId = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    wait: Wait = False,
    timeout: Seconds = 180,
) -> int | None:
    """Revoke warrants. A warrant that is revoked already stays as it is."""
    if (signed_by is None) != (before is None):
        raise WrongUsage("--signed-by and --before go together; `keys revoke` revokes a key.")
    named = [*(warrants or []), *batches.read(from_, identifiers.warrant_id)]
    asks = False
    if signed_by is not None and before is not None:
        found = _signed(session, signed_by, before)
        named, asks = named + found, bool(found)
    elif not named:
        raise WrongUsage("name at least one warrant, or a file with --from.")
    named = list(dict.fromkeys(named))
    if wait and len(named) > _WAITED_FOR:
        raise WrongUsage(f"--wait is for at most {_WAITED_FOR} warrants.")
    if (asks or len(named) > _UNASKED) and not dry_run:
        confirm(f"Revoke {len(named)} warrant(s)?", yes=yes, number=len(named))
    made = BatchCalls(session, "Revoking", body("revoke", reason=reason, dry_run=dry_run), batch)
    code = made.run({"warrant_ids": named})
    records = [{"id": each["revocation_id"]} for each in made.results if "revocation_id" in each]
    return max(code, wait_for(session, records, timeout)) if wait and not dry_run else code


def unrevoke(
    session: ApiSession,
    reason: Reason,
    revocations: EitherIds = None,
    from_: File = None,
    of_batch: OfBatch = None,
    by: By = None,
    since: Since = None,
    batch: BatchId = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> int | None:
    """Take revocations back. A warrant of a revoked key stays revoked."""
    if by is not None and since is None:
        raise WrongUsage("--by needs --since, so that nothing older is taken back.")
    if since is not None and by is None and of_batch is None:
        raise WrongUsage("--since goes with --by or --of-batch.")
    named = [*(revocations or []), *batches.read(from_, either)]
    asks = False
    if of_batch is not None or by is not None:
        found = _found(session, filters_of(batch=of_batch, by=by, since=since))
        named, asks = named + found, bool(found)
    elif not named:
        raise WrongUsage("name at least one revocation, or a file with --from.")
    named = list(dict.fromkeys(named))
    if (asks or len(named) > _UNASKED) and not dry_run:
        confirm(f"Take {len(named)} revocation(s) back?", yes=yes, number=len(named))
    made = BatchCalls(
        session, "Taking back", body("take_back", reason=reason, dry_run=dry_run), batch
    )
    ids = {
        "revocation_ids": [each for each in named if each.startswith("svc_rev_")],
        "warrant_ids": [each for each in named if each.startswith("svc_wrt_")],
    }
    return made.run(ids)


def _signed(session: ApiSession, key: str, before: datetime) -> list[str]:
    """Return the warrants that a key signed before a moment."""
    page = session.api.listed(f"/v1/keys/{segment(key)}/warrants", "warrants")
    return [
        each["warrant_id"]
        for each in page["warrants"]
        if datetime.fromisoformat(each["signed_at"]) < before
    ]


def _found(session: ApiSession, filters: dict[str, object]) -> list[str]:
    page = session.api.listed(_PATH, "revocations", params=filters)
    return [each["id"] for each in page["revocations"]]
