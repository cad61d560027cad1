"""A span for each request, if OpenTelemetry is configured from outside (docs/metrics.md).

The span has the operation and the status, and nothing that a caller wrote: a path or a query may
have the identifier of a warrant.
"""

from typing import Final

from opentelemetry import propagate, trace
from opentelemetry.trace import Span, SpanKind, StatusCode
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SERVER_ERROR: Final = 500


def traced(app: ASGIApp) -> ASGIApp:
    """Return `app` with a span for each request, or `app` itself if nothing collects spans."""
    provider = trace.get_tracer_provider()
    return app if isinstance(provider, trace.ProxyTracerProvider) else _Traced(app, provider)


class _Traced:
    """ASGI middleware before the gate. A span continues the trace of the header `traceparent`."""

    def __init__(self, app: ASGIApp, provider: trace.TracerProvider) -> None:
        self._app = app
        self._tracer = provider.get_tracer("rescind")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        with self._tracer.start_as_current_span(
            scope["method"],
            context=propagate.extract(headers),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": scope["method"]},
            record_exception=False,
        ) as span:
            await self._app(scope, receive, _noting(span, send))
            _name(span, scope)


def _noting(span: Span, send: Send) -> Send:
    async def send_noted(message: Message) -> None:
        if message["type"] == "http.response.start":
            span.set_attribute("http.response.status_code", message["status"])
            if message["status"] >= _SERVER_ERROR:
                span.set_status(StatusCode.ERROR)
        await send(message)

    return send_noted


def _name(span: Span, scope: Scope) -> None:
    """Name the span after the operation, if the request reached one."""
    endpoint, route = scope.get("endpoint"), scope.get("route")
    if endpoint is not None:
        span.update_name(endpoint.__name__)
    if route is not None:
        span.set_attribute("http.route", route.path)
