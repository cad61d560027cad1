"""Webhooks over HTTP (HOOK-1)."""

from typing import Annotated, Final

from fastapi import Path

from functions.webhooks.schemas import (
    CreateWebhook,
    Delivery,
    DeliveryList,
    ReplayWebhook,
    RotateWebhookSecret,
    UpdateWebhook,
    Webhook,
    WebhookId,
    WebhookList,
    WebhookWithSecret,
    members,
)
from shared.errors import Conflict, InvalidState, NotFound
from shared.operations.api import webhooks
from shared.web.app import create_app, lambda_handler
from shared.web.paging import Pager, Paging
from shared.web.routes import ApiRequest, router, serves

routes = router("Webhooks")

PathId = Annotated[WebhookId, Path(alias="id")]

_DEFAULT_GRACE: Final = RotateWebhookSecret()


@routes.get("/v1/webhooks")
@serves(webhooks.page)
async def list_webhooks(here: ApiRequest, query: Paging) -> WebhookList:
    """List the webhooks, newest first. Their secrets are not shown."""
    pages = Pager(here.caller, query.cursor, "webhooks")
    return WebhookList.of(here.run(webhooks.page, before=pages.before, limit=query.limit), pages)


@routes.post("/v1/webhooks", status_code=201)
@serves(webhooks.create, raises=(Conflict,))
async def create_webhook(here: ApiRequest, body: CreateWebhook) -> WebhookWithSecret:
    """Create a webhook: an address that is sent an event for each later change of the tenant.

    Messages follow the Standard Webhooks specification. The member `secret` of the response
    verifies them. It is shown in this response only: store it now. An event is sent at least once;
    the header `webhook-id` is the same each time.

    409: the tenant has 10 webhooks.
    """
    created = here.run(
        webhooks.create, url=body.url, events=tuple(body.events), description=body.description
    )
    return WebhookWithSecret.showing(created)


@routes.get("/v1/webhooks/{id}")
@serves(webhooks.get, raises=(NotFound,))
async def get_webhook(here: ApiRequest, webhook_id: PathId) -> Webhook:
    """Get one webhook and how far its events were sent."""
    return Webhook.of(here.run(webhooks.get, webhook_id=webhook_id))


@routes.patch("/v1/webhooks/{id}")
@serves(webhooks.update, raises=(NotFound,))
async def update_webhook(here: ApiRequest, webhook_id: PathId, body: UpdateWebhook) -> Webhook:
    """Change the address, the types of events or the description of a webhook.

    What you omit does not change. If the webhook waits after a failure, it is tried at once.
    """
    return Webhook.of(here.run(webhooks.update, webhook_id=webhook_id, **members(body)))


@routes.delete("/v1/webhooks/{id}", status_code=204)
@serves(webhooks.delete, raises=(NotFound,))
async def delete_webhook(here: ApiRequest, webhook_id: PathId) -> None:
    """Delete a webhook, with its secrets. Nothing more is sent to it."""
    here.run(webhooks.delete, webhook_id=webhook_id)


@routes.get("/v1/webhooks/{id}/deliveries")
@serves(webhooks.page_of_deliveries, raises=(NotFound,))
async def list_webhook_deliveries(
    here: ApiRequest, webhook_id: PathId, query: Paging
) -> DeliveryList:
    """List what became of the events of the last 14 days, newest event first."""
    pages = Pager(here.caller, query.cursor, f"webhooks/{webhook_id}/deliveries")
    found, next_before = here.run(
        webhooks.page_of_deliveries, webhook_id=webhook_id, before=pages.before, limit=query.limit
    )
    return DeliveryList(
        deliveries=[Delivery.of(each) for each in found], cursor=pages.after(next_before)
    )


@routes.post("/v1/webhooks/{id}/rotate-secret")
@serves(webhooks.rotate_secret, raises=(NotFound,))
async def rotate_webhook_secret(
    here: ApiRequest, webhook_id: PathId, body: RotateWebhookSecret = _DEFAULT_GRACE
) -> WebhookWithSecret:
    """Give a webhook a new secret.

    The member `secret` of the response is the new secret. It is shown in this response only. For
    `grace_seconds` each message bears two signatures, so that a receiver that knows either secret
    accepts it. The body may be omitted.
    """
    rotated = here.run(
        webhooks.rotate_secret, webhook_id=webhook_id, grace_seconds=body.grace_seconds
    )
    return WebhookWithSecret.showing(rotated)


@routes.post("/v1/webhooks/{id}/enable")
@serves(webhooks.enable, raises=(NotFound,))
async def enable_webhook(here: ApiRequest, webhook_id: PathId) -> Webhook:
    """Enable a webhook again.

    It is sent what it was not sent while it was disabled. If it is enabled already, nothing
    changes.
    """
    return Webhook.of(here.run(webhooks.enable, webhook_id=webhook_id))


@routes.post("/v1/webhooks/{id}/disable")
@serves(webhooks.disable, raises=(NotFound,))
async def disable_webhook(here: ApiRequest, webhook_id: PathId) -> Webhook:
    """Disable a webhook: nothing is sent to it until it is enabled.

    If it is disabled already, nothing changes.
    """
    return Webhook.of(here.run(webhooks.disable, webhook_id=webhook_id))


@routes.post("/v1/webhooks/{id}/test", status_code=202)
@serves(webhooks.test, raises=(NotFound, InvalidState))
async def test_webhook(here: ApiRequest, webhook_id: PathId) -> Webhook:
    """Have an event of type `rescind.test` sent to a webhook.

    It is sent after the events that wait, within seconds; the list of deliveries shows its outcome.
    A webhook that waits after a failure is tried at once.

    409: the webhook is disabled.
    """
    return Webhook.of(here.run(webhooks.test, webhook_id=webhook_id))


@routes.post("/v1/webhooks/{id}/replay")
@serves(webhooks.replay, raises=(NotFound,))
async def replay_webhook(here: ApiRequest, webhook_id: PathId, body: ReplayWebhook) -> Webhook:
    """Send the events from an index on again.

    They have the same `webhook-id` as the first time. Events whose audit entry has expired are not
    sent.
    """
    replayed = here.run(webhooks.replay, webhook_id=webhook_id, from_index=body.from_index)
    return Webhook.of(replayed)


app = create_app(routes)
handler = lambda_handler(app)
