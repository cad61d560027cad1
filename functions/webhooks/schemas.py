"""Bodies of the webhook endpoints (HOOK-2)."""

from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, JsonValue

from functions.webhooks import records as model
from functions.webhooks.deliveries import DeliveryState
from functions.webhooks.operations import WebhookAndSecret
from functions.webhooks.records import ALL, DisableReason, WebhookStatus
from shared.model import outbound
from shared.model.identifiers import AUDIT_ENTRY, WEBHOOK
from shared.model.outbound import DeliveryOutcome
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
    field,
    identifier,
    omittable,
    sample,
)
from shared.web.paging import PageBody, PageQuery


def _types(events: list[str]) -> list[str]:
    if not set(events) <= {ALL, *model.TYPES}:
        raise ValueError(f'must contain types of events, such as "key.revoke", or "{ALL}" for all')
    if len(set(events)) != len(events):
        raise ValueError("must not contain a type twice")
    return events


_URL: Final = (
    "URL that receives the events: https, port 443, with a DNS name that resolves only to "
    "public addresses."
)
_EVENTS: Final = 'Types of events to send. `["*"]` selects all types, including types added later.'
_DESCRIPTION: Final = "Purpose of the webhook, in one or more lines."
_TYPE_SCHEMA: Final[dict[str, JsonValue]] = {
    "items": {"type": "string", "enum": [ALL, *model.TYPES]},
    "uniqueItems": True,
}
_WEBHOOK: Final[dict[str, JsonValue]] = {
    "id": sample(WEBHOOK),
    "url": "https://hooks.example.com/rescind",
    "description": "Notifies the gateway's operators",
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

WebhookId = Annotated[str, field("Identifier of the webhook.", **identifier(WEBHOOK))]
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
        description="Signing secret, in the format of the Standard Webhooks specification. No "
        "other response contains it.",
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
    description: Reason | None = omittable(_DESCRIPTION)


class UpdateWebhook(RequestBody):
    """Changes of a webhook. Omitted and null fields do not change."""

    model_config = example(events=["*"])

    url: Url | None = omittable(_URL)
    events: Types | None = omittable(_EVENTS)
    description: Reason | None = omittable(_DESCRIPTION)


class RotateWebhookSecret(RequestBody):
    """How long the old secret signs together with the new one."""

    model_config = example(grace_seconds=3600)

    grace_seconds: int = Field(
        default=int(model.GRACE_DEFAULT.total_seconds()),
        ge=0,
        le=int(model.GRACE_MAX.total_seconds()),
        description="Time in seconds during which each message has two signatures, by the new "
        "secret and by the old one.",
    )


class ReplayWebhook(RequestBody):
    """The index to start from."""

    model_config = example(from_index=42_900)

    from_index: int = Field(
        ge=0,
        description="Index of the first event to replay: the `data.index` of an event, or the "
        "`index` of a delivery.",
    )


class WebhookBody(RecordBody):
    """A webhook, without its secret, and the progress of its deliveries."""

    model_config = example(**_WEBHOOK)

    id: WebhookId
    url: str = field(_URL)
    description: str | None = field("Purpose of the webhook; null if not given.")
    events: tuple[str, ...] = field(_EVENTS)
    status: WebhookStatus = field("Status of the webhook. A disabled webhook receives no events.")
    disabled_reason: DisableReason | None = field(
        "Reason why the webhook is disabled. `requested`: by a caller. `gone`: it responded with "
        "410. `failing`: it accepted no event for a day. Null if it is enabled."
    )
    created_at: MomentOut = field("Time of creation.")
    next_index: int = field(
        "Index of the next event. All events below it were sent, are deferred, or need not be sent."
    )
    failing_since: MomentOut | None = field(
        "Time of the first failed attempt since the last accepted event; null if the webhook works."
    )
    next_attempt_at: MomentOut | None = field(
        "Time of the next attempt after a failure; null if no attempt is scheduled."
    )
    deferred_events: int = field(
        "Number of events that the webhook rejected with a status other than 5xx, 408, 410 and "
        "429. They are retried separately for a day.",
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

    webhooks: list[WebhookBody] = field("The webhooks of this page, newest first.")
    total: Total
    cursor: NextCursor


class DeliveryBody(RecordBody):
    """The outcome of one event."""

    model_config = example(**_DELIVERY)

    id: str = field(
        "The `webhook-id` of the message: the identifier of the audit entry.",
        **identifier(AUDIT_ENTRY),
    )
    index: int = field("Index of the audit entry in the transparency log.", minimum=0)
    type: str = field("Type of the event.")
    state: DeliveryState = field(
        "`delivered`: the receiver responded with 2xx. `retrying`: the event will be sent again. "
        "`failed`: the event was abandoned after a day."
    )
    attempts: int = field("Number of attempts.", minimum=1)
    attempted_at: MomentOut = field("Time of the last attempt.")
    outcome: DeliveryOutcome = field(
        "Outcome of the last attempt. `response`: the receiver returned a status. `blocked`: the "
        "name does not resolve only to public addresses, and no request was sent. `no_response`: "
        "no connection, no valid certificate, or no complete response within 15 seconds."
    )
    status: int | None = field("HTTP status of the response; null if there was none.")
    duration_ms: int = field("Duration of the last attempt, in milliseconds.", minimum=0)
    response: str = field(
        f"The first {outbound.ANSWER_MAX} bytes of the response, as text.",
        maxLength=outbound.ANSWER_MAX,
    )


class DeliveriesQuery(PageQuery):
    """The query of GET /v1/webhooks/{id}/deliveries."""

    change: str | None = omittable(
        "Return only deliveries about this revocation, batch, signing key, API key or SRL signer."
    )


class DeliveryList(ResponseBody):
    """A page of deliveries."""

    model_config = example(deliveries=[_DELIVERY], cursor=CURSOR)

    deliveries: list[DeliveryBody] = field("The deliveries of this page, newest event first.")
    cursor: NextCursor
