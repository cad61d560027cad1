"""Puts a client through the cases: each request is a line of JSON, and so is each answer."""

import copy
import json
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Timer
from typing import Any, NamedTuple

Request = dict[str, Any]
Ask = Callable[[Request], Any]

# Seconds in which a client must answer a request.
_PATIENCE = 60


class Outcome(NamedTuple):
    """The result of a case: `fault` is empty if all answers were as expected."""

    name: str
    fault: str


def run(ask: Ask, cases: Iterable[dict[str, Any]]) -> Iterator[Outcome]:
    """Put each case to the client; of a case that fails, say the first answer that was wrong."""
    for case in cases:
        yield Outcome(case["name"], next(_faults(ask, case["steps"]), ""))


def _faults(ask: Ask, steps: list[dict[str, Any]]) -> Iterator[str]:
    for number, step in enumerate(steps, 1):
        answer = ask(request_of(step))
        if answer != step["expected"]:
            (name,) = step["request"]
            yield f"request {number} ({name}): {answer} and not {step['expected']}"


def request_of(step: dict[str, Any]) -> Request:
    """The request of a step. A case leaves out the spaces that make an answer long."""
    request: Request = copy.deepcopy(step["request"])
    if "spaces" in step:
        ((name, given),) = request.items()
        given["answer" if name == "poll" else "response"] += " " * step["spaces"]
    return request


@contextmanager
def started(command: list[str]) -> Iterator[Ask]:
    """A client that is a program: it reads requests on standard input."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout

        def ask(request: Request) -> Any:
            timer = Timer(_PATIENCE, process.kill)
            timer.start()
            try:
                stdin.write(json.dumps(request).encode() + b"\n")
                stdin.flush()
                line = stdout.readline()
                return json.loads(line) if line else "no answer"
            except (OSError, ValueError) as error:
                return f"no answer: {error}"
            finally:
                timer.cancel()

        try:
            yield ask
        finally:
            process.kill()
            # What the client did not read is left.
            with suppress(BrokenPipeError):
                stdin.close()
