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
from shared.authorizer.formats.trust import DocumentSigner, RootSet, TrustDocument


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
            found = documents.documents(read_document(path))
        except NotTrusted as error:
            raise _usage_error(
                path, f"is not a draft of a trust document ({error.reason})"
            ) from None
        match found:
            case (made,):
                draft = cls(None, made)
            case (before, made):
                draft = cls(before, made)
            case _:
                raise _usage_error(path, "must contain the current document and the draft")
        if problem := draft._problem():
            raise _usage_error(path, problem)
        return draft

    def write(self, path: Path) -> None:
        """Replace the file atomically. Raises `UsageError`."""
        given = [*([self.before] if self.before else []), self.next]
        try:
            files.replace(path, documents.answer(given))
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
        made = self.next.document
        if now >= made.expires_at:
            raise UsageError("the draft has expired; create another: rescind trust draft.")
        if made.expires_at - made.issued_at > LIFETIME_MAX:
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
        given = self.next.signatures
        return [
            key
            for key in roots.keys
            if key in given and ed25519.is_signed(part, given[key], public_key=key)
        ]

    def _problem(self) -> str | None:
        """Return why the draft must not be signed, or None."""
        if self.before is None:
            return None
        before, made = self.before.document, self.next.document
        if not self.before.is_signed_by(before.roots):
            return "contains a current document that lacks signatures of its roots"
        if before.tenant_id != made.tenant_id:
            return "contains documents of two tenants"
        if before.version >= made.version:
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
    made, before = draft.next.document, draft.before.document if draft.before else None
    old = {*before.signers} if before else set()
    days = (made.expires_at - made.issued_at).days
    return {
        "tenant": made.tenant_id,
        "version": f"{made.version}, after {before.version}" if before else f"{made.version}",
        "before": _issued_text(before) if before else "THIS IS THE FIRST DOCUMENT",
        "valid": f"{text(made.issued_at)} to {text(made.expires_at)} ({days} days)",
        "roots": _roots(made.roots, before.roots if before else None),
        "pin": made.roots.pin,
        "adds": _signers({*made.signers} - old),
        "removes": _signers(old - {*made.signers}),
        "keeps": _signers({*made.signers} & old),
        "signing keys": _change(before is not None and before.signing_keys == made.signing_keys),
        "witnesses": _change(before is not None and before.witnesses == made.witnesses),
        "signed by": [_count(draft, roots) for roots in draft.roots],
    }


def _issued_text(previous: TrustDocument) -> str:
    return f"version {previous.version} of {text(previous.issued_at)}"


def _roots(roots: RootSet, previous: RootSet | None) -> str:
    if previous is None or previous == roots:
        return _root_names(roots)
    return f"CHANGE from {_root_names(previous)} TO {_root_names(roots)}"


def _root_names(roots: RootSet) -> str:
    keys = ", ".join(map(to_base64, roots.keys))
    return f"{roots.threshold} of {len(roots.keys)}: {keys}"


def _signers(signers: Iterable[DocumentSigner]) -> list[str]:
    return [f"{to_base64(each.key)} ({', '.join(each.uses)})" for each in sorted(signers)]


def _change(is_same: bool) -> str:
    return "unchanged" if is_same else "changed"


def _count(draft: Draft, roots: RootSet) -> str:
    which = "the roots of the draft" if roots == draft.next.document.roots else "the current roots"
    return f"{len(draft.signers(roots))} of {roots.threshold} of {which}"
