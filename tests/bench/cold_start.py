"""From the start of a process to its first answer, with nothing to import from but the artefact.

The floors have the same packages, but as they come. The functions are set up as on AWS and make the
SDK's clients; DynamoDB answers from loopback, so no time is spent on the way there. Lambda's own
part (the sandbox, the download) is in no figure.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from functions.transparency_log import head as log_head
from infra.build import BuildFailed, Target, add_bytecode, build, find_python, install
from shared.model.callers import Scope
from shared.model.lists.schedule import mark_address
from shared.operations.access import api_keys
from tests.bench import tables
from tests.bench.measure import Side, alternate
from tests.bench.report import NotMeasured, Row, compared, progress
from tests.bench.revoked import tenant
from tests.bench.scratch import scratch
from tests.kit.lambda_events import GROUPS, Event, Request, load, queued, streamed
from tests.kit.processes import ROOT, environment

_SCRIPT = Path(__file__).with_name("first_answer.py")
_FLOORS_FOLDER = Path(__file__).with_name("floors")
_MS = ("ms", 1e3)
_SECONDS_MAX = 60
_ARCHITECTURES = {"aarch64": "arm64"}


@dataclass(frozen=True)
class Start:
    """A cold start: the handler that is started, the event, and the statuses of a right answer."""

    handler: str
    event: Event
    statuses: tuple[int, ...] = (200, 304)

    @property
    def function(self) -> str:
        """The function's name."""
        _, folder, module, _ = self.handler.split(".")
        return folder if module == "handler" else module.removesuffix("_handler")


_FORM = ("Content-Type", "application/x-www-form-urlencoded")
_FLOORS = [Start(handler, load("http_api")) for handler in ("libraries.handler", "nothing.handler")]


def run(*, rounds: int = 15) -> Iterator[Row]:
    """Each function beside the libraries it stands on, and beside one that does nothing."""
    with scratch() as folder, tenant(folder / "data", revoked=0) as filled:
        artefact = _artefact(folder / "app")
        packages = _packages(folder / "packages", artefact)
        caller = filled.operator
        created = api_keys.create(filled.ports, caller, name="bench", scopes=(Scope.ADMIN,))
        with tables.serving(filled.ports) as aws:
            for start in _starts(created.secret, caller.tenant_id):
                progress(f"cold start of {start.function}")
                sides = [artefact.side(start, aws)]
                sides += [packages.side(each, aws) for each in _FLOORS]
                for side in sides:
                    side()  # the files are in memory from here on
                yield from _rows(start, *alternate(*sides, rounds=rounds))
    yield from _python(artefact)


def _rows(
    start: Start, ours: Sequence[float], libraries: Sequence[float], nothing: Sequence[float]
) -> Iterator[Row]:
    name = f"cold start of {start.function}"
    goal = "≤ 0.5" if start.function in {"console", "srl_schedule"} else "≤ 1.2"
    yield compared(name, ours, "FastAPI, Mangum, botocore", libraries, unit=_MS, goal=goal)
    yield compared(name, ours, "empty handler", nothing, unit=_MS)


def _starts(secret: str, tenant_id: str) -> Iterator[Start]:
    """The functions, each with an event that it answers as it should."""
    # Of the list the caller has this very version, so that S3 need not be asked.
    headers = (("Authorization", f"Bearer {secret}"), ("If-None-Match", "*"))
    for group in GROUPS:
        event = Request("GET", group.path, headers=headers).http_api()
        yield Start(f"functions.{group.name}.handler.handler", event)
    offered = Request("GET", "/v1/sign-in", query=(("tenant", "bench"),)).http_api()
    yield Start("functions.sign_in.handler.handler", offered)
    # A code without a tenant is refused before any provider is asked.
    code = Request("POST", "/v1/sign-in/code", headers=(_FORM,), body=b"code=a").http_api()
    yield Start("functions.sign_in_code.handler.handler", code, (400,))
    path, asking = "/v1/oauth/introspect", (headers[0], _FORM)
    introspected = Request("POST", path, headers=asking, body=b"token=a").http_api()
    yield Start("functions.introspection.handler.handler", introspected)
    yield Start("functions.srl_schedule.handler.handler", load("schedule"))
    # Its list is new and its feed has every mark, so that nothing is to be published.
    yield Start("functions.srl_publication.handler.handler", queued(tenant_id))
    mark = streamed(mark_address(tenant_id, "svc_wrt_bench"))
    yield Start("functions.feed_publication.handler.handler", mark)
    # The head of a log, which is no entry, so that nothing is to be sealed.
    head = streamed(log_head.address(tenant_id))
    yield Start("functions.transparency_log.audit_log_sealing_handler.handler", head)
    # A mark on no key, so that no document is looked at.
    yield Start("functions.trust.trust_renewal_handler.handler", mark)
    yield Start("functions.webhooks.webhook_delivery_handler.handler", load("schedule"))
    page = Request("GET", "/", headers=(("Accept", "text/html"),)).http_api()
    yield Start("functions.console.handler.handler", page)


@dataclass(frozen=True)
class _Code:
    """What a process imports from, and what runs it."""

    folders: tuple[Path, ...]
    interpreter: str
    target: Target

    def side(self, start: Start, aws: dict[str, str]) -> Side:
        """Seconds from starting a process to what it answers. Raises `NotMeasured`."""
        settings = aws | {
            "AWS_LAMBDA_FUNCTION_NAME": "bench",
            "RESCIND_STORE": f"dynamodb:{tables.PREFIX}",
            "RESCIND_BLOBS": "s3:bench-blobs",
            "RESCIND_KEY_WRAPPER": "kms:alias/bench",
            "RESCIND_QUEUE": "sqs:https://sqs.example/bench",
        }

        def side() -> float:
            seconds, answer = self._first_answer(start, environment(settings))
            if not _is_right(answer, start.statuses):
                raise NotMeasured(f"{start.handler} answered {answer!r}")
            return seconds

        return side

    def _first_answer(self, start: Start, settings: dict[str, str]) -> tuple[float, bytes]:
        answers, theirs = os.pipe()
        folders = os.pathsep.join(map(str, self.folders))
        command = [self.interpreter, "-I", "-S", "-B", str(_SCRIPT), folders]
        command += [start.handler, json.dumps(start.event), str(theirs)]
        with os.fdopen(answers, "rb") as pipe:
            started = time.perf_counter()
            process = subprocess.Popen(
                command, env=settings, pass_fds=[theirs], stdout=subprocess.DEVNULL
            )
            os.close(theirs)
            answer = pipe.read()
            seconds = time.perf_counter() - started
        process.wait(timeout=_SECONDS_MAX)
        return seconds, answer


def _is_right(answer: bytes, statuses: Sequence[int]) -> bool:
    result = json.loads(answer or b'{"statusCode": null}')
    return result.get("statusCode", 200) in statuses and not result.get("failed")


def _artefact(folder: Path) -> _Code:
    """The artefact for this machine, and for Lambda's Python where that is here."""
    lambda_python = Target().python
    interpreter = find_python(lambda_python)
    python = lambda_python if interpreter else f"{sys.version_info.major}.{sys.version_info.minor}"
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    target = Target(architecture, python)
    try:
        build(folder, target)
    except BuildFailed as error:
        raise NotMeasured(str(error)) from error
    return _Code((folder,), interpreter or sys.executable, target)


def _packages(folder: Path, artefact: _Code) -> _Code:
    """The packages that are in the artefact, whole, with bytecode like the artefact's."""
    install(ROOT / "requirements.lock", folder, artefact.target)
    add_bytecode(folder, artefact.interpreter)
    return replace(artefact, folders=(folder, _FLOORS_FOLDER))


def _python(artefact: _Code) -> Iterator[Row]:
    lambda_python = Target().python
    if artefact.target.python != lambda_python:
        why = f"no Python {lambda_python}; above it is {artefact.target.python}"
        yield Row.missing(f"cold start under Python {lambda_python}", why)
