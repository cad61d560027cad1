"""The changes in a draft of a trust document, in words for the people who sign it."""

from collections.abc import Iterable

from infra.cli.drafts import Draft
from shared.authorizer.formats.members import text, to_base64
from shared.authorizer.formats.trust import NamedSigner, Roots, TrustDocument


def words(draft: Draft) -> dict[str, object]:
    """Return the fields of a draft, in the order in which people read them."""
    made, before = draft.next.document, draft.before.document if draft.before else None
    old = {*before.signers} if before else set()
    days = (made.expires_at - made.issued_at).days
    return {
        "tenant": made.tenant_id,
        "version": f"{made.version}, after {before.version}" if before else f"{made.version}",
        "before": _issued(before) if before else "THIS IS THE FIRST DOCUMENT",
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


def _issued(before: TrustDocument) -> str:
    return f"version {before.version} of {text(before.issued_at)}"


def _roots(roots: Roots, before: Roots | None) -> str:
    if before is None or before == roots:
        return _named(roots)
    return f"CHANGE from {_named(before)} TO {_named(roots)}"


def _named(roots: Roots) -> str:
    keys = ", ".join(map(to_base64, roots.keys))
    return f"{roots.threshold} of {len(roots.keys)}: {keys}"


def _signers(signers: Iterable[NamedSigner]) -> list[str]:
    return [f"{to_base64(each.key)} ({', '.join(each.uses)})" for each in sorted(signers)]


def _change(is_same: bool) -> str:
    return "as before" if is_same else "others than before"


def _count(draft: Draft, roots: Roots) -> str:
    which = "its own roots" if roots == draft.next.document.roots else "the present roots"
    return f"{len(draft.signers(roots))} of {roots.threshold} of {which}"
