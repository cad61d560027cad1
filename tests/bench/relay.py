"""A relay with many waiting clients: from a revocation until each of them has the entry.

A local server publishes, a relay follows it, and this process is all the clients, on raw sockets:
what is measured is the relay, and not a thousand clients that verify.
"""

import asyncio
import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any, Final
from urllib.request import urlopen

from tests.bench.deny import Service, serving
from tests.bench.measure import processor_seconds
from tests.bench.report import NotMeasured, Row, progress
from tests.bench.revoked import warrant_ids
from tests.bench.scratch import scratch
from tests.kit import asgi
from tests.kit.processes import HOST, ROOT, environment

_CLIENTS: Final = 1_000
_ROUNDS: Final = 15
_BESIDE: Final = 1_000
_SECONDS_GOAL: Final = 1.5
_MIB_GOAL: Final = 100.0
_PATIENCE: Final = 60.0
_CREATED: Final = 201
_LENGTH: Final = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_ETAG: Final = re.compile(rb'etag: ("(\d+)-\w+")', re.IGNORECASE)


@dataclass
class _Crowd:
    """The clients at the relay on `port`, and when each had the entry that is waited for."""

    port: int
    newest: int = 0
    target: int = 0
    had: list[float] = field(default_factory=list)
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    number: int = 0

    async def follow(self) -> None:
        """Be one client until cancelled."""
        reader, writer = await asyncio.open_connection(HOST, self.port)
        etag, sequence = b'""', 0
        try:
            while True:
                path = f"/v1/revocations/feed?after={sequence}&wait=25".encode()
                writer.write(b"GET %b HTTP/1.1\r\nHost: relay\r\n" % path)
                writer.write(b"If-None-Match: %b\r\n\r\n" % etag)
                head = await reader.readuntil(b"\r\n\r\n")
                if length := _LENGTH.search(head):
                    await reader.readexactly(int(length[1]))
                found = _ETAG.search(head)
                if found is None:
                    raise NotMeasured(f"the relay answered {head[:100]!r}")
                before, etag, sequence = sequence, found[1], int(found[2])
                self.newest = max(self.newest, sequence)
                if before < self.target <= sequence:
                    self._note()
        finally:
            writer.close()

    def _note(self) -> None:
        self.had.append(time.perf_counter())
        if len(self.had) == self.number:
            self.complete.set()


def run(clients: int = _CLIENTS, *, rounds: int = _ROUNDS) -> Iterator[Row]:
    """Revoke warrants, one after another, each while all clients wait."""
    if sys.platform != "linux":
        yield Row.missing("relay", "it needs Linux's /proc and clocks")
        return
    _allow_files(clients + 200)
    with scratch() as folder, serving(folder, _BESIDE) as service, _relay(folder, service) as relay:
        progress(f"{clients:,} clients wait at a relay")
        seconds, busy = asgi.run(_measured(service, relay, clients, rounds))
        percentiles = quantiles(sorted(seconds), n=100)
        name = f"from POST to an answer of a relay, {clients:,} waiting"
        yield Row(f"{name}, p50", percentiles[49] * 1e3, "ms")
        p99 = percentiles[98]
        ratio = p99 / _SECONDS_GOAL
        yield Row(f"{name}, p99", p99 * 1e3, "ms", f"{_SECONDS_GOAL} s", ratio, goal="≤ 1")
        yield Row("relay, CPU for an answer and the next poll", busy / len(seconds) * 1e3, "ms")
        yield _memory(relay.process.pid, f"relay, {clients:,} waiting, memory")


@dataclass(frozen=True)
class _Relay:
    process: "subprocess.Popen[str]"
    port: int

    def busy(self) -> float:
        """How many seconds of CPU it has used."""
        return processor_seconds(self.process.pid)

    def health(self) -> dict[str, Any]:
        """What it says of itself."""
        with urlopen(f"http://{HOST}:{self.port}/healthz", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


@contextmanager
def _relay(folder: Path, service: Service) -> Iterator[_Relay]:
    url = f"http://{HOST}:{service.port}"
    options = ["--tenant", service.tenant_id, "--root", service.pin]
    options += ["--state", str(folder / "relay")]
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "shared.authorizer",
            "relay",
            url,
            *options,
            "--listen",
            f"{HOST}:0",
        ],
        cwd=ROOT,
        env=environment({"RESCIND_API_KEY": service.authorizer}),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            if process.stdout is None:
                raise NotMeasured("the relay says nothing")
            yield _Relay(process, int(process.stdout.readline().rpartition(":")[2]))
        finally:
            process.terminate()


async def _measured(
    service: Service, relay: _Relay, clients: int, rounds: int
) -> tuple[list[float], float]:
    """Return the seconds until each client had each revocation, and those of the relay's CPU."""
    crowd, seconds, names = _Crowd(relay.port, number=clients), list[float](), warrant_ids("r")
    busy = 0.0
    await _until(relay, lambda health: health["status"] == "ok")
    tasks = [asyncio.create_task(crowd.follow()) for _ in range(clients)]
    try:
        for _ in range(rounds):
            await _all_wait(relay, clients, tasks)
            crowd.had, crowd.target = [], crowd.newest + 1
            crowd.complete.clear()
            began, before = time.perf_counter(), relay.busy()
            body = {"warrant_id": next(names), "reason": "bench"}
            status, _, _ = await asyncio.to_thread(service.ask, "POST", "/v1/revocations", body)
            if status != _CREATED:
                raise NotMeasured(f"a revocation was answered {status}")
            await asyncio.wait_for(crowd.complete.wait(), _PATIENCE)
            seconds += [each - began for each in crowd.had]
            await _all_wait(relay, clients, tasks)
            busy += relay.busy() - before
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return seconds, busy


async def _all_wait(relay: _Relay, clients: int, tasks: "list[asyncio.Task[None]]") -> None:
    def waits(health: dict[str, Any]) -> bool:
        if any(each.done() for each in tasks):
            raise NotMeasured("a client has ended")
        return int(health["waiting"]) >= clients

    await _until(relay, waits)


async def _until(relay: _Relay, is_so: Callable[[dict[str, Any]], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not is_so(await asyncio.to_thread(relay.health)):
        if time.monotonic() > deadline:
            raise NotMeasured("the relay does not get so far")
        await asyncio.sleep(0.1)


def _memory(process: int, name: str) -> Row:
    status = Path(f"/proc/{process}/status").read_text()
    (kib,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    mib = int(kib) / 1024
    return Row(name, mib, "MiB", f"{_MIB_GOAL:.0f} MiB", mib / _MIB_GOAL, goal="≤ 1")


def _allow_files(number: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < number:
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
