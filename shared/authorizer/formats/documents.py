"""Signed trust documents in bytes, and responses of `GET /v1/trust` (TRUST-8)."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self, TypeVar

from . import ed25519
from .members import MalformedBytes, from_base64, parse_json, to_base64
from .trust import RootSet, TrustDocument
from .wire import HashReference

# Maximum sizes of a payload and of a response in bytes, and numbers of documents and signatures.
DOCUMENT_BYTES_MAX: Final = 64 * 1024
ANSWER_BYTES_MAX: Final = 6 * 2**20
DOCUMENTS_MAX: Final = 64
SIGNATURES_MAX: Final = 16

_PREFIX: Final = b"rescind-trust-v1\n"

_Payload = TypeVar("_Payload")


class RootReason(StrEnum):
    """Why data vouched for by a root key was rejected, in the order of the checks (TRUST-12).

    Programs compare these values, so they do not change.
    """

    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    TENANT = "tenant"
    ROOT = "root"
    EQUIVOCATION = "equivocation"
    ROLLBACK = "rollback"
    LIFETIME = "lifetime"
    FUTURE = "future"
    SIGNATURE = "signature"
    TRUST_EXPIRED = "trust_expired"
    BEHIND = "behind"
    HASH = "hash"
    CERTIFICATE = "certificate"
    EXPIRED = "expired"


class NotTrusted(Exception):
    """A document, or an object that it vouches for, was rejected. The state does not change."""

    def __init__(self, reason: RootReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


def decode_payload(decode: Callable[[bytes], _Payload], payload: bytes) -> _Payload:
    """Decode a payload with `decode`. Raises `NotTrusted`: `MALFORMED`."""
    try:
        return decode(payload)
    except MalformedBytes:
        raise NotTrusted(RootReason.MALFORMED) from None


@dataclass(frozen=True, slots=True)
class SignedDocument:
    """A document with its bytes and its signatures by key, all unverified."""

    payload: bytes
    signatures: Mapping[bytes, bytes]
    document: TrustDocument

    @classmethod
    def decode(cls, payload: bytes, signatures: Mapping[bytes, bytes]) -> Self:
        """Return the document in these bytes. Raises `NotTrusted`: `TOO_LARGE`, `MALFORMED`."""
        if len(payload) > DOCUMENT_BYTES_MAX or len(signatures) > SIGNATURES_MAX:
            raise NotTrusted(RootReason.TOO_LARGE)
        return cls(payload, signatures, decode_payload(TrustDocument.decode, payload))

    @property
    def reference(self) -> HashReference:
        """The reference by which a feed head names the document."""
        return HashReference(hashlib.sha256(self.payload).digest(), self.document.version)

    def is_signed_by(self, roots: RootSet) -> bool:
        """Return whether enough of these roots signed the document."""
        signed_bytes, signatures_left = signed_part(self.payload), roots.threshold
        for key in roots.keys:
            signature = self.signatures.get(key)
            if signature is not None and ed25519.is_signed(signed_bytes, signature, public_key=key):
                signatures_left -= 1
                if not signatures_left:
                    return True
        return False

    def form(self) -> dict[str, Any]:
        """Return the document in the form of the API."""
        signatures = [
            {"Key": to_base64(key), "Signature": to_base64(signature)}
            for key, signature in sorted(self.signatures.items())
        ]
        return {"Payload": to_base64(self.payload), "Signatures": signatures}


def signed_part(payload: bytes) -> bytes:
    """Return the 49 bytes that the signatures of a document cover."""
    return _PREFIX + hashlib.sha256(payload).digest()


def documents(body: bytes) -> tuple[SignedDocument, ...]:
    """Return the documents in a response of `GET /v1/trust`, in their order.

    Raises `NotTrusted`: `TOO_LARGE`, if possible before parsing, or `MALFORMED`.
    """
    if len(body) > ANSWER_BYTES_MAX:
        raise NotTrusted(RootReason.TOO_LARGE)
    try:
        forms = parse_json(body)["documents"]
        if type(forms) is not list:
            raise TypeError("documents must be a list")
        signed_payloads = []
        for each in forms:
            payload, items = from_base64(each["Payload"]), each["Signatures"]
            if type(items) is not list:
                raise TypeError("Signatures must be a list")
            signatures = {from_base64(one["Key"]): from_base64(one["Signature"]) for one in items}
            if len(signatures) != len(items):
                raise ValueError("a key signed twice")
            signed_payloads.append((payload, signatures))
    except (ValueError, KeyError, TypeError):
        raise NotTrusted(RootReason.MALFORMED) from None
    if len(signed_payloads) > DOCUMENTS_MAX:
        raise NotTrusted(RootReason.TOO_LARGE)
    return tuple(SignedDocument.decode(*each) for each in signed_payloads)


def answer(documents: Iterable[SignedDocument]) -> bytes:
    """Return the body of a response of `GET /v1/trust` with these documents."""
    return json.dumps({"documents": [each.form() for each in documents]}).encode()


def documents_after(
    documents: Sequence[SignedDocument], *, after: int
) -> tuple[SignedDocument, ...]:
    """Select the documents for a client that has the version `after` (TRUST-8).

    `documents` are all documents by version. The selection contains newer documents that change the
    roots, and the newest document.
    """
    roots = [None, *(each.document.roots for each in documents)]
    return tuple(
        each
        for previous_roots, each in zip(roots, documents, strict=False)
        if each.document.version > after
        and (each.document.roots != previous_roots or each is documents[-1])
    )
