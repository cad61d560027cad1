"""How much memory the local server takes while ten callers download a list of 85 MB, slowly."""

import http.client
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from shared.model.srl.blobs import lists_folder, sha256_of
from shared.model.srl.head import head_address
from shared.operations.rules import tenants
from shared.operations.srl import in_force, storage
from shared.ports.store import Expect, Put
from tests.bench.report import NotMeasured, Row
from tests.bench.scratch import scratch
from tests.infra.folders import opened
from tests.processes import HOST, LocalServer, local_server

_READERS: Final = 10
# A list of a million identifiers of 34 characters.
_LIST_BYTES: Final = 85_000_000
_MIB_MAX: Final = 150.0
_LIST: Final = "/v1/revocations/srl/signed"
_OK: Final = 200


def run(*, size: int = _LIST_BYTES, readers: int = _READERS) -> Iterator[Row]:
    """The most memory that the server ever had, with all callers in the middle of the list."""
    name = f"{readers} downloads of {size / 1e6:.0f} MB, most memory of the server"
    if sys.platform != "linux":
        yield Row.missing(name, "read from Linux's /proc")
        return
    with scratch() as folder, local_server(folder / "data") as server, ExitStack() as open_ones:
        lengthen(server.data, size=size)
        bodies = [_begun(server, open_ones) for _ in range(readers)]
        peak = peak_mib(server.process.pid)
        if any(_rest(body) != size - 1 for body in bodies):
            raise NotMeasured("a download was cut short")
        peak = max(peak, peak_mib(server.process.pid))
    yield Row(name, peak, "MiB", f"{_MIB_MAX:.0f} MiB", peak / _MIB_MAX, goal="≤ 1")


def lengthen(data: Path, *, size: int) -> None:
    """Put a file of this many bytes in force as the list of the tenant; it is never verified."""
    with opened(data) as ports:
        tenant_id = tenants.find(ports, "local").tenant_id
        head = in_force.head(ports, tenant_id)
        blob = storage.put(ports, lists_folder(tenant_id), head.version, bytes(size))
        longer = replace(head, blob=blob, sha256=sha256_of(blob), size=size)
        ports.store.write(Put(head_address(tenant_id), longer.to_item(), Expect.PRESENT))


def peak_mib(pid: int) -> float:
    """The most memory that a process ever had."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(line) / 1024


def _rest(body: http.client.HTTPResponse) -> int:
    """How many bytes are left of a download, which is read to its end."""
    read = 0
    while piece := body.read(1024 * 1024):
        read += len(piece)
    return read


def _begun(server: LocalServer, stack: ExitStack) -> http.client.HTTPResponse:
    """A download of which one byte was read."""
    connection = stack.enter_context(
        closing(http.client.HTTPConnection(HOST, server.port, timeout=60))
    )
    connection.request("GET", _LIST, headers={"Authorization": f"Bearer {server.admin_key}"})
    answer = connection.getresponse()
    if answer.status != _OK or not answer.read(1):
        raise NotMeasured(f"{_LIST} answered {answer.status}")
    return answer
