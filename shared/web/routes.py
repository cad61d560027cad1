"""Routes: what stands between a matched path and the function that serves it.

In this order (decisions 1, order of checks): scope, body, parameters. The caller is known and
has a token of the rate limit before any route is looked for: see `shared.web.gate`.
"""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Depends
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from shared.errors import InvalidRequest, RequestError
from shared.model.callers import Caller
from shared.operations.operation import Operation
from shared.ports import Ports
from shared.web import bodies

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


_SENTENCES_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Call:
    """What a route needs to call an operation."""

    ports: Ports
    caller: Caller


async def _call(request: Request) -> Call:
    call: Call = request.state.call
    return call


Here = Annotated[Call, Depends(_call)]


def serves(
    operation: Operation[Any, Any],
    *,
    body_max: int = bodies.BODY_MAX,
    raises: tuple[type[RequestError], ...] = (),
) -> Callable[[Endpoint], Endpoint]:
    """Mark an endpoint with the operation that it calls, and the bytes that its body may have.

    `raises` are the errors of the operation, beside those that any endpoint answers with.
    """

    def mark(endpoint: Endpoint) -> Endpoint:
        endpoint.operation = operation  # type: ignore[attr-defined]
        endpoint.body_max = body_max  # type: ignore[attr-defined]
        endpoint.raises = raises  # type: ignore[attr-defined]
        return endpoint

    return mark


class ContractRoute(APIRoute):
    """A route that checks scope, body and parameters in the contract's order and words."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        # A field that a response does not set is absent from it, not null.
        options["response_model_exclude_unset"] = True
        if options.get("status_code") == HTTPStatus.NO_CONTENT:
            # Nothing has no content type.
            options["response_class"] = Response
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The function that Starlette calls with a request for this route."""
        answer = super().get_route_handler()
        operation: Operation[Any, Any] = self.endpoint.operation  # type: ignore[attr-defined]
        body_max: int = self.endpoint.body_max  # type: ignore[attr-defined]

        async def handle(request: Request) -> Response:
            operation.authorize(request.state.call.caller)
            parsed = await bodies.read(request, limit=body_max)
            self._check_body(parsed)
            self._check_query(parsed)
            try:
                return await answer(parsed)
            except RequestValidationError as error:
                # Not chained: the original repeats what was submitted.
                raise InvalidRequest(self._explain(error)) from None

        return handle

    def _check_body(self, request: bodies.ParsedRequest) -> None:
        if self.body_field is None and request.value not in (None, {}):
            raise InvalidRequest("body: this endpoint takes none.")

    def _check_query(self, request: Request) -> None:
        names = [name for name, _ in request.query_params.multi_items()]
        allowed = _names(self.dependant.query_params)
        if not set(names) <= allowed:
            raise InvalidRequest(f"query: unknown parameter; allowed: {_listed(allowed)}.")
        if len(names) != len(set(names)):
            raise InvalidRequest("query: a parameter may be given once.")

    def _explain(self, error: RequestValidationError) -> str:
        fields = [] if self.body_field is None else [self.body_field]
        allowed = _names(fields)
        # The same fault many times over is one sentence, and nobody reads a thousand.
        sentences = dict.fromkeys(_sentence(each, allowed=allowed) for each in error.errors())
        return " ".join(islice(sentences, _SENTENCES_MAX))


def router() -> APIRouter:
    """An empty router whose routes keep to the contract."""
    return APIRouter(route_class=ContractRoute)


def _names(fields: Iterable[Any]) -> set[str]:
    names = set()
    for field in fields:
        model: Any = field.field_info.annotation
        is_model = isinstance(model, type) and issubclass(model, BaseModel)
        if is_model:
            names |= {inner.alias or name for name, inner in model.model_fields.items()}
        else:
            names.add(field.alias)
    return names


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _sentence(error: dict[str, Any], *, allowed: set[str]) -> str:
    """What is wrong with one field, and what is allowed; never what was submitted."""
    if error["type"] == "extra_forbidden":
        return f"body: unknown field; allowed: {_listed(allowed)}."
    path = ".".join(str(part) for part in error["loc"][1:]) or error["loc"][0]
    words = _WORDS.get(error["type"], error["msg"])
    for theirs, ours in (("Value error, ", ""), ("Input should be ", "must be ")):
        words = words.replace(theirs, ours)
    return f"{path}: {words}."


_WORDS: Final = {
    "missing": "is required",
    "model_attributes_type": "must be a JSON object",
}
