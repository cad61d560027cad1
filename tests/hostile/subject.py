"""One subject in one case: a process that is observed while its connection to the feed is bad."""

import json
import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tests.authorizer.feeds import TENANT
from tests.authorizer.service import PIN
from tests.hostile.cases import SECRET, Case
from tests.hostile.server import HostileServer
from tests.kit.processes import ROOT, environment

# Verdicts are requested this often. Refusals are measured no more exactly.
_TICK: Final = 0.1
_SLACK: Final = 0.5
# A subject that does not answer for so long is broken, also on a busy machine.
_PATIENCE: Final = 90.0
_GOOD, _REVOKED = "svc_wrt_good", "svc_wrt_x"


@dataclass
class Result:
    """Measurements of a case, and the bounds that were exceeded."""

    case: str
    polls: int = 0
    refused: float = 0.0
    late: float = 0.0
    failures: int = 0
    # Seconds by which this process was late itself, because the machine was busy.
    delay: float = 0.0
    last: str = ""
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        figures = f"{self.polls:4} polls {self.refused:5.1f} s refused {self.failures:3} failures"
        return f"{self.case:<58} {figures}  {'; '.join(self.problems) or 'ok'}"


def run(case: Case, command: str) -> Result:
    """Run one subject through one case."""
    result, server = Result(case.name), HostileServer(case)
    with tempfile.TemporaryDirectory() as floor, tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            shlex.split(command),
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            start_new_session=True,
        )
        subject = _Subject(process)
        try:
            _drive(case, subject, server, floor, result)
        except (OSError, ValueError) as error:
            result.problems.append(f"ended: {error}")
        finally:
            # A living subject would send its requests to the next server with this port.
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            server.close()
        printed.seek(0)
        output = b"".join([*subject.other, printed.read()]).decode(errors="replace")
    _judge(case, server, output, result)
    return result


class _Subject:
    """A process that answers lines of JSON. `other` has everything else that it printed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.other: list[bytes] = []

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request. Raises `ValueError` or `OSError` if there is none."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin
        assert stdout
        timer = threading.Timer(_PATIENCE, self._process.kill)
        timer.start()
        try:
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
            while line := stdout.readline():
                if line.startswith(b"{"):
                    return dict(json.loads(line))
                self.other.append(line)
        finally:
            timer.cancel()
        raise ValueError("the subject has no answer")


def _drive(case: Case, subject: _Subject, server: HostileServer, floor: str, to: Result) -> None:
    settings = {
        "url": server.url,
        "api_key": case.api_key,
        "tenant": TENANT,
        "trust_root": PIN,
        "floor": floor,
        "max_staleness": case.max_staleness,
    }
    answer = subject.ask({"connect": settings})
    if "refused" in answer:
        subject.other.append(str(answer["refused"]).encode())
        if not case.key_refused:
            to.problems.append("refused to connect")
        return
    if case.key_refused:
        to.problems.append("accepted the key")
        return
    server.begin()
    began = asked = time.monotonic()
    was_clear = False
    while (now := time.monotonic()) - began < case.seconds:
        to.delay += max(0.0, now - asked - 2 * _TICK)
        if server.revoked_at is None and now - began > case.revoke_at:
            server.revoke()
        since = time.monotonic()
        answer = subject.ask({"verdicts": [_GOOD, _REVOKED]})
        (good, revoked), to.failures = answer["verdicts"], answer["failures"]
        was_clear |= good == "clear"
        if was_clear and good != "clear":
            to.refused += now - asked
        if server.revoked_at is not None and revoked == "clear":
            to.late = max(to.late, since - server.revoked_at - case.max_staleness)
        asked, to.last = now, good
        time.sleep(_TICK)
    to.polls = sum(began < each < began + case.seconds for each in server.polls)


def _judge(case: Case, server: HostileServer, output: str, result: Result) -> None:
    """Compare the measurements with the bounds of the case."""
    problems = result.problems
    problems += sorted(server.faults)
    if SECRET in output:
        problems.append("printed a part of the API key")
    if any(each < " " and each not in "\n\t" for each in output.replace("\r\n", "\n")):
        problems.append("printed control characters")
    if any(each.startswith("FORGED") for each in output.splitlines()):
        problems.append("printed a forged line")
    if result.late > 0:
        problems.append(f"CLEAR {result.late:.1f} s after max_staleness")
    if case.key_refused or problems[:1] == ["refused to connect"]:
        return
    if result.polls > case.polls_max:
        problems.append(f"{result.polls} polls, at most {case.polls_max}")
    if result.refused > case.refused_max + _SLACK + result.delay:
        problems.append(f"refused for {result.refused:.1f} s, at most {case.refused_max}")
    if not case.failures_min <= result.failures <= case.failures_max:
        bounds = f"{case.failures_min} to {case.failures_max}"
        problems.append(f"{result.failures} failures reported, not {bounds}")
    if case.ends not in {"any", result.last}:
        problems.append(f"{result.last} at the end, not {case.ends}")


def as_json(result: Result) -> str:
    """Return a result as one line of JSON."""
    return json.dumps(asdict(result))
