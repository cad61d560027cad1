"""`rescind trust`: the documents that say which keys sign for a tenant, and the roots of them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from infra.cli import drafts, trust_api
from infra.cli.commands import ApiSession, command, noun
from infra.cli.draft_words import words
from infra.cli.drafts import Draft
from infra.cli.errors import Exit, WrongUsage, checked
from infra.cli.operator import roots
from infra.cli.output import Column
from shared.authorizer.formats import following
from shared.authorizer.formats.documents import NotTrusted, SignedDocument
from shared.authorizer.formats.following import TrustState
from shared.authorizer.formats.members import text, to_base64
from shared.model.lists.verification import public_key_bytes

_COLUMNS: Final = (Column("key", "key"), Column("uses", "uses"))

Pin = Annotated[
    str | None,
    typer.Option(
        "--root", metavar="PIN", help="Check the documents as a client with this pin does."
    ),
]
NewRoots = Annotated[
    list[bytes] | None,
    typer.Option(
        "--new-root",
        parser=checked(public_key_bytes),
        metavar="BASE64",
        help="A root of the draft, by its public key; give all of them, if they change.",
    ),
]
Threshold = Annotated[
    int, typer.Option("--threshold", min=1, metavar="N", help="How many of them must sign.")
]
DraftFiles = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="The signed draft, or copies with one signature each."),
]

app = noun("Trust documents: which keys sign for the tenant, and the roots that say so.")


def register(root: typer.Typer) -> None:
    """Add the commands."""
    roots.register(app)
    root.add_typer(app, name="trust")


@command(app, "show", example="rescind trust show")
def show(session: ApiSession, root: Pin = None) -> int | None:
    """Show the newest document, with the pin for clients and the keys that may sign.

    With --root, exit code 1 says that a client with this pin refuses it.
    """
    found = trust_api.documents_of(session)
    if not found:
        session.out.say("There is no trust document yet.")
        return Exit.FAILED
    if root is not None and (problem := _refusal(found, root)):
        session.out.error(problem, {"code": "not_trusted", "message": problem})
        return Exit.FAILED
    document = found[-1].document
    shown: dict[str, Any] = {
        "tenant": document.tenant_id,
        "version": document.version,
        "pin": document.roots.pin,
        "issued_at": text(document.issued_at),
        "expires_at": text(document.expires_at),
        "threshold": document.roots.threshold,
        "roots": [to_base64(each) for each in document.roots.keys],
        "signers": [
            {"key": to_base64(each.key), "uses": [*each.uses]} for each in document.signers
        ],
    }
    session.out.record(shown, () if session.out.is_json else [*shown][:-1])
    if not session.out.is_json:
        session.out.table(shown, shown["signers"], _COLUMNS)
    return None


@command(app, "draft", example="rescind trust draft --out draft.json")
def draft(
    session: ApiSession, out: roots.DraftOut, new_root: NewRoots = None, threshold: Threshold = 1
) -> None:
    """Get the next document, which roots elsewhere are to sign.

    Give the file, or copies of it, to the holders of the roots. They run `rescind trust sign`
    without the service. To replace roots, name all of the new ones with --new-root.
    """
    made = trust_api.drafted(session, new_root or [], threshold)
    made.write(out)
    session.out.record(words(made))
    session.out.say(f"Wrote {out}; {made.missing()} signature(s) are missing.")


@command(app, "publish", example="rescind trust publish draft.json")
def publish(session: ApiSession, file: DraftFiles) -> None:
    """Publish a document that enough roots have signed. It may be repeated."""
    trust_api.publish(session, drafts.merged([Draft.read(each) for each in file]))


def _refusal(found: Sequence[SignedDocument], pin: str) -> str | None:
    try:
        state = TrustState(found[-1].document.tenant_id, pin)
        following.follow(state, found, datetime.now(UTC))
    except ValueError as error:
        raise WrongUsage(f"--root: {error}.") from None
    except NotTrusted as error:
        return f"A client with this pin refuses the documents ({error.reason})."
    return None
