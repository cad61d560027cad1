"""The feed over HTTP (POLL-1 to POLL-6), and its polling interval (FLEET-8)."""

import hashlib
import re
from collections import OrderedDict
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Final, NamedTuple

from fastapi import Path, Query, Response
from pydantic import BaseModel, Field

from functions.feed.schemas import FeedAnswer
from shared.authorizer.formats.wire import NUMBER_MAX
from shared.capabilities import INSTALLED, POLL_SECONDS_MIN
from shared.errors import NotFound, Unavailable
from shared.model.feed import FeedHead, head_address
from shared.model.lists.head import CACHE_CONTROL
from shared.model.rate_limit import BucketPurpose
from shared.operations.changes import feed
from shared.web import stored as bodies
from shared.web.app import create_app, lambda_handler
from shared.web.conditional import condition, matches, responses
from shared.web.fields import WHOLE, WHOLE_PATTERN, omittable
from shared.web.freshness import AGE, FRESHNESS
from shared.web.routes import ApiRequest, router, serves
from shared.web.stored import header
from shared.web.work import LongPollResponse, LongPollWait, WorkKind

# How long the advice for a tenant is cached, so that a poll does not cost another read.
_CACHED_FOR: Final = timedelta(minutes=1)
_TENANTS_MAX: Final = 10_000


class _Advice(NamedTuple):
    seconds: int
    at: datetime


class PollAdvice:
    """The poll intervals that this instance recommends, by tenant."""

    def __init__(self) -> None:
        self._cached = OrderedDict[str, _Advice]()

    def seconds(self, request: ApiRequest) -> int:
        """Return how many seconds a client should wait between two polls.

        It is 1 if the service supports long polls, because polls then cost little. If the number of
        authorizers cannot be read, the last value is used, because a poll must not fail.
        """
        if request.max_wait_seconds:
            return POLL_SECONDS_MIN
        tenant_id, now = request.caller.tenant_id, request.ports.now()
        advice = self._cached.get(tenant_id)
        if advice is None or not advice.at <= now < advice.at + _CACHED_FOR:
            try:
                seconds = INSTALLED.poll_seconds(request.ports, tenant_id)
            except Unavailable:
                seconds = advice.seconds if advice else POLL_SECONDS_MIN
            self._cached[tenant_id] = advice = _Advice(seconds, now)
            if len(self._cached) > _TENANTS_MAX:
                self._cached.popitem(last=False)
        return advice.seconds


_ADVICE: Final = PollAdvice()

_WAIT_MAX: Final = 3600

routes = router("Feed")


class FeedQuery(BaseModel):
    """The query of a poll."""

    # The order matters: the API document omits constraints that follow a validator.
    after: Annotated[int, Field(ge=0, le=NUMBER_MAX), WHOLE] | None = omittable(
        "Sequence of the last feed entry that you have. Omit it if you have none."
    )
    wait: Annotated[int, Field(ge=0, le=_WAIT_MAX), WHOLE] = Field(
        default=0,
        description="Maximum number of seconds for which the server delays a 304 until there is a "
        "change. Values above `max_wait_seconds` count as `max_wait_seconds`.",
    )


Version = Annotated[str, Path(description="SRL version, in decimal digits.")]


_ETAG: Final = {"ETag": header("Identifies the signed feed head. Send it in `If-None-Match`.")}
_HEADERS: Final = _ETAG | AGE
_POLLED: Final = responses("The feed head has not changed", _HEADERS)
_BASE: Final = bodies.immutable_responses("base", _ETAG, form=", compressed with gzip")
_CONDITION: Final = condition("The `ETag` of the last response.")


@routes.get(
    "/v1/revocations/feed",
    response_model=FeedAnswer,
    responses=_POLLED,
    openapi_extra=_CONDITION,
)
@serves(feed.news, raises=(NotFound,), kind=WorkKind.QUICK, purpose=BucketPurpose.FEED)
async def poll_feed(request: ApiRequest, query: Annotated[FeedQuery, Query()]) -> Response:
    """Poll the feed of revocations.

    The response has the signed feed head, and the consecutive entries between `after` and the head.
    Without `after`, or if it is too old, the entries begin after the base of the head: fetch the
    base, and start from it. Send the `ETag` of the last response in `If-None-Match`: 304 means that
    the head is still the newest. With `wait`, the service delays a 304 until there is a change, if
    `max_wait_seconds` is not 0. Subtract `Age` from the time of your request: the feed contains all
    changes acknowledged before that. If the age is unknown, the status is 503.

    Polls have a separate rate limit.

    404: the tenant has no feed yet. It begins with the next SRL.
    """
    fresh = FRESHNESS.look(request)
    known = FRESHNESS.head(request, fresh)
    if known is not None and not matches(request, etag=_etag(known)):
        known = None
    polled = request.run(feed.news, after_sequence=query.after, known_head=known)
    FRESHNESS.keep(request, fresh, polled.head)
    headers = {"ETag": _etag(polled.head), "Cache-Control": CACHE_CONTROL, **fresh.age(polled.head)}
    if not matches(request, etag=headers["ETag"]):
        body = FeedAnswer.of(
            polled, poll_seconds=_ADVICE.seconds(request), max_wait_seconds=request.max_wait_seconds
        )
        return Response(body.model_dump_json(), headers=headers, media_type="application/json")
    seconds = min(query.wait, request.max_wait_seconds)
    if not seconds:
        return Response(status_code=304, headers=headers)
    address = head_address(request.caller.tenant_id)
    return LongPollResponse(LongPollWait(address, polled.head.version, seconds), headers=headers)


@routes.get(
    "/v1/revocations/feed/base/{version}",
    response_class=Response,
    responses=_BASE,
    openapi_extra=condition("The `ETag` of the base."),
)
@serves(feed.base, raises=(NotFound,), purpose=BucketPurpose.FEED)
async def get_feed_base(request: ApiRequest, version: Version) -> Response:
    """Get a base of the feed.

    A base is the content of an SRL in gzip, without its signature. The feed head names the base by
    its version and its SHA-256, which is the hash of the uncompressed bytes. Check it before you
    use them. The response never changes. Follow redirects, and do not send `Authorization` to the
    address of a redirect.

    404: there is no SRL of this version, or it is too old. Poll the feed for the newest base.
    """
    if not re.fullmatch(WHOLE_PATTERN, version):
        raise NotFound("There is no such base.")
    base = request.run(feed.base, version=int(version))
    return bodies.immutable(
        request,
        base.form,
        body=partial(request.run, feed.base_body, of=base),
        file=partial(request.run, feed.base_file, of=base),
    )


def _etag(head: FeedHead) -> str:
    """Return the validator of the feed head. It changes with any signed value."""
    digest = hashlib.sha256(head.payload + head.signature).hexdigest()
    return f'"{head.sequence}-{digest[:32]}"'


app = create_app(routes)
handler = lambda_handler(app)
