"""`rescind trust new-root`, `sign`, `rotate-root` and `replace-root`, for those who hold a root."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from functions.trust import documents, publishing
from infra import private_files
from infra.cli.commands import ApiSession, command, confirm, local_command
from infra.cli.drafts import Draft, words
from infra.cli.errors import UsageError, Yes, argument, option, public_keys
from infra.cli.operator.operators import Handle, Operator, operator_command
from infra.cli.output import Output
from infra.cli.trust import DraftOut, Threshold, app, create_draft, publish_signed
from shared import wiring
from shared.authorizer.formats.documents import signed_part
from shared.authorizer.formats.members import to_base64
from shared.authorizer.formats.trust import RootSet
from shared.operations.operator import onboarding
from shared.ports.outside import RootSigner

_PASSPHRASE_MIN: Final = 12

Out = Annotated[Path, option("--out", "File for the new key.", "FILE")]
DraftFile = Annotated[Path, argument("FILE", "Draft, which the signed draft replaces.")]
Place = Annotated[str, option("--key", "Your root key: a file, pkcs11:… or kms:ARN.", "ROOT")]
PresentPlaces = Annotated[
    list[str], option("--key", "Current root that signs; may be repeated.", "ROOT")
]
NewPlaces = Annotated[
    list[str] | None, option("--new", "New root that signs here; may be repeated.", "ROOT")
]
NewKeys = Annotated[
    list[bytes] | None,
    public_keys("--new-public", "Public key of a new root that signs elsewhere; may be repeated."),
]
Passphrase = Annotated[
    Path | None, option("--passphrase-file", "File with the passphrase (default: prompt).", "FILE")
]
Plain = Annotated[
    bool,
    option(
        "--no-passphrase",
        "Do not encrypt the file. Anyone who can read it can sign trust documents.",
    ),
]
Lost = Annotated[bool, option("--lost", "Confirm that the current roots are lost or stolen.")]


@local_command(app, "new-root", example="rescind trust new-root --out root-1.key")
def create_root(
    out: Output, out_file: Out, passphrase_file: Passphrase = None, no_passphrase: Plain = False
) -> None:
    """Create a root key in a new file, and print its public key.

    Store the file outside the service, and back it up. It is PKCS#8, encrypted with scrypt.
    """
    passphrase = None
    if not no_passphrase:
        passphrase = (
            _prompt_passphrase("Passphrase of the new root", twice=True).encode()
            if passphrase_file is None
            else wiring.read_passphrase(passphrase_file)
        )
        if len(passphrase) < _PASSPHRASE_MIN:
            raise UsageError(f"a passphrase must have at least {_PASSPHRASE_MIN} characters.")
    root = wiring.create_root(out_file, passphrase)
    pin = RootSet((root.public_key,), 1).pin
    out.record({"file": str(out_file), "public_key": to_base64(root.public_key), "pin": pin})
    out.print_message("Use this pin for clients if the key is the only root of their tenant.")


@local_command(app, "sign", example="rescind trust sign draft.json --key root-1.key")
def sign(
    out: Output,
    file: DraftFile,
    key: Place,
    passphrase_file: Passphrase = None,
    yes: Yes = False,
) -> None:
    """Show the changes of a draft, and sign it with your root key. This works offline.

    Sign only changes that you expect. Enough root signatures decide which keys clients trust.
    """
    draft = Draft.load(file)
    draft.check_current(datetime.now(UTC))
    root = _open_root(key, passphrase_file)
    # Fail before the prompt if the key is not a root of the draft.
    draft.add_signature(root.public_key, b"")
    out.record(words(draft))
    confirm("Sign this document?", yes=yes)
    signed = _sign_draft(draft, [root])
    signed.write(file)
    missing = signed.missing()
    rest = (
        f"{missing} signature(s) are missing"
        if missing
        else f"now run: rescind trust publish {file}"
    )
    out.print_message(f"Signed {file}; {rest}.")


@operator_command(app, "replace-root", example="rescind trust replace-root acme --lost")
def replace_root(operator: Operator, tenant: Handle, lost: Lost = False, yes: Yes = False) -> None:
    """Replace roots that are lost or stolen, with a first trust document of other roots.

    Every client needs the new pin. Without it, a client refuses all warrants when its document
    expires. If the new root is not at hand (RESCIND_ROOT), get a draft next: rescind trust draft
    --new-root.
    """
    if not lost:
        raise UsageError("use rotate-root; if the roots are lost or stolen, add --lost.")
    ports = operator.ports
    caller = onboarding.operator(ports, handle=tenant, user=private_files.name())
    confirm(f"Replace the roots? Every client of {tenant} needs a new pin.", yes=yes)
    publishing.replace_root(ports, caller)
    if ports.root is None:
        operator.out.print_message(
            "Next, create and sign a first document: rescind trust draft --new-root …"
        )
        return
    publishing.keep(ports, caller.tenant_id)
    head = documents.read_head(ports, caller.tenant_id)
    if head is not None:
        operator.out.record({"tenant": tenant, "version": head.version, "pin": head.pin})


@command(
    app,
    "rotate-root",
    example="rescind trust rotate-root --key .data/root.key --new root-1.key --new root-2.key "
    "--threshold 2 --out draft.json",
)
def rotate_root(
    session: ApiSession,
    key: PresentPlaces,
    out: DraftOut,
    new: NewPlaces = None,
    new_public: NewKeys = None,
    threshold: Threshold = 1,
    passphrase_file: Passphrase = None,
    yes: Yes = False,
) -> None:
    """Replace the roots by a document that the current and the new roots sign.

    Clients follow it without a new pin. If roots elsewhere must also sign, the draft is saved to
    the file. Otherwise it is published. The service renews documents automatically only if
    RESCIND_ROOT is a new root and its signature suffices.
    """
    present = [_open_root(each, passphrase_file) for each in key]
    added = [_open_root(each, passphrase_file) for each in new or []]
    keys = sorted({*(each.public_key for each in added), *(new_public or [])})
    if not threshold <= len(keys):
        raise UsageError("--threshold exceeds the number of new roots; add --new or --new-public.")
    draft = create_draft(session, keys, threshold)
    draft.check_current(datetime.now(UTC))
    session.out.record(words(draft))
    confirm("Replace the roots with these?", yes=yes)
    signed = _sign_draft(draft, [*present, *added])
    signed.write(out)
    if missing := signed.missing():
        session.out.print_message(
            f"Wrote {out}; {missing} signature(s) are missing; run: rescind trust sign."
        )
        return
    publish_signed(session, signed)


def _sign_draft(draft: Draft, signing: Sequence[RootSigner]) -> Draft:
    for root in signing:
        draft = draft.add_signature(root.public_key, root.sign(signed_part(draft.next.payload)))
    return draft


def _open_root(place: str, passphrase_file: Path | None) -> RootSigner:
    """Open a root key. Prompt for a passphrase that is needed and not in a file."""
    passphrase = None
    if wiring.is_root_encrypted(place):
        if passphrase_file is not None:
            passphrase = wiring.read_passphrase(passphrase_file)
        else:
            passphrase = _prompt_passphrase(f"Passphrase of {place}").encode()
    return wiring.root_at(place, passphrase)


def _prompt_passphrase(what: str, *, twice: bool = False) -> str:
    if not sys.stdin.isatty():
        raise UsageError(f"{what}: cannot prompt without a terminal; add --passphrase-file.")
    return str(typer.prompt(what, hide_input=True, confirmation_prompt=twice, err=True))
