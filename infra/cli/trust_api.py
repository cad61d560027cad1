"""The trust documents of the API, for the commands of `rescind trust`."""

from collections.abc import Sequence
from typing import Final

from infra.cli.commands import ApiSession
from infra.cli.drafts import Draft
from infra.cli.errors import NoUsableAnswer, WrongUsage
from shared.authorizer.formats import documents
from shared.authorizer.formats.documents import NotTrusted, SignedDocument
from shared.authorizer.formats.members import from_base64, to_base64

_PATH: Final = "/v1/trust"


def documents_of(session: ApiSession) -> Sequence[SignedDocument]:
    """Return the documents that a client with the first pin follows. None is verified."""
    try:
        return documents.documents(session.api.send("GET", _PATH).content)
    except NotTrusted as error:
        raise NoUsableAnswer(f"The service answers with no trust documents ({error}).") from None


def drafted(session: ApiSession, keys: Sequence[bytes], threshold: int) -> Draft:
    """Return a new draft with these roots; without any, with the present ones."""
    asked = {"roots": ",".join(map(to_base64, keys)), "threshold": threshold} if keys else None
    present = documents_of(session)
    body = session.api.get(f"{_PATH}/draft", asked)
    try:
        made = SignedDocument.opened(from_base64(body["Payload"]), {})
    except (NotTrusted, KeyError, TypeError, ValueError):
        raise NoUsableAnswer("The service answers with no draft of a trust document.") from None
    return Draft(present[-1] if present else None, made)


def publish(session: ApiSession, signed: Draft) -> None:
    """Publish a document. Raises `WrongUsage` if signatures are missing."""
    if missing := signed.missing():
        raise WrongUsage(f"{missing} signature(s) of roots are missing: rescind trust sign.")
    session.out.record(session.api.put(_PATH, signed.next.form()))
