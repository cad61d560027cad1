"""`rescind api`: send any API request with the profile's credential."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl

import typer

from infra.cli.commands import ApiSession, command
from infra.cli.errors import UsageError, argument, option
from infra.cli.inputs import by_name, read_json

_IN_QUERY: Final = frozenset({"GET", "HEAD", "DELETE"})

Method = Annotated[str, argument("METHOD", "HTTP method: GET, POST, PATCH, PUT or DELETE.")]
RequestPath = Annotated[str, argument("PATH", "Path, such as /v1/keys.")]
Fields = Annotated[
    list[str] | None,
    option(
        "--field -f",
        "Query parameter of GET and DELETE, or member of the body.",
        "NAME=TEXT|NAME:=JSON",
    ),
]
Input = Annotated[Path | None, option("--input", "JSON body; - is standard input.", "FILE")]
Paginate = Annotated[bool, option("--paginate", "Fetch all pages, and print them as one.")]


def register(root: typer.Typer) -> None:
    """Add the command."""
    example = "rescind api GET /v1/keys -f limit=5 --paginate"
    command(root, "api", example=example, is_protected=True)(send_request)


def send_request(
    session: ApiSession,
    method: Method,
    path: RequestPath,
    field: Fields = None,
    input_: Input = None,
    paginate: Paginate = False,
) -> None:
    """Send an API request, and print the response unchanged.

    The reference (`docs/openapi.json`) lists all operations.
    """
    verb, fields = method.upper(), [_field(each) for each in field or []]
    if not path.startswith("/v1/"):
        raise UsageError(f"{path} is not a path of the API; give a path such as /v1/keys.")
    path, _, query = path.partition("?")
    if query and verb not in _IN_QUERY:
        raise UsageError("only GET and DELETE accept a query; use --field NAME=TEXT.")
    parameters = by_name([*parse_qsl(query, keep_blank_values=True), *fields])
    if input_ is not None and (parameters or verb in _IN_QUERY):
        raise UsageError("--input is the complete body; do not combine it with --field or GET.")
    if paginate:
        if verb != "GET":
            raise UsageError("--paginate requires GET.")
        # The last page, preceded by the records of all earlier pages.
        document: dict[str, Any] = {}
        for page in session.api.pages(path, parameters):
            lists = {name: value for name, value in page.items() if isinstance(value, list)}
            document = page | {
                name: [*document.get(name, []), *value] for name, value in lists.items()
            }
        session.out.print_document(document)
        return
    if verb in _IN_QUERY:
        answer = session.api.send(verb, path, params=parameters, follow=verb != "DELETE")
    else:
        answer = session.api.send(
            verb, path, body=parameters if input_ is None else read_json(input_)
        )
    if answer.headers.get("content-type", "").startswith("application/json"):
        session.out.print_document(json.loads(answer.body))
    else:
        sys.stdout.buffer.write(answer.body)


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name.strip(":") or not equals:
        raise UsageError(f"--field {text}: use NAME=TEXT or NAME:=JSON.")
    if not name.endswith(":"):
        return name, value
    try:
        return name[:-1], json.loads(value)
    except ValueError:
        raise UsageError(f"--field {text}: {value} is not JSON.") from None
