"""The functions as API Gateway calls them: requests as events, answers, and who sends them."""

import base64
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlencode

from shared.model.items import Address
from tests.kit.processes import ROOT

# Where the events say that the request came from; their X-Forwarded-For begins with another.
SOURCE_IP: Final = "198.51.100.7"

_EVENTS: Final = ROOT / "infra" / "sam" / "events"

Event = dict[str, Any]
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Request:
    """A request to API Gateway. Header and parameter names may repeat."""

    method: str
    path: str
    query: Pairs = ()
    headers: Pairs = ()
    body: bytes = b""
    as_base64: bool = False

    def http_api(self) -> Event:
        """The event of an HTTP API: payload format 2.0, repeats joined by commas."""
        event = load("http_api")
        http = event["requestContext"]["http"]
        http["method"], http["path"] = self.method, self.path
        event["rawPath"], event["rawQueryString"] = self.path, urlencode(self.query)
        event["headers"] |= _joined((name.lower(), value) for name, value in self.headers)
        event["headers"]["content-length"] = str(len(self.body))
        if self.query:
            event["queryStringParameters"] = _joined(self.query)
        if self.body:
            event["body"] = self._text()
            event["isBase64Encoded"] = self.as_base64
        return event

    def rest_api(self) -> Event:
        """The event of a REST API: payload format 1.0, the last of repeats beside all of them."""
        event = load("rest_api")
        context = event["requestContext"]
        event["httpMethod"] = context["httpMethod"] = self.method
        event["path"], context["path"] = self.path, f"/prod{self.path}"
        event["pathParameters"]["proxy"] = self.path.removeprefix("/")
        event["multiValueHeaders"] |= _grouped(self.headers)
        event["headers"] = _last(event["multiValueHeaders"])
        if self.query:
            event["multiValueQueryStringParameters"] = _grouped(self.query)
            event["queryStringParameters"] = dict(self.query)
        if self.body:
            event["body"] = self._text()
            event["isBase64Encoded"] = self.as_base64
        return event

    def http_api_1_0(self) -> Event:
        """The event of an HTTP API that was set to payload format 1.0."""
        return {"version": "1.0"} | self.rest_api()

    def _text(self) -> str:
        return base64.b64encode(self.body).decode() if self.as_base64 else self.body.decode()


@dataclass(frozen=True)
class Answer:
    """What API Gateway makes of a function's answer; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "Answer":
        json.dumps(answer)  # whatever cannot be sent to Lambda is no answer
        headers = dict(answer["headers"]) | _last(answer.get("multiValueHeaders", {}))
        body = answer.get("body", "")
        raw = base64.b64decode(body) if answer["isBase64Encoded"] else body.encode()
        lowered = {name.lower(): value for name, value in headers.items()}
        return cls(answer["statusCode"], lowered, raw)

    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)


Format = Callable[[Request], Event]
Handler = Callable[[Event, object], dict[str, Any]]

FORMATS: Final = [Request.http_api, Request.rest_api, Request.http_api_1_0]


@dataclass(frozen=True)
class Caller:
    """A caller who reaches the functions through one form of API Gateway."""

    form: Format
    secret: str | None

    def call(self, handler: Handler, method: str, path: str, **more: Any) -> Answer:
        key: Pairs = (("Authorization", f"Bearer {self.secret}"),) if self.secret else ()
        body = more.pop("json", None)
        if body is not None:
            more["body"] = json.dumps(body).encode()
        if "body" in more:
            key += (("Content-Type", "application/json"),)
        headers = key + more.pop("headers", ())
        request = Request(method, path, headers=headers, **more)
        return Answer.of(handler(self.form(request), None))


@dataclass(frozen=True)
class Group:
    """A folder of `functions` that serves HTTP, with the path that stands for all of its own."""

    name: str
    handler: Handler
    path: str
    methods: list[str]

    @classmethod
    def of(cls, name: str) -> "Group":
        module = import_module(f"functions.{name}.handler")
        path = min({route.path for route in module.routes.routes}, key=len)
        same = (route for route in module.routes.routes if route.path == path)
        methods = {method for route in same for method in route.methods}
        # HEAD is served wherever GET is.
        methods |= {"HEAD"} if "GET" in methods else set()
        return cls(name, module.handler, path, sorted(methods))


# The folders of `functions` that serve no endpoint of the API with a key.
WITHOUT_ENDPOINTS: Final = {
    *("feed_publication", "srl_publication", "srl_schedule"),
    *("console", "introspection", "sign_in", "sign_in_code"),
}

GROUPS: Final = [
    Group.of(handler.parent.name)
    for handler in sorted((ROOT / "functions").glob("*/handler.py"))
    if handler.parent.name not in WITHOUT_ENDPOINTS
]


def load(name: str) -> Event:
    """A whole event as AWS sends it."""
    event: Event = json.loads((_EVENTS / f"{name}.json").read_text())
    return event


def queued(*bodies: str) -> Event:
    """The event of a queue with these messages, whose identifiers are their numbers from 0."""
    (record,) = load("queue")["Records"]
    return {
        "Records": [
            record | {"messageId": str(number), "body": body} for number, body in enumerate(bodies)
        ]
    }


def streamed(*marks: Address) -> Event:
    """The event of the stream with a record for each mark, each of which was set."""
    (record,) = load("stream")["Records"]
    records = []
    for number, mark in enumerate(marks):
        keys = {"pk": {"S": mark.pk}, "sk": {"S": mark.sk}}
        change = record["dynamodb"] | {"Keys": keys, "SequenceNumber": f"{number + 1:021d}"}
        records.append(record | {"eventID": f"{number:032x}", "dynamodb": change})
    return {"Records": records}


def assert_error(answer: Answer, status: int, code: str) -> None:
    """Hold an error to the contract's shape and to the headers of every response."""
    assert answer.status == status, answer.body
    error = answer.json()
    assert (set(error), set(error["error"])) == ({"error"}, {"code", "message"})
    assert error["error"]["code"] == code
    assert {"x-request-id", "x-ratelimit-limit", "cache-control"} <= set(answer.headers)


def _grouped(pairs: Pairs) -> dict[str, list[str]]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in pairs:
        groups[name].append(value)
    return dict(groups)


def _last(groups: Mapping[str, list[str]]) -> dict[str, str]:
    return {name: values[-1] for name, values in groups.items()}


def _joined(pairs: Any) -> dict[str, str]:
    return {name: ",".join(values) for name, values in _grouped(tuple(pairs)).items()}
