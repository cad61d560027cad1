"""Bodies of the webhook endpoints (HOOK-2)."""

from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, JsonValue

from shared.model import outbound
from shared.model.identifiers import AUDIT_ENTRY, WEBHOOK
from shared.model.webhooks import deliveries
from shared.model.webhooks import webhooks as model
from shared.model.webhooks.deliveries import DeliveryOutcome, DeliveryState
from shared.model.webhooks.webhooks import ALL, DisableReason, WebhookStatus
from shared.operations.webhooks.managing import WebhookAndSecret
from shared.web.fields import (
    CURSOR,
    MomentOut,
    NextCursor,
    Reason,
    RecordBody,
    RequestBody,
    ResponseBody,
    Total,
    example,
    identifier,
    response_field,
    sample,
)
from shared.web.paging import PageBody, PageQuery


def _types(events: list[str]) -> list[str]:
    if not set(events) <= {ALL, *model.TYPES}:
        raise ValueError(f'must name types of events, such as "key.revoke", or "{ALL}" for all')
    if len(set(events)) != len(events):
        raise ValueError("must not name a type twice")
    return events


_URL: Final = (
    "The address to which events are sent: https, port 443, a DNS name as its host. It must "
    "resolve to public addresses only."
)
_EVENTS: Final = 'The types of events that are sent; `["*"]` are all, including later ones.'
_DESCRIPTION: Final = "What the webhook is for, in one or more lines."
_TYPE_SCHEMA: Final[dict[str, JsonValue]] = {
    "items": {"type": "string", "enum": [ALL, *model.TYPES]},
    "uniqueItems": True,
}
_WEBHOOK: Final[dict[str, JsonValue]] = {
    "id": sample(WEBHOOK),
    "url": "https://hooks.example.com/rescind",
    "description": "Tells the gateway's operators",
    "events": ["revocation.create", "revocation.create_batch", "key.revoke"],
    "status": "disabled",
    "disabled_reason": "failing",
    "created_at": "2026-11-21T12:00:00Z",
    "next_index": 43_008,
    "failing_since": "2026-11-20T12:00:00Z",
    "next_attempt_at": "2026-11-21T13:30:00Z",
    "deferred_events": 0,
}
_SECRET: Final = "whsec_" + "Zm9vYmFy" * 5 + "Zm8="
_DELIVERY: Final[dict[str, JsonValue]] = {
    "id": sample(AUDIT_ENTRY),
    "index": 43_007,
    "type": "revocation.create",
    "state": "delivered",
    "attempts": 1,
    "attempted_at": "2026-11-21T12:05:00Z",
    "outcome": "response",
    "status": 204,
    "duration_ms": 83,
    "response": "",
}

WebhookId = Annotated[str, response_field("Identifier of the webhook.", **identifier(WEBHOOK))]
Url = Annotated[
    str,
    AfterValidator(outbound.checked_url),
    Field(
        json_schema_extra={
            "format": "uri",
            "pattern": "^https://[!-~]+$",
            "maxLength": outbound.URL_MAX,
        }
    ),
]
Types = Annotated[
    list[str],
    Field(min_length=1, json_schema_extra=_TYPE_SCHEMA),
    AfterValidator(_types),
]
Secret = Annotated[
    str,
    Field(
        repr=False,
        description="The secret that signs what is sent, in the form of the Standard Webhooks "
        "specification. No other response shows it.",
        json_schema_extra={"pattern": "^whsec_[A-Za-z0-9+/]{43}=$"},
    ),
]


class CreateWebhook(RequestBody):
    """The webhook to create."""

    model_config = example(
        url=_WEBHOOK["url"], events=_WEBHOOK["events"], description=_WEBHOOK["description"]
    )

    url: Url = Field(description=_URL)
    events: Types = Field(default=[ALL], description=_EVENTS)
    description: Reason | None = Field(default=None, description=_DESCRIPTION)


class UpdateWebhook(RequestBody):
    """Changes of a webhook. Omitted and null fields do not change."""

    model_config = example(events=["*"])

    url: Url | None = Field(default=None, description=_URL)
    events: Types | None = Field(default=None, description=_EVENTS)
    description: Reason | None = Field(default=None, description=_DESCRIPTION)


class RotateWebhookSecret(RequestBody):
    """How long the old secret signs together with the new one."""

    model_config = example(grace_seconds=3600)

    grace_seconds: int = Field(
        default=int(model.GRACE_DEFAULT.total_seconds()),
        ge=0,
        le=int(model.GRACE_MAX.total_seconds()),
        description="For so many seconds each message bears two signatures: by the new secret and "
        "by the present one.",
    )


class ReplayWebhook(RequestBody):
    """The index to start from."""

    model_config = example(from_index=42_900)

    from_index: int = Field(
        ge=0,
        description="The index of the first event to send again: the `data.index` of an event, or "
        "the `index` of a delivery.",
    )


class WebhookBody(RecordBody):
    """A webhook, without its secret, and the progress of its deliveries."""

    model_config = example(**_WEBHOOK)

    id: WebhookId
    url: str = response_field(_URL)
    description: str | None = response_field("What the webhook is for; null if it was not given.")
    events: tuple[str, ...] = response_field(_EVENTS)
    status: WebhookStatus = response_field("Nothing is sent to a disabled webhook.")
    disabled_reason: DisableReason | None = response_field(
        "Why it is disabled: `requested`; `gone`, because it answered 410; `failing`, because it "
        "accepted nothing for a day. Null if it is enabled."
    )
    created_at: MomentOut = response_field("When the webhook was created.")
    next_index: int = response_field(
        "All events below this index were sent, or are deferred events, or need not be sent."
    )
    failing_since: MomentOut | None = response_field(
        "When the first attempt failed after which the webhook accepted nothing; null if it works."
    )
    next_attempt_at: MomentOut | None = response_field(
        "When the next attempt is made after a failure; null if the webhook does not wait."
    )
    deferred_events: int = response_field(
        "How many events it refused with another status than 5xx, 408, 410 and 429. They are "
        "retried for a day, apart from the others.",
        minimum=0,
    )


class WebhookWithSecret(WebhookBody):
    """A webhook and its newest secret, which no other response shows."""

    model_config = example(**_WEBHOOK, secret=_SECRET)

    secret: Secret

    @classmethod
    def showing(cls, webhook: WebhookAndSecret) -> Self:
        """Return the body for a webhook with its secret."""
        return cls(**dict(WebhookBody.of(webhook.webhook)), secret=webhook.secret)


class WebhookList(PageBody):
    """A page of webhooks."""

    model_config = example(webhooks=[_WEBHOOK], total=2, cursor=CURSOR)

    webhooks: list[WebhookBody] = response_field("The webhooks of this page, newest first.")
    total: Total
    cursor: NextCursor


class DeliveryBody(RecordBody):
    """The outcome of one event."""

    model_config = example(**_DELIVERY)

    id: str = response_field(
        "The `webhook-id` of the message: the identifier of the entry in the audit log.",
        **identifier(AUDIT_ENTRY),
    )
    index: int = response_field("The index of the entry in the sealed log.", minimum=0)
    type: str = response_field("The type of the event.")
    state: DeliveryState = response_field(
        "`delivered`: the receiver answered with 2xx. `retrying`: it is sent again. `failed`: it "
        "was given up after a day."
    )
    attempts: int = response_field("How often it was sent.", minimum=1)
    attempted_at: MomentOut = response_field("When it was last sent.")
    outcome: DeliveryOutcome = response_field(
        "The result of the last attempt. `response`: a status. `blocked`: the name does not "
        "resolve to public addresses only, and nothing was sent. `no_response`: no connection, no "
        "valid certificate, or no complete response within 15 seconds."
    )
    status: int | None = response_field("The status of the response; null if there was none.")
    duration_ms: int = response_field("How long the last attempt took.", minimum=0)
    response: str = response_field(
        f"The first {deliveries.ANSWER_MAX} bytes of the response, as text.",
        maxLength=deliveries.ANSWER_MAX,
    )


class DeliveriesQuery(PageQuery):
    """The query of GET /v1/webhooks/{id}/deliveries."""

    change: str | None = Field(
        default=None,
        description="The identifier of a revocation, a batch, a signing key, an API key or a list "
        "signer that was revoked.",
    )


class DeliveryList(ResponseBody):
    """A page of deliveries."""

    model_config = example(deliveries=[_DELIVERY], cursor=CURSOR)

    deliveries: list[DeliveryBody] = response_field(
        "The deliveries of this page, newest event first."
    )
    cursor: NextCursor


def members(body: UpdateWebhook) -> dict[str, Any]:
    """Return the new values for the operation."""
    return {**dict(body), "events": None if body.events is None else tuple(body.events)}
