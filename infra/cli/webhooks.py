"""`rescind webhooks`: manage the URLs that receive events."""

from datetime import timedelta
from typing import Annotated, Final

from functions.webhooks.records import GRACE_DEFAULT, GRACE_MAX
from infra.cli.api_keys import SecretFile, check_new, show_secret
from infra.cli.columns import Column
from infra.cli.commands import ApiSession, Identifier, Resource, command, noun
from infra.cli.errors import SHOWN, Limit, argument, drop_missing, option

_GRACE: Final = GRACE_DEFAULT // timedelta(seconds=1)
_DELIVERIES: Final = (
    Column("index", "index"),
    Column("type", "type"),
    Column("state", "state"),
    Column("attempts", "attempts"),
    Column("last attempt", "attempted_at"),
    Column("status", "status"),
    Column("response", "response", wraps=True),
)

Url = Annotated[str, argument("URL", "URL, such as https://hooks.example.com/a.")]
NewUrl = Annotated[str | None, option("--url", "New URL.", "URL")]
Events = Annotated[
    list[str] | None,
    option("--event", 'Event type, or "*" for all types; may be repeated.', "TYPE"),
]
Description = Annotated[str | None, option("--description", "Description of the webhook.")]
Grace = Annotated[
    int,
    option(
        "--grace",
        "Seconds during which the old secret also signs.",
        "SECONDS",
        min=0,
        max=GRACE_MAX // timedelta(seconds=1),
    ),
]
FromIndex = Annotated[
    int, option("--from-index", "Index of the first event to replay.", "N", min=0)
]

app = noun("Create, test and replay webhooks, and list their deliveries.")
_webhooks = Resource(
    app,
    "webhooks",
    "/v1/webhooks",
    "svc_whk_01J…",
    (
        Column("webhook", "id"),
        Column("status", "status"),
        Column("next event", "next_index"),
        Column("next attempt", "next_attempt_at"),
        Column("events", "events"),
        Column("url", "url", wraps=True),
    ),
)
_webhooks.add_list("List the webhooks, without their secrets.")
_webhooks.add_show("Show a webhook and the index of its next event.")
_webhooks.add_action("test", "Send an event of type rescind.test; `deliveries` shows its outcome.")
_webhooks.add_action("disable", "Stop sending events to a webhook until it is enabled.")
_webhooks.add_action("enable", "Enable a webhook, and send the events that it missed.")
_webhooks.add_delete("Delete a webhook and its secrets. This cannot be undone.", "the webhook {}")


@command(
    app,
    "create",
    example="rescind webhooks create https://hooks.example.com/a --secret-file hook.secret",
)
def create(
    session: ApiSession,
    url: Url,
    events: Events = None,
    description: Description = None,
    secret_file: SecretFile = None,
) -> None:
    """Create a webhook and print its secret, which is shown only once."""
    check_new(secret_file)
    body = {"url": url, "events": events or None, "description": description}
    show_secret(
        session, session.api.post(_webhooks.path, drop_missing(body)), secret_file, field="secret"
    )


@command(app, "update", example="rescind webhooks update svc_whk_01J… --event key.revoke")
def update(
    session: ApiSession,
    webhook: Identifier,
    url: NewUrl = None,
    events: Events = None,
    description: Description = None,
) -> None:
    """Change the given fields of a webhook."""
    body = {"url": url, "events": events or None, "description": description}
    session.out.record(session.api.patch(_webhooks.at(webhook), drop_missing(body)))


@command(app, "rotate-secret", example="rescind webhooks rotate-secret svc_whk_01J… --grace 3600")
def rotate_secret(
    session: ApiSession,
    webhook: Identifier,
    grace: Grace = _GRACE,
    secret_file: SecretFile = None,
) -> None:
    """Create a new secret and print it. The old secret also signs during the grace period."""
    check_new(secret_file)
    document = session.api.post(_webhooks.at(webhook, "/rotate-secret"), {"grace_seconds": grace})
    show_secret(session, document, secret_file, field="secret")


@command(app, "deliveries", example="rescind webhooks deliveries svc_whk_01J… --limit 20")
def list_deliveries(session: ApiSession, webhook: Identifier, limit: Limit = SHOWN) -> None:
    """List the deliveries of the last 14 days."""
    page = session.api.list_records(_webhooks.at(webhook, "/deliveries"), "deliveries", most=limit)
    session.out.print_page(page, "deliveries", _DELIVERIES)


@command(app, "replay", example="rescind webhooks replay svc_whk_01J… --from-index 43000")
def replay(session: ApiSession, webhook: Identifier, from_index: FromIndex) -> None:
    """Replay all events from an index."""
    body = {"from_index": from_index}
    session.out.record(session.api.post(_webhooks.at(webhook, "/replay"), body))
