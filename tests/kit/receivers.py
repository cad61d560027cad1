"""Receivers of webhooks on this machine: each answers a connection by a script, over TLS."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import IPv4Network
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from shared.adapters.https import HttpsClient, HttpsSender

HOST = "hooks.example.com"
LOOPBACK = (IPv4Network("127.0.0.0/8"),)


@dataclass
class Received:
    """One request, as it came."""

    line: str
    headers: dict[str, str]
    body: str


# What a receiver does with a connection after the request; without a request, with `Raw`.
Script = Callable[[Received, socket.socket], None]
Raw = Callable[[socket.socket], None]


@dataclass
class Receiver:
    """A listening receiver, and the requests that it got."""

    listener: socket.socket
    requests: list[Received] = field(default_factory=list)
    connections: int = 0

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def sender(
        self, addresses: Sequence[str] = ("127.0.0.1",), *, patience: float = 60.0
    ) -> HttpsSender:
        """A sender for which the name of the receiver resolves to these addresses."""
        return HttpsSender(LOOPBACK, lambda _: list(addresses), self.port, trusting(HOST), patience)

    def outbound(
        self, addresses: Sequence[str] = ("127.0.0.1",), *, patience: float = 60.0
    ) -> HttpsClient:
        """What asks the receiver, by any name that it has a certificate for."""
        return HttpsClient(LOOPBACK, lambda _: list(addresses), self.port, trusting(HOST), patience)


def answer(status: int, body: bytes = b"", *headers: str) -> Script:
    """A script that answers each request like this."""
    lines = [
        f"HTTP/1.1 {status} Answer",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
        "",
        "",
    ]

    def run(_request: Received, connection: socket.socket) -> None:
        connection.sendall("\r\n".join(lines).encode() + body)

    return run


@contextmanager
def receiving(script: Script, *, host: str = HOST, expired: bool = False) -> Iterator[Receiver]:
    """A receiver with a certificate for `host` that answers by a script."""
    context = certified(host, expired=expired)

    def run(plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_side=True) as connection:
            request = read(connection)
            made.requests.append(request)
            script(request, connection)

    with raw(run) as made:
        yield made


@contextmanager
def plainly(*scripts: Script) -> Iterator[Receiver]:
    """A receiver without TLS that answers by the scripts, one after another; the last one stays."""
    left = list(scripts)

    def run(connection: socket.socket) -> None:
        request = read(connection)
        made.requests.append(request)
        (left.pop(0) if len(left) > 1 else left[0])(request, connection)

    with raw(run) as made:
        yield made


@contextmanager
def conversing(*replies: Sequence[bytes], tls: bool = False) -> Iterator[Receiver]:
    """A receiver that keeps its connections. Each request gets the next reply; the last one stays.

    A reply is sent in its parts, with a pause of 50 ms between them. An empty part closes.
    """
    left = list(replies)

    def converse(connection: socket.socket) -> None:
        while True:
            made.requests.append(read(connection))
            for number, part in enumerate(left.pop(0) if len(left) > 1 else left[0]):
                time.sleep(0.05 if number else 0)
                if not part:
                    return
                connection.sendall(part)

    def run(plain: socket.socket) -> None:
        if not tls:
            converse(plain)
            return
        with certified(HOST).wrap_socket(plain, server_side=True) as connection:
            converse(connection)

    with raw(run) as made:
        yield made


@contextmanager
def raw(run: Raw) -> Iterator[Receiver]:
    """A receiver that does `run` with each connection, in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        receiver, threads = Receiver(listener), list[threading.Thread]()
        open_ends = list[socket.socket]()

        def serve(connection: socket.socket) -> None:
            # What the other side does is not the receiver's fault. TLS takes the socket itself, so
            # its end is kept here, to be shut down.
            connection.settimeout(60)
            with connection.dup() as end:
                open_ends.append(end)
                with suppress(OSError), connection:
                    run(connection)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    receiver.connections += 1
                    threads.append(threading.Thread(target=serve, args=[connection]))
                    threads[-1].start()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield receiver
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            acceptor.join(60)
            for end in open_ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            for each in threads:
                each.join(60)


def read(connection: socket.socket) -> Received:
    """One request of a connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65_536) or _gone()
    head, _, body = data.partition(b"\r\n\r\n")
    line, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65_536) or _gone()
    return Received(line, headers, body.decode())


def _gone() -> bytes:
    raise ConnectionError("the sender is gone")


@cache
def certificate(host: str, expired: bool = False) -> tuple[bytes, bytes]:
    """A certificate that signs itself, and its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + timedelta(days=-1 if expired else 1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return (
        made.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, *form),
    )


def certified(host: str, *, expired: bool = False) -> ssl.SSLContext:
    """What a server of this name shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "both.pem"
        file.write_bytes(b"".join(certificate(host, expired)))
        context.load_cert_chain(file)
    return context


def trusting(*hosts: str, expired: bool = False) -> ssl.SSLContext:
    """What trusts the certificates of these hosts alone."""
    context = ssl.create_default_context()
    for host in hosts:
        context.load_verify_locations(cadata=certificate(host, expired)[0].decode())
    return context
