"""Root keys of tests, and documents that they have signed."""

from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from functions.trust import documents, publishing
from shared.authorizer.formats.documents import SignedDocument, signed_part
from shared.authorizer.formats.members import to_base64
from shared.authorizer.formats.trust import RootSet
from shared.model.callers import Caller
from shared.ports import Ports
from shared.ports.outside import RootSigner
from tests.kit.api import Tenant


class SeedRoot:
    """A `RootSigner` whose key is made from one byte."""

    def __init__(self, number: int) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)

    @property
    def public_key(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)


OFFLINE: Final = SeedRoot(1)


def roots_of(*roots: RootSigner, threshold: int = 1) -> RootSet:
    return RootSet(tuple(sorted(each.public_key for each in roots)), threshold)


def signed_draft(
    ports: Ports, caller: Caller, *signing: RootSigner, roots: RootSet | None = None
) -> SignedDocument:
    """The draft of now, signed by these roots, or by that of the document, or one offline."""
    head = documents.read_head(ports, caller.tenant_id)
    if head is None:
        roots = roots or roots_of(*(signing or (OFFLINE,)))
    elif not signing and ports.root and head.pin == RootSet((ports.root.public_key,), 1).pin:
        signing = (ports.root,)
    signing = signing or (OFFLINE,)
    made = publishing.draft(ports, caller, roots=roots)
    part = signed_part(made.payload)
    signatures = {each.public_key: each.sign(part) for each in signing}
    return SignedDocument(made.payload, signatures, made.document)


def body_of(signed: SignedDocument) -> dict[str, Any]:
    """The body that publishes a document."""
    signatures = [
        {"Key": to_base64(key), "Signature": to_base64(signature)}
        for key, signature in signed.signatures.items()
    ]
    return {"Payload": to_base64(signed.payload), "Signatures": signatures}


def pin_of(tenant: Tenant) -> str:
    """The pin of the roots of a tenant, whose documents are made if they are due."""
    publishing.keep(tenant.ports, tenant.id)
    head = documents.read_head(tenant.ports, tenant.id)
    assert head is not None
    return documents.read_document(tenant.ports, tenant.id, head.version).document.roots.pin
