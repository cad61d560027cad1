"""The world outside: the queue, the programs of others, and the keys that are held elsewhere.

One of these keys seals seeds (KEY-2), one signs trust documents (TRUST-7).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from shared.model.webhooks.deliveries import DeliveryOutcome, DeliveryResponse, EventMessage

# The longest time of an attempt, in seconds (HOOK-7).
SENDER_PATIENCE_SECONDS = 15.0
# The longest time of a request to an identity provider, in seconds, and the bytes of an answer.
OUTBOUND_PATIENCE_SECONDS = 5.0
OUTBOUND_ANSWER_MAX = 256 * 1024
# The longest time of a request to a witness, in seconds.
WITNESS_PATIENCE_SECONDS = 10.0


class MessageQueue(Protocol):
    """Messages, each delivered at least once, in any order.

    - When `send` returns, all messages will be delivered.
    - Every failure raises `Unavailable`. Some messages may be delivered nevertheless.
    - It is safe to share between threads.
    """

    def send(self, messages: Iterable[str]) -> None:
        """Send any number of short texts, none of them empty. Raises `Unavailable`."""
        ...


class Sender(Protocol):
    """Requests to the programs of tenants.

    - It connects only to addresses that `outbound.is_allowed` allows, checked at
      each attempt, by TLS with a valid certificate for the name in the URL.
    - It follows no redirect, uses no proxy, and sends no credential of the service.
    - An attempt ends after `SENDER_PATIENCE_SECONDS`, whatever the other side does.
    - A failure is in the answer: nothing is raised.
    - It is safe to share between threads.
    """

    def send(self, url: str, messages: Sequence[EventMessage]) -> list[DeliveryResponse]:
        """Post the messages at the same time, each by one attempt; return the answers in order."""
        ...


class OutboundAnswer(NamedTuple):
    """The outcome of a request. `status` is 0 and `body` empty unless it is `answered`."""

    outcome: DeliveryOutcome
    status: int = 0
    body: bytes = b""


class OutboundHttp(Protocol):
    """Requests to addresses that tenants named, whose answers are read.

    - It connects to what a `Sender` may connect to, in the same way, and to other ports than 443
      only in the operator's networks.
    - A request ends after `OUTBOUND_PATIENCE_SECONDS`. An answer of more than
      `OUTBOUND_ANSWER_MAX` bytes (an error of more than 64 KiB), or one that is cut, is none.
    - A failure is in the answer: nothing is raised.
    - It is safe to share between threads.
    """

    def ask(
        self,
        url: str,
        form: Mapping[str, str] | None = None,
        *,
        user: tuple[str, str] | None = None,
    ) -> OutboundAnswer:
        """Get the URL, or post the form to it; `user` has name and secret of HTTP Basic."""
        ...


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """The leaves from `first` to `end` of one generation of a tenant's log, as lines of text."""

    tenant_id: str
    generation: int
    first: int
    end: int
    lines: bytes
    keep_until: datetime


class AuditSink(Protocol):
    """Keeps copies that it cannot take back. The service only ever adds to it.

    It is safe to share between threads.
    """

    def add(self, copied_range: CopiedRange) -> None:
        """Keep a copy durably. The same leaves may come again. Raises `Unavailable`."""
        ...


class WitnessAnswer(NamedTuple):
    """The answer of a witness: an HTTP status and at most 64 KiB; status 0 if there is none."""

    status: int
    body: bytes = b""


class WitnessClient(Protocol):
    """Requests to witnesses, whose answers are believed by their signatures alone.

    - It follows no redirect, and sends no credential of the service.
    - A request ends after about `WITNESS_PATIENCE_SECONDS`.
    - A failure is in the answer: nothing is raised.
    - It is safe to share between threads.
    """

    def ask(self, requests: Sequence[tuple[str, bytes]]) -> list[WitnessAnswer]:
        """Post these bodies to these addresses at the same time; return the answers in order."""
        ...


class KeyWrapper(Protocol):
    """Authenticated encryption of short secrets with a key that never leaves the sealer.

    - A seal can be opened only with the context that it was made with.
    - Two seals of one secret differ.
    - It is safe to share between threads.
    """

    def seal(self, secret: bytes, *, context: Mapping[str, str]) -> bytes:
        """Seal up to 4096 bytes, bound to `context` (at least one pair). Raises `Unavailable`."""
        ...

    def unseal(self, ciphertext: bytes, *, context: Mapping[str, str]) -> bytes:
        """Return the secret in a seal that `seal` made.

        Raises `DataCorrupt` if the bytes were altered, or sealed with another context or key, and
        `Unavailable`.
        """
        ...


class RootSigner(Protocol):
    """A root key of Ed25519 that never leaves the signer.

    - Its public key never changes, and is not of small order.
    - Each signature that it returns was verified with this key.
    - It is safe to share between threads.
    """

    @property
    def public_key(self) -> bytes:
        """The public key (32 bytes). Raises `Unavailable`."""
        ...

    def sign(self, data: bytes) -> bytes:
        """Return the signature (64 bytes) over 1 to 4096 bytes. Raises `Unavailable`."""
        ...
