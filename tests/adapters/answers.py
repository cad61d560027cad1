"""Answers of a cloud, given in turn in place of the network.

They enter where the HTTP request would leave, so the real code for errors and retries runs.
"""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders

from shared.adapters.retries import RetryPolicy


@dataclass(frozen=True)
class Answer:
    """One HTTP answer; a body in words becomes JSON."""

    body: Any = field(default_factory=dict)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    def to(self, request: AWSPreparedRequest) -> AWSResponse:
        headers: Any = HTTPHeaders.from_dict(self.headers)
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        return AWSResponse(request.url, self.status, headers, _Stream(body))


# An exception stands for a request that got no answer.
Step: TypeAlias = Answer | Exception


class _Stream(io.BytesIO):
    def stream(self, **_: object) -> Iterator[bytes]:
        yield self.read()


class Answers:
    """Answers to a client's requests, the last of them again and again; keeps the requests."""

    def __init__(self, client: Any, *steps: Step) -> None:
        self.requests: list[AWSPreparedRequest] = []
        self._steps = steps
        client.meta.events.register_first("before-send", self._answer)

    def _answer(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        step = self._steps[min(len(self.requests), len(self._steps) - 1)]
        self.requests.append(request)
        if isinstance(step, Exception):
            raise step
        return step.to(request)

    @property
    def bodies(self) -> list[Any]:
        """The requests' bodies, of services that speak JSON."""
        sent: list[Any] = [request.body for request in self.requests]
        return [json.loads(body) for body in sent]


def error(code: str, *, status: int = 400, **more: Any) -> Answer:
    """How a JSON service says that it refuses."""
    return Answer({"__type": f"com.amazonaws#{code}", "message": "said by a test"} | more, status)


# Lets a client be given answers, in the order of the arguments.
Given: TypeAlias = Callable[..., Answers]


class FakeTime:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds

    def patience(self, deadline_seconds: float = 4) -> RetryPolicy:
        return RetryPolicy(deadline_seconds, sleep=self.sleep, clock=lambda: self.seconds)
