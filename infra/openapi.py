"""Generate the OpenAPI document from the routes (`make written` writes it to docs/).

FastAPI describes paths, parameters and bodies. This module adds the names for generated clients,
the endpoint docstrings, the scopes, the response headers, and the errors. `infra/openapi.md`
contains the text about the whole API. `infra/openapi.toml` contains the other texts, the headers
and the error schemas.
"""

import inspect
import json
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from fastapi.openapi.utils import get_openapi

from infra.server.routers import ROUTERS
from shared import errors
from shared.model.callers import Scope
from shared.model.idempotency import KEY_PATTERN
from shared.operations.base.idempotency import IdempotentOperation
from shared.web.errors import STATUS, PayloadTooLarge, Unauthorized, UnsupportedMediaType, code_of
from shared.web.errors import response as response_to
from shared.web.routes import IDEMPOTENCY_KEY, REPLAYED, ApiRoute

PATH: Final = Path(__file__).parent.parent / "docs" / "openapi.json"
_INFO: Final = Path(__file__).with_name("openapi.md")
_PARTS: Final = tomllib.loads(_INFO.with_suffix(".toml").read_text(encoding="utf-8"))

# Errors of every operation, caused by its caller, its parameters or its body.
_ALWAYS: Final = (
    errors.InvalidRequest,
    Unauthorized,
    errors.InvalidApiKey,
    PayloadTooLarge,
    UnsupportedMediaType,
    errors.RateLimited,
)

# The errors of each status, as examples of its response.
_EXAMPLES: Final[dict[str, tuple[Exception, ...]]] = {
    "400": (errors.InvalidRequest("limit: must be a whole number from 1 to 100."),),
    "401": (
        Unauthorized("Authorization: the header is required; send Bearer and an API key."),
        errors.InvalidApiKey(),
        errors.ReauthenticationRequired(),
    ),
    "403": (
        errors.InsufficientScope(["admin"]),
        errors.ApprovalRequired("This action requires an approval by another person."),
    ),
    "404": (errors.NotFound(),),
    "409": (
        errors.InvalidState("The state of the resource does not allow this."),
        errors.Conflict("The identifier is taken, or a limit is reached."),
        errors.TooFewApprovers(),
        errors.ListFull("The status list has 12 entries left; create another status list."),
    ),
    "410": (errors.Gone("changed_since: is older than an hour; read all authorizers."),),
    "413": (PayloadTooLarge(262144),),
    "415": (UnsupportedMediaType("Content-Type: a body must be sent as application/json."),),
    "429": (
        errors.RateLimited(retry_after=1),
        errors.AuthorizerLimit(
            retry_after=300, message="checkout@acme.svc has registered 200 authorizers."
        ),
    ),
    "500": (RuntimeError(),),
    "503": (errors.Unavailable(),),
}

# For the document that the server itself serves.
HERE: Final = {"url": "/", "description": "This server"}

# The headers of every response, and the additional headers of some statuses.
_COMMON: Final = [
    name for name in _PARTS["headers"] if name not in {"WWW-Authenticate", "Retry-After"}
]
_OF_STATUS: Final = {
    "401": ["WWW-Authenticate"],
    "403": ["WWW-Authenticate"],
    "429": ["Retry-After"],
    "503": ["Retry-After"],
}
_REASON: Final = re.compile(r"(\d{3}): (.*)")
# References to requirements of the specification, which docstrings of the code contain.
_REQUIREMENT: Final = re.compile(r"\s+\((?!SHA-)(?:[A-Z]{3,}-\d+[a-z]?(?:, )?)+\)(?=[.:]|$)")


def document(*servers: dict[str, Any]) -> dict[str, Any]:
    """Return the document as JSON values, with these `servers` or the general ones."""
    found = (route for router in ROUTERS for route in router.routes if isinstance(route, ApiRoute))
    # The document does not depend on the order in which routes are tried.
    routes = sorted(found, key=lambda route: route.path)
    openapi = get_openapi(
        title="Rescind",
        version="1",
        summary="Revocation of warrants, and management of their signing keys.",
        description=_INFO.read_text(encoding="utf-8").rstrip(),
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        servers=list(servers) or _PARTS["servers"],
        tags=[{"name": name, "description": text} for name, text in _PARTS["tags"].items()],
        routes=routes,
    )
    schemas = openapi["components"]["schemas"]
    for route in routes:
        for method in route.methods or ():
            operation = openapi["paths"][route.path_format][method.lower()]
            _complete(operation, route)
            # Describe successful responses by their content.
            for response in operation["responses"].values():
                if response.get("description") == "Successful Response":
                    body = response.get("content", {}).get("application/json", {}).get("schema", {})
                    schema = schemas.get(body.get("$ref", "").split("/")[-1])
                    response["description"] = (
                        "The request succeeded; the response has no body"
                        if schema is None
                        else schema["description"].removesuffix(".")
                    )
    openapi["components"] = _components(schemas)
    cleaned: dict[str, Any] = _clean_schema(openapi)
    return dict(sorted(cleaned.items()))


def text() -> str:
    """Return the document in its stored form."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def _complete(document: dict[str, Any], route: ApiRoute) -> None:
    """Add the parts common to all operations, and the text of the endpoint's docstring."""
    operation = route.serving.operation
    summary, paragraphs, reasons = _words(route.endpoint.__doc__ or "")
    first, *others = route.name.split("_")
    document["operationId"] = first + "".join(map(str.capitalize, others))
    document["summary"] = summary
    scopes = ", ".join(f"`{scope}`" for scope in operation.scopes)
    accepts = f"Accepted scopes: {scopes}."
    if operation.fresh:
        exception = "" if operation.fresh is True else ", unless the request unrevokes no warrants"
        accepts += f" A person must have signed in within the last 15 minutes{exception}."
    document["description"] = "\n\n".join([*paragraphs, accepts])
    # Any of these scopes is enough.
    document["security"] = [{"apiKey": [scope]} for scope in operation.scopes]
    for parameter in document.get("parameters", []):
        # Remove the repeated description, and the null type, which is invalid in a query.
        schema = parameter["schema"]
        schema.pop("description", None)
        for kind in schema.pop("anyOf", []):
            if kind != {"type": "null"}:
                schema |= kind
    responses = document["responses"]
    responses.pop("422", None)
    for status, response in responses.items():
        response.setdefault("headers", {}).update(_headers(status))
    if isinstance(operation, IdempotentOperation):
        _add_idempotency(document, reasons)
    if route.serving.is_protected:
        approving = _PARTS["approving"]
        document.setdefault("parameters", []).extend(approving["parameters"])
        reasons["409"] = " ".join(filter(None, [reasons.get("409"), approving["conflict"]]))
    raised = _raised_errors(route)
    for status in sorted({str(STATUS[error]) for error in raised} | {"500", "503"}):
        reason = reasons.pop(status, None)
        responses[status] = (
            {"$ref": f"#/components/responses/{_PARTS['errors'][status]['name']}"}
            if reason is None
            else _error(status, {error.code for error in raised}) | {"description": reason}
        )
    if reasons:
        raise ValueError(f"{route.name}: raises no error of the status {', '.join(reasons)}")


def _add_idempotency(document: dict[str, Any], reasons: dict[str, str]) -> None:
    """Add the idempotency header, and its effects on responses."""
    repeated = _PARTS["repeated"]
    schema = {"type": "string", "pattern": f"^{KEY_PATTERN}$", "maxLength": 255}
    document.setdefault("parameters", []).append(
        {"name": IDEMPOTENCY_KEY, "in": "header", "required": False, "schema": schema}
        | {"description": repeated["request"]}
    )
    for response in document["responses"].values():
        response["headers"][REPLAYED] = {
            "description": repeated["response"],
            "schema": {"type": "string", "const": "true"},
        }
    reasons["409"] = " ".join(filter(None, [reasons.get("409"), repeated["conflict"]]))


def _words(docstring: str) -> tuple[str, list[str], dict[str, str]]:
    """Return the summary, the following paragraphs, and the reasons of errors (`409: why`)."""
    # Python 3.13 removes the indentation of docstrings at compile time. Older versions do not.
    first, *others = inspect.cleandoc(docstring).split("\n\n")
    paragraphs, reasons = [], {}
    for each in others:
        words = " ".join(each.split())
        if match := _REASON.fullmatch(words):
            reasons[match[1]] = match[2][0].upper() + match[2][1:]
        else:
            paragraphs.append(words)
    return " ".join(first.split()).removesuffix("."), paragraphs, reasons


def _raised_errors(route: ApiRoute) -> set[type[errors.RequestError]]:
    raised = {*_ALWAYS, *route.serving.raises}
    if isinstance(route.serving.operation, IdempotentOperation):
        raised.add(errors.Conflict)
    if set(route.serving.operation.scopes) != set(Scope):
        raised.add(errors.InsufficientScope)
    if route.serving.operation.fresh:
        raised.add(errors.ReauthenticationRequired)
    if route.serving.is_protected:
        raised |= {errors.ApprovalRequired, errors.Conflict, errors.InvalidState}
    return raised


def _headers(status: str) -> dict[str, Any]:
    names = [*_COMMON, *_OF_STATUS.get(status, [])]
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _error(status: str, codes: Iterable[str]) -> dict[str, Any]:
    """Return the response of this status, with examples of the errors with these codes."""
    examples = {
        code_of(error): {"value": json.loads(bytes(response_to(error).body))}
        for error in _EXAMPLES[status]
        if code_of(error) in codes
    }
    content = {"schema": {"$ref": "#/components/schemas/Error"}, "examples": examples}
    return {
        "description": _PARTS["errors"][status]["meaning"],
        "headers": _headers(status),
        "content": {"application/json": content},
    }


def _components(schemas: dict[str, Any]) -> dict[str, Any]:
    codes = [code_of(error) for examples in _EXAMPLES.values() for error in examples]
    error_schemas: dict[str, Any] = _PARTS["schemas"]
    error_schemas["ErrorCode"]["enum"] = codes
    named: dict[str, Any] = {}
    for name, schema in schemas.items():
        if name in {"HTTPValidationError", "ValidationError"}:
            continue
        # FastAPI gives a schema two names if it differs between requests and responses.
        if named.setdefault(_public(name), schema) != schema:
            raise ValueError(f"two schemas have the name {_public(name)}")
    return {
        "schemas": named | error_schemas,
        # Each operation describes its own conflicts and limits.
        "responses": {
            each["name"]: _error(status, set(codes) - {errors.AuthorizerLimit.code})
            for status, each in _PARTS["errors"].items()
            if status not in {"409", "410"}
        },
        "headers": _PARTS["headers"],
        "securitySchemes": _PARTS["securitySchemes"],
    }


def _public(name: str) -> str:
    """Return the name of a class for generated clients."""
    return str(_PARTS["names"].get(name, name.removesuffix("Body")))


def _clean_schema(value: Any, *, of: str = "") -> Any:
    """Return `value` with client names, without titles and references to requirements."""
    if isinstance(value, dict):
        return {
            name: _clean_schema(member, of=name)
            for name, member in value.items()
            if name != "title" or of in {"info", "properties"}
        }
    if isinstance(value, list):
        return [_clean_schema(each) for each in value]
    if of == "$ref":
        path, _, name = value.rpartition("/")
        return f"{path}/{_public(name)}"
    if of == "description" and isinstance(value, str):
        return _REQUIREMENT.sub("", value)
    # FastAPI stores bounds as floating-point numbers.
    return int(value) if isinstance(value, float) and value.is_integer() else value


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
    print(f"wrote {PATH.name}", file=sys.stderr)
