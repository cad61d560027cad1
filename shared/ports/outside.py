"""Ports to external systems: the queue, servers of third parties, and external keys.

One external key wraps seeds (KEY-2). Another one signs trust documents (TRUST-7).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from shared.model.outbound import DeliveryOutcome, DeliveryResponse, EventMessage

# Timeout of a delivery attempt, in seconds (HOOK-7).
SENDER_PATIENCE_SECONDS = 15.0
# Timeout of a request to an identity provider, in seconds, and the maximum response size in bytes.
OUTBOUND_PATIENCE_SECONDS = 5.0
OUTBOUND_ANSWER_MAX = 256 * 1024
# Timeout of a request to a witness, in seconds, and the maximum size of it and of its response.
WITNESS_PATIENCE_SECONDS = 10.0
WITNESS_BYTES_MAX = 64 * 1024


class MessageQueue(Protocol):
    """Messages, each delivered at least once, in any order.

    - After `send` returns, all messages will be delivered.
    - Every failure raises `Unavailable`. Some of the messages may still be delivered.
    - The queue can be shared between threads.
    """

    def send(self, messages: Iterable[str]) -> None:
        """Send any number of short, non-empty texts. Raises `Unavailable`."""
        ...


class Sender(Protocol):
    """Sends webhook requests to the servers of tenants.

    - It connects only to addresses that `outbound.is_allowed` accepts, checked at each attempt. It
      uses TLS and requires a valid certificate for the host name in the URL.
    - It follows no redirect, uses no proxy, and sends no credential of the service.
    - An attempt ends after `SENDER_PATIENCE_SECONDS`, even if the server is still sending.
    - Failures are reported in the response and never raised.
    - The sender can be shared between threads.
    """

    def send(self, url: str, messages: Sequence[EventMessage]) -> list[DeliveryResponse]:
        """Post all messages concurrently, one attempt each. Return the responses in order."""
        ...


class OutboundAnswer(NamedTuple):
    """The outcome of a request. Unless it is `RESPONSE`, `status` is 0 and `body` empty."""

    outcome: DeliveryOutcome
    status: int = 0
    body: bytes = b""


class OutboundHttp(Protocol):
    """Sends requests to URLs that tenants configured, and reads the responses.

    - It connects to the same addresses as `Sender`, in the same way. It uses ports other than 443
      only in the operator's networks.
    - A request ends after `OUTBOUND_PATIENCE_SECONDS`. A truncated response, a response of more
      than `OUTBOUND_ANSWER_MAX` bytes, or an error of more than 64 KiB counts as no response.
    - Failures are reported in the response and never raised.
    - The client can be shared between threads.
    """

    def ask(
        self,
        url: str,
        form: Mapping[str, str] | None = None,
        *,
        user: tuple[str, str] | None = None,
    ) -> OutboundAnswer:
        """Get the URL, or post the form to it.

        `user` has the name and the secret for HTTP Basic authentication.
        """
        ...


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """A range of leaves, `first` to `end`, of one generation of a tenant's log.

    `lines` has the leaves as lines of text.
    """

    tenant_id: str
    generation: int
    first: int
    end: int
    lines: bytes
    keep_until: datetime


class AuditSink(Protocol):
    """Stores copies of log entries that the service cannot delete. The service only adds to it.

    The sink can be shared between threads.
    """

    def add(self, copied_range: CopiedRange) -> None:
        """Store a copy durably. The same leaves may be added again. Raises `Unavailable`."""
        ...


class WitnessAnswer(NamedTuple):
    """The response of a witness: an HTTP status and at most 64 KiB of body.

    The status is 0 without a response.
    """

    status: int
    body: bytes = b""


class WitnessClient(Protocol):
    """Sends requests to witnesses. Only their signatures make responses trustworthy.

    - It follows no redirect, and sends no credential of the service.
    - A request ends after about `WITNESS_PATIENCE_SECONDS`.
    - Failures are reported in the response and never raised.
    - The client can be shared between threads.
    """

    def ask(self, requests: Sequence[tuple[str, bytes]]) -> list[WitnessAnswer]:
        """Post each body to its address concurrently, and return the responses in order."""
        ...


class KeyWrapper(Protocol):
    """Authenticated encryption of short secrets. The wrapping key never leaves the wrapper.

    - A wrapped secret can be unwrapped only with the context that it was wrapped with.
    - Wrapping the same secret twice gives different bytes.
    - The wrapper can be shared between threads.
    """

    def seal(self, secret: bytes, *, context: Mapping[str, str]) -> bytes:
        """Wrap up to 4096 bytes, bound to `context` (at least one pair). Raises `Unavailable`."""
        ...

    def unseal(self, ciphertext: bytes, *, context: Mapping[str, str]) -> bytes:
        """Return the secret that `seal` wrapped.

        Raises `DataCorrupt` if the bytes were altered, or were wrapped with another context or key.
        Raises `Unavailable`.
        """
        ...


class RootSigner(Protocol):
    """An Ed25519 root key that never leaves the signer.

    - Its public key never changes, and is not of small order.
    - Each returned signature has been verified with this key.
    - The signer can be shared between threads.
    """

    @property
    def public_key(self) -> bytes:
        """The public key (32 bytes). Raises `Unavailable`."""
        ...

    def sign(self, data: bytes) -> bytes:
        """Return the signature (64 bytes) over 1 to 4096 bytes. Raises `Unavailable`."""
        ...
