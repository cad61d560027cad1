"""Spans of requests, for whoever configures OpenTelemetry from outside."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode

from shared.web.app import add_tracing
from tests.kit.api import Tenant
from tests.kit.asgi import run, send

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


class _Span(NonRecordingSpan):
    """A span that keeps what it was told."""

    def __init__(self, name: str, parent: SpanContext, told: dict[str, Any]) -> None:
        super().__init__(parent)
        self.name, self.told = name, told
        self.status: object = None

    def update_name(self, name: str) -> None:
        self.name = name

    def set_attribute(self, key: str, value: Any) -> None:
        self.told[key] = value

    def set_status(self, status: Status | StatusCode, *_: Any) -> None:
        self.status = status


class _Provider(trace.TracerProvider, trace.Tracer):
    """Collects spans as an SDK does, behind the interfaces of OpenTelemetry."""

    def __init__(self) -> None:
        self.spans: list[_Span] = []

    def get_tracer(self, *_: Any, **__: Any) -> trace.Tracer:
        return self

    def start_span(self, name: str, *_: Any, **__: Any) -> trace.Span:
        raise NotImplementedError

    @contextmanager
    def start_as_current_span(  # type: ignore[override]
        self,
        name: str,
        context: context.Context | None = None,
        *,
        attributes: Mapping[str, Any],
        **_: Any,
    ) -> Iterator[trace.Span]:
        parent = trace.get_current_span(context).get_span_context()
        self.spans.append(_Span(name, parent, dict(attributes)))
        yield self.spans[-1]


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> _Provider:
    found = _Provider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: found)
    return found


def test_a_span_has_the_operation_and_nothing_of_the_request(
    provider: _Provider, tenant: Tenant
) -> None:
    """OPS-20, F426a, S7: A span names operation and route, and no input of a caller."""
    app = tenant.admin.http.app
    headers = [("Authorization", f"Bearer {tenant.admin.secret}"), ("traceparent", PARENT)]
    path = "/v1/revocations/check?warrant_id=svc_wrt_peculiar"
    assert send(app, "GET", path, headers=headers).status_code == 200
    assert send(app, "GET", "/v1/peculiar").status_code == 401
    known, unknown = provider.spans
    assert known.name == "check_revocation"
    assert known.told == {
        "http.request.method": "GET",
        "http.route": "/v1/revocations/check",
        "http.response.status_code": 200,
    }
    assert f"{known.get_span_context().trace_id:032x}" == TRACE
    assert (unknown.name, unknown.told["http.response.status_code"]) == ("GET", 401)
    assert known.status is unknown.status is None


def test_a_failure_is_an_error_of_the_span(provider: _Provider) -> None:
    """F426b: Only answers of 500 and above mark a span as failed."""

    async def failing(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 503, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    assert send(add_tracing(failing), "GET", "/").status_code == 503
    (span,) = provider.spans
    assert span.status is StatusCode.ERROR


def test_what_is_not_http_has_no_span(provider: _Provider) -> None:
    """The server's own messages go on to the application."""
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    run(add_tracing(app)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert (seen, provider.spans) == (["lifespan"], [])


def test_without_a_collector_there_is_no_span(tenant: Tenant) -> None:
    """F426c: If nothing collects spans, a request passes no code of them."""
    app = tenant.admin.http.app
    assert add_tracing(app) is app
