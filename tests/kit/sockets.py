"""What the other end of a connection is like: the socket that another process accepted."""

import ctypes
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PIDFD_GETFD: Final = 438


def accepted(connection: socket.socket, processes: Iterable[int]) -> socket.socket:
    """A duplicate of the socket at the other end of `connection`, which one of these has open.

    Linux only (5.6 or later); the caller must be allowed to trace that process.
    """
    inode = f"socket:[{_inode(connection)}]"
    for process in processes:
        for each in Path(f"/proc/{process}/fd").iterdir():
            if each.is_symlink() and str(each.readlink()) == inode:
                return socket.socket(fileno=_duplicate(process, int(each.name)))
    raise LookupError("no process has the other end open")


def read_all(host: str, port: int, sent: bytes) -> bytes:
    """Send these bytes; return all that the server sends until it closes the connection."""
    with socket.create_connection((host, port), timeout=60) as caller:
        caller.sendall(sent)
        return b"".join(iter(lambda: caller.recv(100_000), b""))


def _inode(connection: socket.socket) -> str:
    """The inode of the other end, as the kernel's table of TCP connections has it."""
    ends = _hexadecimal(connection.getpeername()), _hexadecimal(connection.getsockname())
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if (fields[1], fields[2]) == ends:
            return fields[9]
    raise LookupError("the kernel does not know the other end")


def _hexadecimal(address: tuple[str, int]) -> str:
    host = int.from_bytes(socket.inet_aton(address[0]), "little")
    return f"{host:08X}:{address[1]:04X}"


def _duplicate(process: int, descriptor: int) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    pidfd = os.pidfd_open(process)
    try:
        found: int = library.syscall(_PIDFD_GETFD, pidfd, descriptor, 0)
    finally:
        os.close(pidfd)
    if found < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")
    return found
