"""Routes: the checks between a matched path and its endpoint.

The order follows API-6: scope, body, parameters. `shared.web.gate` has already authenticated the
caller and taken a token of the rate limit. The remaining cost of a request is charged here.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import Any, Final, NamedTuple, ParamSpec, Self, TypeVar

from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from shared import logs
from shared.errors import ApprovalRequested, InvalidRequest, RequestError
from shared.model.callers import Caller
from shared.model.idempotency import IdempotencyKey
from shared.model.rate_limit import BucketPurpose
from shared.operations.base import allowance
from shared.operations.base.idempotency import IdempotentOperation, StoredAnswer
from shared.operations.base.operation import Operation
from shared.ports import Ports
from shared.web import approvals, bodies, costs
from shared.web.authentication import authenticate
from shared.web.bodies import Body
from shared.web.work import (
    LongPollResponse,
    ProvisionalResponse,
    Work,
    WorkKind,
    respond_when_settled,
    result_of,
    wait_unless_disconnected,
)

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
REPLAYED: Final = "Idempotent-Replayed"

_METHODS: Final = ("POST", "PATCH")
_REPLAY: Final = logs.fields(metrics={"IdempotentReplays": 1})

_log = logging.getLogger(__name__)


def repetition(request: Request, caller: Caller, raw: bytes) -> IdempotencyKey | None:
    """Return the idempotency key of a request with the body `raw`, or None without one.

    Raises `InvalidRequest` if the header is malformed or repeated.
    """
    keys = request.headers.getlist(IDEMPOTENCY_KEY)
    if not keys or request.method not in _METHODS:
        return None
    if len(keys) > 1:
        raise InvalidRequest(f"{IDEMPOTENCY_KEY}: must not be repeated.")
    path = request.scope["path"]
    try:
        return IdempotencyKey.of(caller, method=request.method, path=path, key=keys[0], body=raw)
    except ValueError as error:
        raise InvalidRequest(f"{IDEMPOTENCY_KEY}: {error}.") from None


Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")

_SENTENCES_MAX: Final = 10
_ASKED: Final = {
    "model": approvals.ApprovalRequest,
    "description": "No change was made; the request needs an approval",
}


class Context(NamedTuple):
    """The request as an endpoint passes it to an operation."""

    ports: Ports
    caller: Caller
    work: Work

    def reauthenticate(self, request: Request) -> Self:
        """Authenticate the caller again after a wait, and return the new context.

        Otherwise a key revoked during the wait could still read later changes. Raises the errors of
        `authenticate`.
        """
        address, request_id = self.caller.source_ip or "", self.caller.request_id or ""
        caller = authenticate(self.ports, request, source_ip=address, request_id=request_id)
        return self._replace(caller=caller)


class EndpointPolicy(NamedTuple):
    """The operation of an endpoint, the maximum body size in bytes, and the errors.

    `raises` has the errors of the operation in addition to the errors of every endpoint. `kind` is
    the kind of its work. A request takes its token from the tenant's bucket for `purpose`. If
    `is_protected`, the operation checks for an approval on each of its paths.
    """

    operation: Operation[Any, Any]
    body_max: int
    raises: tuple[type[RequestError], ...]
    kind: WorkKind
    purpose: BucketPurpose
    is_protected: bool


class ApiRequest(Request):
    """A request with its ports, caller and body, as endpoints receive it.

    `max_wait_seconds` is how many seconds it may wait for changes (`shared.web.work`), or 0.
    `is_replayed` is true if the result comes from an earlier request (API-30). FastAPI passes the
    object on unchanged, which is cheaper than a dependency.
    """

    def __init__(
        self, request: Request, call: Context, body: Body, record: IdempotencyKey | None
    ) -> None:
        super().__init__(request.scope, request.receive)
        self.ports, self.caller, work = call
        self.max_wait_seconds, self._publish = work.max_wait_seconds, work.publish
        self.is_replayed = False
        self._read, self._once = body, record

    def run(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call an operation with the ports and the caller of this request."""
        if self._once is None or not isinstance(operation, IdempotentOperation):
            return operation(self.ports, self.caller, *args, **kwargs)
        once: StoredAnswer[R] = operation.run_once(
            self.ports, self.caller, self._once, *args, **kwargs
        )
        return self._result(once)

    def make(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call an operation that publishes, in the publishing process."""
        if self._once is None or not isinstance(operation, IdempotentOperation):
            return self._publish(operation, self.ports, self.caller, *args, **kwargs)
        once: StoredAnswer[R] = self._publish(
            operation.run_once, self.ports, self.caller, self._once, *args, **kwargs
        )
        return self._result(once)

    def _result(self, once: StoredAnswer[R]) -> R:
        self.is_replayed = once.replayed
        return once.result

    async def body(self) -> bytes:
        """Return the bytes of the body."""
        return self._read.raw

    async def json(self) -> Any:
        """Return the value of the body."""
        return self._read.value


def serves(
    operation: Operation[Any, Any],
    *,
    body_max: int = bodies.BODY_MAX,
    raises: tuple[type[RequestError], ...] = (),
    kind: WorkKind = WorkKind.USUAL,
    purpose: BucketPurpose = BucketPurpose.REQUESTS,
    is_protected: bool = False,
) -> Callable[[Endpoint], Endpoint]:
    """Mark an endpoint with an `EndpointPolicy`."""

    def mark(endpoint: Endpoint) -> Endpoint:
        vars(endpoint)["serving"] = EndpointPolicy(
            operation, body_max, raises, kind, purpose, is_protected
        )
        return endpoint

    return mark


class ApiRoute(APIRoute):
    """A route that checks scope, body and parameters in the order of API-6.

    `literals` has the paths without parameters of the application.
    """

    literals: frozenset[str] = frozenset()

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if options.get("status_code") == HTTPStatus.NO_CONTENT:
            # Without content there is no content type.
            options["response_class"] = Response
        self.serving: EndpointPolicy = vars(endpoint)["serving"]
        if self.serving.is_protected:
            options["responses"] = (options.get("responses") or {}) | {202: _ASKED}
        super().__init__(path, endpoint, **options)
        self.cost = vars(endpoint).get("cost") or costs.COSTS.get(self.name, costs.USUAL)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match only if this route serves both the path and the method.

        A literal path of another route is not an identifier.
        """
        if self.path != scope["path"] and scope["path"] in self.literals:
            return Match.NONE, {}
        match, found = super().matches(scope)
        return (match, found) if match is Match.FULL else (Match.NONE, {})

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that Starlette calls with a request for this route."""
        answer = super().get_route_handler()
        operation, body_max, _, kind, *_ = self.serving
        parameters = _names(self.dependant.query_params)

        async def handle(request: Request) -> Response:
            call: Context = request.scope["call"]
            operation.authorize(call.ports, call.caller)
            raw = await bodies.read_body(request, limit=body_max)
            response = await work(request, call, raw, is_first=True)
            again = partial(work, request, call, raw, is_first=False)
            if isinstance(response, LongPollResponse):
                address, version, seconds = response.wait
                change = call.work.change(call.ports, address, version, seconds=seconds)
                await wait_unless_disconnected(request, change)
                return await again()
            if isinstance(response, ProvisionalResponse):
                return await respond_when_settled(response, again, request, call.work)
            return response

        def work(
            request: Request, call: Context, raw: bytes, *, is_first: bool
        ) -> Awaitable[Response]:
            call_it = partial(finish, request, call, raw, is_first=is_first)
            return call.work(call_it, kind, tenant_id=call.caller.tenant_id)

        def finish(request: Request, call: Context, raw: bytes, *, is_first: bool) -> Response:
            if is_first:
                self._take(call, costs.of_body(raw))
            else:
                call = call.reauthenticate(request)
            body = bodies.parse(request, raw)
            if self.body_field is None and body.raw and body.value != {}:
                raise InvalidRequest("body: this endpoint accepts no body.")
            is_protected = self.serving.is_protected
            approval = approvals.read_approval_header(request, raw, is_protected=is_protected)
            if approval is not None:
                call = call._replace(caller=replace(call.caller, approval=approval))
            is_repeatable = isinstance(operation, IdempotentOperation)
            once = repetition(request, call.caller, raw) if is_repeatable else None
            here = ApiRequest(request, call, body, once)
            _check_query(here, parameters=parameters)
            if is_first:
                asked = (self.cost, body.value, request.query_params)
                self._take(call, costs.of_request(*asked, call.ports, call.caller.tenant_id))
            return self._build_response(here, answer)

        return handle

    def _build_response(
        self, request: ApiRequest, answer: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Response:
        try:
            response = result_of(answer(request))
        except ApprovalRequested as requested:
            return approvals.answer(requested)
        except RequestValidationError as error:
            # Not chained: the original repeats the caller's input.
            raise InvalidRequest(self._explain(error)) from None
        if request.is_replayed:
            response.headers[REPLAYED] = "true"
            _log.info("replay", extra=_REPLAY)
        return response

    def _take(self, call: Context, tokens: int) -> None:
        """Charge the cost of the request beyond its first token. Raises `RateLimited`."""
        if tokens:
            allowance.take(call.ports, call.caller, self.serving.purpose, tokens)

    def _explain(self, error: RequestValidationError) -> str:
        allowed = _names([] if self.body_field is None else [self.body_field])
        # Repeated faults give one sentence, and the number of sentences is limited.
        errors = error.errors()
        extra = (each["loc"][-1] for each in errors if each["type"] == _EXTRA)
        unknown = _quote_field_name(next(extra, None))
        sentences = dict.fromkeys(
            _sentence(each, parameters=allowed, unknown=unknown) for each in errors
        )
        return " ".join(islice(sentences, _SENTENCES_MAX))


def purposes(routes: Iterable[BaseRoute]) -> Callable[[Scope], BucketPurpose]:
    """Return the function that selects the bucket for a request.

    It matches the request against the routes. A request therefore takes a token of a special bucket
    if and only if an endpoint with this bucket will serve it.
    """
    ours = (route for route in routes if isinstance(route, ApiRoute))
    special = [route for route in ours if route.serving.purpose is not BucketPurpose.REQUESTS]

    def purpose(scope: Scope) -> BucketPurpose:
        matching = (each for each in special if each.matches(scope)[0] is Match.FULL)
        return next((each.serving.purpose for each in matching), BucketPurpose.REQUESTS)

    return purpose


def router(tag: str) -> APIRouter:
    """Return an empty router of `ApiRoute`. `tag` groups its routes in the API document.

    The docstring of each endpoint is its text in that document: see CONTRIBUTING.
    """
    return APIRouter(route_class=ApiRoute, tags=[tag])


def _check_query(request: Request, *, parameters: set[str]) -> None:
    given = request.query_params
    if unknown := sorted(given.keys() - parameters):
        named = _quote_field_name(unknown[0])
        raise InvalidRequest(
            f"query: unknown parameter{named}; allowed: {_join_names(parameters)}."
        )
    if len(given.multi_items()) != len(given):
        raise InvalidRequest("query: a parameter must not be repeated.")


def _names(fields: Iterable[Any]) -> set[str]:
    names = set()
    for field in fields:
        model: Any = field.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            names |= {inner.alias or name for name, inner in model.model_fields.items()}
        else:
            names.add(field.alias)
    return names


def _join_names(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _quote_field_name(name: object) -> str:
    """Return the unknown field name with a space before it, or "" if it may be more than a name."""
    return f" {name}" if isinstance(name, str) and _NAME.fullmatch(name) else ""


def _sentence(error: dict[str, Any], *, parameters: set[str], unknown: str) -> str:
    """Describe the error in one field and the allowed values, without the submitted value.

    `unknown` is the name of the first unknown field.
    """
    if error["type"] == _EXTRA:
        return f"body: unknown field{unknown}; allowed: {_join_names(parameters)}."
    path = ".".join(str(part) for part in error["loc"][1:]) or error["loc"][0]
    ours = _WORDS.get(error["type"])
    words = error["msg"] if ours is None else ours.format_map(error.get("ctx", {}))
    for before, after in (("Value error, ", ""), ("Input should be ", "must be ")):
        words = words.replace(before, after)
    return f"{path}: {words}."


_EXTRA: Final = "extra_forbidden"
# Excludes API keys, which a caller may have put in the wrong place.
_NAME: Final = re.compile("(?!svc_)[A-Za-z0-9_.-]{1,64}")
_WORDS: Final = {
    "missing": "is required",
    "too_short": "must have at least one entry",
    "too_long": "must have at most {max_length} entries",
    "model_attributes_type": "must be a JSON object",
}
