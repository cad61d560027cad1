"""Runs publications for requests in the publisher process (docs/adr/21).

Processes that answer requests therefore never build an SRL. They still authenticate the request and
build its response. A worker sends the publisher one end of a connection for each call.
"""

import logging
import select
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from shared.errors import RescindError, Unavailable
from shared.ports import Ports

P = ParamSpec("P")
R = TypeVar("R")

# The seconds to wait for a publisher that is being restarted.
_TAKEN_SECONDS: Final = 5.0
_THREADS: Final = 16

_log = logging.getLogger("rescind")


class PublicationRequests:
    """Socket pair between workers and the publisher, created before the fork.

    Requests that arrive while there is no publisher are handled by the next one.
    """

    def __init__(self) -> None:
        self._sender, self._receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.setblocking(False)

    def close(self) -> None:
        """Close both ends in this process."""
        self._sender.close()
        self._receiver.close()

    def ask(self, call: Callable[Concatenate[Ports, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run `call` in the publisher, and return its result or raise its error.

        Raises `Unavailable` if the publisher does not respond. The call may still run then.
        """
        try:
            connection, publisher_end = Pipe()
            with connection:
                with publisher_end:
                    socket.send_fds(self._sender, [b"\0"], [publisher_end.fileno()])
                connection.send((call, args, kwargs))
                if not connection.poll(_TAKEN_SECONDS):
                    raise Unavailable
                connection.recv()
                failure, response = connection.recv()
        except (EOFError, OSError) as error:
            raise Unavailable from error
        if failure is not None:
            # Constructors of `RescindError` classes differ from `args`.
            kind, values, attributes = failure
            rebuilt: Exception = kind.__new__(kind, *values)
            rebuilt.args = values
            vars(rebuilt).update(attributes)
            raise rebuilt
        result: R = response
        return result

    def take(self, stop: int, ports: Callable[[], Ports]) -> None:
        """Run requested calls until end of file on `stop`, and complete those in progress."""
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="publication") as pool:
            while stop not in select.select([self._receiver.fileno(), stop], [], [])[0]:
                _, descriptors, _, _ = socket.recv_fds(self._receiver, 1, 1)
                for each in descriptors:
                    pool.submit(_serve, Connection(each), ports)


def _serve(connection: "Connection[Any, Any]", ports: Callable[[], Ports]) -> None:
    try:
        with connection:
            # Fails if the requester is gone.
            connection.send("taken")
            call, args, kwargs = connection.recv()
            outcome: tuple[Any, Any]
            try:
                outcome = None, call(ports(), *args, **kwargs)
            except Exception as error:  # noqa: BLE001 (the request that asked for it reports it)
                if not isinstance(error, RescindError):
                    _log.exception("a publication failed")
                outcome = (type(error), error.args, vars(error)), None
            connection.send(outcome)
    except (EOFError, OSError):
        return
    except Exception:  # noqa: BLE001 (nothing else would report it)
        _log.exception("cannot return the result of a publication to its request")
