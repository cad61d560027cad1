"""Drafts of trust documents, as files that root holders sign in turn (TRUST-18).

A file is a response of `GET /v1/trust`: the current document if there is one, then the draft. Each
root holder can therefore review the draft's changes offline.
"""

from collections import ChainMap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Self

from infra.cli.errors import UsageError
from infra.cli.inputs import read_document
from shared.authorizer import files
from shared.authorizer.formats import documents, ed25519
from shared.authorizer.formats.documents import NotTrusted, SignedDocument
from shared.authorizer.formats.following import LIFETIME_MAX
from shared.authorizer.formats.members import text, to_base64
from shared.authorizer.formats.trust import DocumentSigner, RootSet


@dataclass(frozen=True, slots=True)
class Draft:
    """A document to be signed, and the current document, or None if there is none yet."""

    before: SignedDocument | None
    next: SignedDocument

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return the draft in a file.

        Raises `UsageError` if it is not a draft, or if the current document lacks its root
        signatures.
        """
        try:
            signed = documents.documents(read_document(path))
        except NotTrusted as error:
            raise _usage_error(
                path, f"is not a draft of a trust document ({error.reason})"
            ) from None
        match signed:
            case (document,):
                draft = cls(None, document)
            case (before, document):
                draft = cls(before, document)
            case _:
                raise _usage_error(path, "must contain the current document and the draft")
        if problem := draft._problem():
            raise _usage_error(path, problem)
        return draft

    def write(self, path: Path) -> None:
        """Replace the file atomically. Raises `UsageError`."""
        signed = [*([self.before] if self.before else []), self.next]
        try:
            files.replace(path, documents.answer(signed))
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}.") from None

    @property
    def roots(self) -> tuple[RootSet, ...]:
        """The root sets that must sign: the current document's and the draft's."""
        own = self.next.document.roots
        present = self.before.document.roots if self.before else own
        return (own,) if present == own else (present, own)

    def check_current(self, now: datetime) -> None:
        """Raise `UsageError` if clients would refuse the draft, regardless of its signatures."""
        document = self.next.document
        if now >= document.expires_at:
            raise UsageError("the draft has expired; create another: rescind trust draft.")
        if document.expires_at - document.issued_at > LIFETIME_MAX:
            raise UsageError(f"the draft is valid for more than {LIFETIME_MAX.days} days.")

    def add_signature(self, key: bytes, signature: bytes) -> Self:
        """Return the draft with a signature.

        Raises `UsageError` if the key is not a root of the draft.
        """
        if not any(key in roots.keys for roots in self.roots):
            raise UsageError(f"the key {to_base64(key)} is not a root of this document.")
        signatures = {**self.next.signatures, key: signature}
        return replace(self, next=replace(self.next, signatures=signatures))

    def missing(self) -> int:
        """Return the minimum number of missing root signatures."""
        return max(roots.threshold - len(self.signers(roots)) for roots in self.roots)

    def signers(self, roots: RootSet) -> list[bytes]:
        """Return the keys of a root set that have a valid signature."""
        part = documents.signed_part(self.next.payload)
        signatures = self.next.signatures
        return [
            key
            for key in roots.keys
            if key in signatures and ed25519.is_signed(part, signatures[key], public_key=key)
        ]

    def _problem(self) -> str | None:
        """Return why the draft must not be signed, or None."""
        if self.before is None:
            return None
        before, draft = self.before.document, self.next.document
        if not self.before.is_signed_by(before.roots):
            return "contains a current document that lacks signatures of its roots"
        if before.tenant_id != draft.tenant_id:
            return "contains documents of two tenants"
        if before.version >= draft.version:
            return "contains a draft that is older than the current document"
        return None


def merge(drafts: Sequence[Draft]) -> Draft:
    """Return one draft with all signatures. Raises `UsageError` if the drafts differ."""
    if len({each.next.payload for each in drafts}) != 1:
        raise UsageError(
            "the files contain different drafts; all roots must sign copies of one draft."
        )
    signatures = dict(ChainMap(*(dict(each.next.signatures) for each in drafts)))
    return replace(drafts[0], next=replace(drafts[0].next, signatures=signatures))


def _usage_error(path: Path, problem: str) -> UsageError:
    return UsageError(f"{path} {problem}; create another: rescind trust draft.")


def words(draft: Draft) -> dict[str, object]:
    """Return the fields of a draft, in reading order for signers."""
    document = draft.next.document
    before = draft.before.document if draft.before else None
    old = {*before.signers} if before else set()
    days = (document.expires_at - document.issued_at).days
    roots = _root_names(document.roots)
    if before and before.roots != document.roots:
        roots = f"CHANGE from {_root_names(before.roots)} TO {roots}"
    signed_by = []
    for each in draft.roots:
        which = "the roots of the draft" if each == document.roots else "the current roots"
        signed_by.append(f"{len(draft.signers(each))} of {each.threshold} of {which}")
    first = "THIS IS THE FIRST DOCUMENT"
    return {
        "tenant": document.tenant_id,
        "version": f"{document.version}, after {before.version}"
        if before
        else f"{document.version}",
        "before": f"version {before.version} of {text(before.issued_at)}" if before else first,
        "valid": f"{text(document.issued_at)} to {text(document.expires_at)} ({days} days)",
        "roots": roots,
        "pin": document.roots.pin,
        "adds": _signers({*document.signers} - old),
        "removes": _signers(old - {*document.signers}),
        "keeps": _signers({*document.signers} & old),
        "signing keys": _change(
            before is not None and before.signing_keys == document.signing_keys
        ),
        "witnesses": _change(before is not None and before.witnesses == document.witnesses),
        "signed by": signed_by,
    }


def _root_names(roots: RootSet) -> str:
    keys = ", ".join(map(to_base64, roots.keys))
    return f"{roots.threshold} of {len(roots.keys)}: {keys}"


def _signers(signers: Iterable[DocumentSigner]) -> list[str]:
    return [f"{to_base64(each.key)} ({', '.join(each.uses)})" for each in sorted(signers)]


def _change(is_same: bool) -> str:
    return "unchanged" if is_same else "changed"
