"""Whether a witness signs a checkpoint (C2SP tlog-witness). Reads and writes nothing."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import NamedTuple

from shared.authorizer.formats.ed25519 import is_signed
from shared.model.audit import checkpoint, merkle
from shared.model.audit.checkpoint import Checkpoint, NoteKey
from shared.model.audit.cosignatures import Submission


class Signed(NamedTuple):
    """The tree of a log that the witness signed last: its leaves, and the root over them."""

    size: int = 0
    root: bytes = merkle.EMPTY


class NotCosigned(Exception):
    """The checkpoint is not signed; `status` and `said` are the answer."""

    def __init__(self, status: HTTPStatus, said: str) -> None:
        super().__init__(said)
        self.status, self.said = status, said


def parsed(body: bytes) -> tuple[Submission, Checkpoint]:
    """Return the request in a body, and the checkpoint in it. Raises `NotCosigned`."""
    try:
        asked = Submission.parse(body)
        return asked, Checkpoint.parse(asked.note)
    except ValueError:
        raise NotCosigned(HTTPStatus.BAD_REQUEST, "not a request of tlog-witness") from None


def signed_by(note: str, keys: Sequence[NoteKey]) -> str:
    """Return the lines of the note that are signatures by these keys of the log: one or more.

    `keys` are empty if the log is not known. Raises `NotCosigned`, also if one is not valid.
    """
    if not keys:
        raise NotCosigned(HTTPStatus.NOT_FOUND, "this witness does not know the log")
    text, lines = checkpoint.text_of(note).encode(), ""
    for key in keys:
        for each in checkpoint.signatures(note, key):
            if not is_signed(text, each, public_key=key.public_key):
                raise NotCosigned(HTTPStatus.FORBIDDEN, "a signature is not valid")
            lines += key.line(each)
    if not lines:
        raise NotCosigned(HTTPStatus.FORBIDDEN, "no known key of the log signed it")
    return lines


def check_extends(asked: Submission, stated: Checkpoint, last: Signed) -> None:
    """Check that the tree extends the one that was signed last. Raises `NotCosigned`."""
    if asked.old > stated.size:
        raise NotCosigned(HTTPStatus.BAD_REQUEST, "the old size is larger than the new one")
    if asked.old != last.size:
        raise NotCosigned(HTTPStatus.CONFLICT, f"{last.size}\n")
    if not stated.size and stated.root != merkle.EMPTY:
        raise NotCosigned(
            HTTPStatus.UNPROCESSABLE_ENTITY, "the root of the empty tree is another one"
        )
    if not merkle.extends(last.size, last.root, stated.size, stated.root, asked.proof):
        raise NotCosigned(
            HTTPStatus.UNPROCESSABLE_ENTITY, "the tree does not extend the one before"
        )
