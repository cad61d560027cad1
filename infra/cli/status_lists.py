"""`rescind status-lists`: manage Token Status Lists and allocate entries for credentials."""

from typing import Annotated

from functions.status_lists.records import COUNT_MAX
from infra.cli.columns import Column
from infra.cli.commands import ApiSession, Identifier, Resource, command, confirm, noun
from infra.cli.errors import Yes, argument, option

Url = Annotated[
    str | None,
    option("--url", "Service URL for verifiers (default: the URL of the profile).", "URL"),
]
Count = Annotated[int, argument("COUNT", "Number of credentials.", min=1, max=COUNT_MAX)]

app = noun("Create status lists, and allocate entries for credentials.")
_lists = Resource(
    app,
    "status-lists",
    "/v1/status-lists",
    "svc_tsl_01J…",
    (
        Column("status list", "id"),
        Column("allocated", "allocated"),
        Column("size", "size"),
        Column("name", "name", wraps=True),
        Column("uri", "uri", wraps=True),
    ),
    field="status_lists",
)
_lists.add_list("List the status lists.", in_pages=False)


@command(app, "create", example="rescind status-lists create badges --url https://rescind.example")
def create(
    session: ApiSession,
    name: Annotated[str, argument("NAME", "Display name.")],
    url: Url = None,
) -> None:
    """Create a status list. Its address cannot change, because credentials contain it."""
    body = {"name": name, "url": url or session.profile.url}
    session.out.record(session.api.post(_lists.path, body))


@command(app, "allocate", example="rescind status-lists allocate svc_tsl_01J… 3")
def allocate(session: ApiSession, status_list: Identifier, count: Count) -> None:
    """Allocate entries for credentials and print their indexes. An index is allocated only once."""
    document = session.api.post(_lists.at(status_list, "/entries"), {"count": count})
    session.out.show(document, "\n".join(map(str, document["indexes"])))


@command(app, "rotate-key", example="rescind status-lists rotate-key --yes", is_protected=True)
def rotate_key(session: ApiSession, yes: Yes = False) -> None:
    """Replace the key that signs status lists. Verifiers refuse signatures of the old key."""
    confirm("Replace the key that signs all status lists?", yes=yes)
    session.out.record(session.api.post(f"{_lists.path}/keys/rotate"))
