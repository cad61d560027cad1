"""The trust document of a tenant, for commands that are given the pin of its roots (TRUST-12)."""

import json
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Final

import typer

from infra.cli import profiles
from infra.cli.commands import ApiSession
from infra.cli.errors import ApiError, NoUsableAnswer, WrongUsage
from shared.authorizer.formats import documents
from shared.authorizer.formats.documents import NotTrusted
from shared.authorizer.formats.following import TrustState, follow
from shared.authorizer.formats.trust import TrustDocument

_PATH: Final = "/v1/trust"

Root = Annotated[
    str | None,
    typer.Option(
        "--root",
        metavar="PIN",
        help="Trust what the roots with this pin signed, and nothing else of the service.",
    ),
]


def followed(session: ApiSession, tenant_id: str, pin: str) -> TrustDocument:
    """Return the newest trust document, which is kept in the profile before it counts.

    Raises `WrongUsage` if the pin is none, `NoUsableAnswer` if the documents are refused.
    """
    path = session.profile.folder / f"trust-{tenant_id}.json"
    try:
        state = _kept(path, TrustState(tenant_id, pin))
    except ValueError as error:
        raise WrongUsage(f"--root: {error}.") from error
    try:
        given = documents.documents(_answer(session, state.version))
        after = follow(state, given, datetime.now(UTC))
    except NotTrusted as error:
        raise NoUsableAnswer(
            f"the trust documents of the service are refused: {error.reason}. Ask who runs it for "
            "the pin, on a way that does not lead through the service."
        ) from error
    if after.held is None:
        raise NoUsableAnswer("the service has no trust document of this tenant.")
    if after is not state:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        profiles.replace(path, json.dumps({"pin": pin, **_form(after)}).encode())
    return after.held.document


def _answer(session: ApiSession, after: int) -> bytes:
    try:
        return session.api.send("GET", _PATH, params={"after": after}).content
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        raise NoUsableAnswer("the service has no trust document of this tenant.") from error


def _form(state: TrustState) -> dict[str, object]:
    held = [] if state.held is None else [state.held]
    return dict(json.loads(documents.answer(held)))


def _kept(path: Path, asked: TrustState) -> TrustState:
    """Return the state that is kept, for the pin that was asked. Raises `ValueError`."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return asked
    try:
        (held,) = documents.documents(text)
        kept = TrustState(asked.tenant_id, str(json.loads(text)["pin"]), held)
    except (NotTrusted, KeyError) as error:
        raise ValueError(f"{path} is damaged; remove it to begin at the pin again") from error
    return kept.pinned(asked.pin)
