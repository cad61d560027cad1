"""Webhooks over HTTP (HOOK-1)."""

from typing import Annotated, Final

from fastapi import Path, Query

from functions.webhooks import operations as managing
from functions.webhooks import schemas
from shared.errors import Conflict, InvalidState, NotFound
from shared.web.app import create_app, lambda_handler
from shared.web.paging import CursorCodec, Paging
from shared.web.routes import ApiRequest, router, serves

routes = router("Webhooks")

PathId = Annotated[schemas.WebhookId, Path(alias="id")]

_DEFAULT_GRACE: Final = schemas.RotateWebhookSecret()


@routes.get("/v1/webhooks")
@serves(managing.page)
async def list_webhooks(request: ApiRequest, query: Paging) -> schemas.WebhookList:
    """List the webhooks, newest first.

    Their secrets are not shown.
    """
    pages = CursorCodec(request.caller, query.cursor, "webhooks")
    return schemas.WebhookList.of(
        request.run(managing.page, before=pages.position, limit=query.limit), pages
    )


@routes.post("/v1/webhooks", status_code=201)
@serves(managing.create, raises=(Conflict,))
async def create_webhook(
    request: ApiRequest, body: schemas.CreateWebhook
) -> schemas.WebhookWithSecret:
    """Create a webhook.

    A webhook is a URL that receives an event for each later change of the tenant. Messages follow
    the Standard Webhooks specification. The member `secret` of the response verifies them. It is
    shown in this response only: store it now. An event is sent at least once; the header
    `webhook-id` is the same each time.

    409: the tenant has 10 webhooks.
    """
    created = request.run(
        managing.create, url=body.url, events=tuple(body.events), description=body.description
    )
    return schemas.WebhookWithSecret.showing(created)


@routes.get("/v1/webhooks/{id}")
@serves(managing.get, raises=(NotFound,))
async def get_webhook(request: ApiRequest, webhook_id: PathId) -> schemas.WebhookBody:
    """Get a webhook and the progress of its deliveries."""
    return schemas.WebhookBody.of(request.run(managing.get, webhook_id=webhook_id))


@routes.patch("/v1/webhooks/{id}")
@serves(managing.update, raises=(NotFound,))
async def update_webhook(
    request: ApiRequest, webhook_id: PathId, body: schemas.UpdateWebhook
) -> schemas.WebhookBody:
    """Change the URL, the types of events or the description of a webhook.

    Fields that you omit do not change. If the webhook waits after a failure, it is tried at once.
    """
    updated = request.run(
        managing.update,
        webhook_id=webhook_id,
        url=body.url,
        events=None if body.events is None else tuple(body.events),
        description=body.description,
    )
    return schemas.WebhookBody.of(updated)


@routes.delete("/v1/webhooks/{id}", status_code=204)
@serves(managing.delete, raises=(NotFound,))
async def delete_webhook(request: ApiRequest, webhook_id: PathId) -> None:
    """Delete a webhook, with its secrets.

    It receives no further events.
    """
    request.run(managing.delete, webhook_id=webhook_id)


@routes.get("/v1/webhooks/{id}/deliveries")
@serves(managing.page_of_deliveries, raises=(NotFound,))
async def list_webhook_deliveries(
    request: ApiRequest, webhook_id: PathId, query: Annotated[schemas.DeliveriesQuery, Query()]
) -> schemas.DeliveryList:
    """List the deliveries of the last 14 days, newest event first.

    With `change`, the list contains only the deliveries about one change, while the change exists.
    """
    endpoint = f"webhooks/{webhook_id}/deliveries"
    if query.change is not None:
        endpoint += f"?change={query.change}"
    pages = CursorCodec(request.caller, query.cursor, endpoint)
    deliveries, next_before = request.run(
        managing.page_of_deliveries,
        webhook_id=webhook_id,
        before=pages.position,
        limit=query.limit,
        change_id=query.change,
    )
    listed = [schemas.DeliveryBody.of(each) for each in deliveries]
    return schemas.DeliveryList(deliveries=listed, cursor=pages.cursor_after(next_before))


@routes.post("/v1/webhooks/{id}/rotate-secret")
@serves(managing.rotate_secret, raises=(NotFound,))
async def rotate_webhook_secret(
    request: ApiRequest, webhook_id: PathId, body: schemas.RotateWebhookSecret = _DEFAULT_GRACE
) -> schemas.WebhookWithSecret:
    """Rotate the secret of a webhook.

    The member `secret` of the response is the new secret. It is shown in this response only. For
    `grace_seconds` each message has two signatures, so that a receiver with either secret accepts
    it. The body may be omitted.
    """
    rotated = request.run(
        managing.rotate_secret, webhook_id=webhook_id, grace_seconds=body.grace_seconds
    )
    return schemas.WebhookWithSecret.showing(rotated)


@routes.post("/v1/webhooks/{id}/enable")
@serves(managing.enable, raises=(NotFound,))
async def enable_webhook(request: ApiRequest, webhook_id: PathId) -> schemas.WebhookBody:
    """Enable a webhook again.

    It receives the events that it missed while it was disabled. If it is already enabled, the call
    has no effect.
    """
    return schemas.WebhookBody.of(request.run(managing.enable, webhook_id=webhook_id))


@routes.post("/v1/webhooks/{id}/disable")
@serves(managing.disable, raises=(NotFound,))
async def disable_webhook(request: ApiRequest, webhook_id: PathId) -> schemas.WebhookBody:
    """Disable a webhook.

    It receives no events until it is enabled. If it is already disabled, the call has no effect.
    """
    return schemas.WebhookBody.of(request.run(managing.disable, webhook_id=webhook_id))


@routes.post("/v1/webhooks/{id}/test", status_code=202)
@serves(managing.test, raises=(NotFound, InvalidState))
async def test_webhook(request: ApiRequest, webhook_id: PathId) -> schemas.WebhookBody:
    """Send an event of type `rescind.test` to a webhook.

    It is sent within seconds, after the waiting events. The list of deliveries shows its outcome. A
    webhook that waits after a failure is tried at once.

    409: the webhook is disabled.
    """
    return schemas.WebhookBody.of(request.run(managing.test, webhook_id=webhook_id))


@routes.post("/v1/webhooks/{id}/replay")
@serves(managing.replay, raises=(NotFound,))
async def replay_webhook(
    request: ApiRequest, webhook_id: PathId, body: schemas.ReplayWebhook
) -> schemas.WebhookBody:
    """Replay the events from an index.

    They have the same `webhook-id` as the first time. Events with an expired audit entry are not
    sent.
    """
    replayed = request.run(managing.replay, webhook_id=webhook_id, from_index=body.from_index)
    return schemas.WebhookBody.of(replayed)


app = create_app(routes)
handler = lambda_handler(app)
