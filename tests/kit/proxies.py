"""An HTTP proxy on this machine that leads every tunnel to one port."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.kit.receivers import Received, Receiver, raw, read


@contextmanager
def tunnelling(port: int, reply: bytes = b"HTTP/1.1 200 Connected\r\n\r\n") -> Iterator[Receiver]:
    """A proxy that answers CONNECT with `reply`, and then connects to `port` of this machine."""

    def run(connection: socket.socket) -> None:
        request: Received = read(connection)
        made.requests.append(request)
        connection.sendall(reply)
        with socket.create_connection(("127.0.0.1", port)) as server:
            back = threading.Thread(target=_copy, args=(server, connection))
            back.start()
            _copy(connection, server)
            back.join()

    with raw(run) as made:
        yield made


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
