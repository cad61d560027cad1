"""`rescind trust`: trust documents, which name the service keys of a tenant.

Other commands verify against them by the pin of the trust root (TRUST-12). Commands for root
holders are in `operator/roots.py`.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from infra.cli import drafts
from infra.cli.columns import Column
from infra.cli.commands import ApiSession, command, noun
from infra.cli.drafts import Draft
from infra.cli.errors import BadResponse, UsageError, argument, option, public_keys
from shared.authorizer import files
from shared.authorizer.formats import documents
from shared.authorizer.formats.documents import NotTrusted, SignedDocument
from shared.authorizer.formats.following import TrustState, follow
from shared.authorizer.formats.members import from_base64, text, to_base64
from shared.authorizer.formats.trust import TrustDocument

_PATH: Final = "/v1/trust"
_COLUMNS: Final = (Column("key", "key"), Column("uses", "uses"))

app = noun("Show, draft, sign and publish trust documents.")


def state_for_pin(tenant_id: str, pin: str, saved: bytes = b"") -> TrustState:
    """Return the trust state for a pin, from the saved state if there is one.

    Raises `ValueError` if the pin is invalid, or if `saved` is damaged or of another tenant.
    """
    state = TrustState(tenant_id, pin)
    if not saved:
        return state
    try:
        return TrustState.from_json(tenant_id, json.loads(saved)).with_pin(pin)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the saved trust document is not usable ({error})") from error


Root = Annotated[
    str | None,
    option(
        "--trust-pin",
        "Trust only keys that the roots with this pin have signed.",
        "PIN",
        lambda pin: state_for_pin("", pin).pin,
    ),
]
NewRoots = Annotated[
    list[bytes] | None,
    public_keys("--new-root", "Public key of a root of the draft; give all roots if any changes."),
]
Threshold = Annotated[int, option("--threshold", "Number of new roots that must sign.", "N", min=1)]
DraftOut = Annotated[Path, option("--out", "File for the draft.", "FILE")]
DraftFiles = Annotated[
    list[Path], argument("FILE", "Signed draft, or copies with one signature each.")
]


def follow_documents(session: ApiSession, tenant_id: str, pin: str) -> TrustDocument:
    """Return the newest trust document, after saving it in the profile.

    Raises `BadResponse` if there is no document, or if a client with this pin refuses it, and
    `UsageError` if the saved state is not usable.
    """
    path = session.profile.folder / f"trust-{tenant_id}.json"
    try:
        state = state_for_pin(tenant_id, pin, path.read_bytes() if path.exists() else b"")
    except ValueError as error:
        raise UsageError(f"{path}: {error}; remove it to start again from the pin.") from error
    try:
        after = follow(state, _fetch_documents(session, after=state.version), datetime.now(UTC))
    except NotTrusted as error:
        raise BadResponse(
            f"a client with this pin rejects the trust documents ({error.reason}). Get the pin "
            "from the operator through another channel than the service."
        ) from error
    if after is not state:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.replace(path, json.dumps(after.to_json()).encode())
    return _newest([after.held] if after.held else [])


@command(app, "show", example="rescind trust show")
def show(session: ApiSession, root: Root = None) -> None:
    """Show the newest trust document, with the pin for clients and the service keys.

    With --trust-pin, exits with 1 if a client with this pin refuses the document.
    """
    if root is None:
        document = _newest(_fetch_documents(session))
    else:
        document = follow_documents(session, session.api.get("/v1/whoami")["tenant_id"], root)
    fields: dict[str, Any] = {
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
    session.out.record(fields, () if session.out.is_document else [*fields][:-1])
    if not session.out.is_document:
        session.out.print_table(fields, fields["signers"], _COLUMNS)


@command(app, "draft", example="rescind trust draft --out draft.json")
def save_draft(
    session: ApiSession, out: DraftOut, new_root: NewRoots = None, threshold: Threshold = 1
) -> None:
    """Save the next trust document as a draft for root holders to sign.

    Give the file, or copies of it, to the root holders. They run `rescind trust sign` offline. To
    replace roots, name all new roots with --new-root.
    """
    draft = create_draft(session, new_root or [], threshold)
    draft.write(out)
    session.out.record(drafts.words(draft))
    session.out.print_message(f"Wrote {out}; {draft.missing()} signature(s) are missing.")


@command(app, "publish", example="rescind trust publish draft.json")
def publish(session: ApiSession, file: DraftFiles) -> None:
    """Publish a trust document that enough roots have signed. Safe to repeat."""
    publish_signed(session, drafts.merge([Draft.load(each) for each in file]))


def create_draft(session: ApiSession, keys: Sequence[bytes], threshold: int) -> Draft:
    """Return a new draft with these root keys, or with the current roots if there are none."""
    params = {"roots": ",".join(map(to_base64, keys)), "threshold": threshold} if keys else None
    present = _fetch_documents(session)
    body = session.api.get(f"{_PATH}/draft", params)
    try:
        document = SignedDocument.decode(from_base64(body["Payload"]), {})
    except (NotTrusted, KeyError, TypeError, ValueError):
        raise BadResponse("the service returned no draft of a trust document.") from None
    return Draft(present[-1] if present else None, document)


def publish_signed(session: ApiSession, draft: Draft) -> None:
    """Publish a trust document. Raises `UsageError` if signatures are missing."""
    if missing := draft.missing():
        raise UsageError(f"{missing} root signature(s) are missing; run: rescind trust sign.")
    session.out.record(session.api.put(_PATH, draft.next.form()))


def _fetch_documents(session: ApiSession, after: int = 0) -> Sequence[SignedDocument]:
    """Return the trust documents newer than `after`, without verifying them."""
    try:
        return documents.documents(session.api.send("GET", _PATH, params={"after": after}).body)
    except NotTrusted as error:
        raise BadResponse(f"the service returned no valid trust documents ({error}).") from None


def _newest(signed: Sequence[SignedDocument]) -> TrustDocument:
    if not signed:
        raise BadResponse("there is no trust document yet.")
    return signed[-1].document
