"""`rescind changes`."""

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from infra.cli.client import segment
from infra.cli.columns import Column
from infra.cli.commands import ApiSession, command, noun
from infra.cli.errors import SHOWN, Limit, Since, Until, UsageError, argument, drop_missing, option
from infra.cli.revocations import format_refused_client

_PATH: Final = "/v1/changes"
_COLUMNS: Final = (
    Column("change", "id"),
    Column("kind", "kind"),
    Column("recorded at", "recorded_at"),
    Column("by", "by"),
    Column("name", "name"),
    Column("reason", "reason", wraps=True),
)
_LAGGING: Final = (
    Column("authorizer", "name", wraps=True),
    Column("entry", "holds"),
    Column("may accept it", "end", wraps=True),
    Column("last seen at", "last_seen_at"),
    Column("owner", "owner"),
)
# Shares of the registered authorizers, by label.
_SHARES: Final = (("half", 0.5), ("90 %", 0.9), ("99 %", 0.99), ("all", 1.0))
_MINUTE: Final = 60

app = noun("List changes, and show which authorizers enforce them.")


@command(app, "list", example="rescind changes list --kind signing_key", watches=True)
def list_(
    session: ApiSession,
    kind: Annotated[
        str | None, option("--kind", "Kind: warrant, batch, signing_key, api_key or srl_signer.")
    ] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = SHOWN,
) -> None:
    """List changes of the last 7 days, or since a given time."""
    query = drop_missing({"kind": kind, "from": since, "to": until})
    page = session.api.list_records(_PATH, "changes", most=limit, params=query)
    rows = [{**each, "by": _maker(each)} for each in page["changes"]]
    session.out.print_page(page, "changes", _COLUMNS, rows)


@command(app, "show", example="rescind changes show svc_bat_01J…", watches=True)
def show(
    session: ApiSession,
    change: Annotated[
        str, argument("CHANGE", "svc_rev_…, svc_bat_…, svc_key_…, …, or a revoked svc_wrt_…")
    ],
) -> None:
    """Show the propagation of a change, and the authorizers that may not enforce it yet."""
    change_id = change
    if change.startswith("svc_wrt_"):
        params = {"warrant_id": change, "limit": 1}
        revocations = session.api.get("/v1/revocations", params)["revocations"]
        if not revocations:
            raise UsageError(
                f"{change} has no revocation; for its history, run: rescind audit-log list "
                f"--warrant {change}. For a revoked key, give the key."
            )
        change_id = str(revocations[0]["id"])
    document = session.api.get(f"{_PATH}/{segment(change_id)}")
    if not session.out.is_for_people:
        session.out.record(document)
        return
    session.out.record(dict(_describe_change(document)))
    if document["lagging_authorizers"]:
        rows = [_lagging_row(each) for each in document["lagging_authorizers"]]
        session.out.print_table(document, rows, _LAGGING)


def _maker(change: dict[str, Any]) -> str | None:
    actor = change["actor"] or {}
    name: str | None = actor.get("name") or actor.get("identity")
    return name


def _describe_change(change: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the label and the value of each line about a change."""
    reach, counts, feed = change["reach"], change["authorizers"], change["feed"]
    yield "revoked", f"{change['name'] or change['id']} ({change['kind'].replace('_', ' ')})"
    if change["name"]:
        yield "identifier", change["id"]
    yield "reason", change["reason"]
    yield "by", _maker(change)
    key_id = (change["actor"] or {}).get("key_id")
    if key_id:
        yield "API key", key_id
    yield "warrants", reach["warrants"]
    yield "keys", reach["keys"]
    yield "recorded", change["recorded_at"]
    if undone := change.get("unrevoked_at"):
        yield "unrevoked", undone
        return
    if feed:
        published = f"not yet: {feed['published']} of {feed['total']}"
        if feed["sequence"] is not None:
            elapsed = _format_elapsed(change, feed["issued_at"])
            published = f"entry {feed['sequence']}, {elapsed}"
        yield "in the feed", published
        listed = f"not yet, due by {change['srl_due_at']}" if change["srl_due_at"] else "not yet"
        if srl := change["srl"]:
            listed = f"{srl['version']}, {_format_elapsed(change, srl['issued_at'])}"
        yield "in an SRL", listed
    yield (
        "authorizers",
        ", ".join(f"{number} {state.replace('_', ' ')}" for state, number in counts.items()),
    )
    for each in change["unregistered"]:
        yield "not registered", format_refused_client(each)
    yield "complete", f"since {change['completed_at']}" if change["is_complete"] else "not yet"
    if change["propagation_curve"]:
        yield "time to deny", _percentiles(change)
    yield "can be unrevoked", change["can_unrevoke"]


def _format_elapsed(change: dict[str, Any], time: str) -> str:
    seconds = datetime.fromisoformat(time) - datetime.fromisoformat(change["recorded_at"])
    return f"{time}, after {took(seconds.total_seconds())}"


def _percentiles(change: dict[str, Any]) -> str:
    """Return when each share of the registered authorizers was known to enforce the change."""
    counts, curve = change["authorizers"], change["propagation_curve"]
    known = counts["enforced"] + counts["fail_closed"]
    parts = []
    for name, share in _SHARES:
        rank = math.ceil(share * counts["total"])
        # A long curve omits some points. Take the next available point.
        at = rank - 1
        if known > len(curve):
            at = math.ceil((rank - 1) * (len(curve) - 1) / (known - 1))
        parts.append(f"{name} {took(curve[at][0]) if rank <= known else 'not yet'}")
    bound = "; some may have enforced it earlier" if change["is_upper_bound"] else ""
    return ", ".join(parts) + bound


def took(seconds: float) -> str:
    """Format a duration, rounded up, because it must never look shorter than it was."""
    whole = math.ceil(max(0.0, seconds))
    return f"{whole} s" if whole < _MINUTE else str(timedelta(seconds=whole))


def _lagging_row(authorizer: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a lagging authorizer."""
    holds, end = "none", authorizer["fail_closed_at"]
    if authorizer["sequence"] is not None:
        behind = f", {authorizer['lag_entries']} behind" if authorizer["lag_entries"] else ""
        holds = f"entry {authorizer['sequence']}{behind}"
    if authorizer["enforcement"] == "fail_closed":
        may_accept = f"no, refuses all warrants since {end}"
    elif end:
        may_accept = f"until {end}"
    elif authorizer["sequence"] is None:
        may_accept = "yes, never reported"
    elif authorizer["fail_open"]:
        may_accept = "yes, even when stale"
    else:
        may_accept = "yes, staleness limit unknown"
    return {**authorizer, "holds": holds, "end": may_accept}
