"""Headers of requests about approvals, and the 202 response to them (APPROVAL-2)."""

import hashlib
import re
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from shared.errors import ApprovalRequested, InvalidRequest
from shared.model import text
from shared.model.callers import ApprovalHeader
from shared.model.identifiers import APPROVAL, MANIFEST
from shared.web.fields import MomentOut, ResponseBody, example, field, identifier, sample

HEADER: Final = "Rescind-Approval"
REASON: Final = "Rescind-Approval-Reason"
ASKS: Final = "request"

_MALFORMED: Final = f"{HEADER}: must be given once, as {ASKS} or the identifier of an approval."
_UNPROTECTED: Final = f"{HEADER}: this endpoint requires no approval; omit the header."
_NOT_ASKED: Final = f"{REASON}: is allowed only with {HEADER}: {ASKS}."
_ID: Final = re.compile("svc_apr_[0-9a-z]{26}")


def read_approval_header(
    request: Request, raw: bytes, *, is_protected: bool
) -> ApprovalHeader | None:
    """Return the approval headers of a request with the body `raw`, or None without any.

    Raises `InvalidRequest` if they are malformed, or if the endpoint would run without a requested
    approval.
    """
    values = request.headers.getlist(HEADER)
    if values and not is_protected:
        raise InvalidRequest(_UNPROTECTED)
    if values and not (len(values) == 1 and (values[0] == ASKS or _ID.fullmatch(values[0]))):
        raise InvalidRequest(_MALFORMED)
    if is_protected and REASON in request.headers and values != [ASKS]:
        raise InvalidRequest(_NOT_ASKED)
    if not values:
        return None
    digest = hashlib.sha256(raw).hexdigest()
    bound = ApprovalHeader(request.method, request.scope["path"], digest)
    if values[0] != ASKS:
        return replace(bound, id=values[0])
    return replace(bound, reason=_reason(request))


def _reason(request: Request) -> str:
    values = request.headers.getlist(REASON)
    if len(values) != 1:
        raise InvalidRequest(f"{REASON}: must be given once.")
    try:
        # Header values are ASCII. Other characters are percent-encoded, as in a URL.
        return text.reason(unquote(values[0], errors="strict"))
    except ValueError as error:
        why = "must be UTF-8" if isinstance(error, UnicodeError) else str(error)
        raise InvalidRequest(f"{REASON}: {why}.") from None


class ApprovalRequest(ResponseBody):
    """A request that needs an approval. No change was made."""

    model_config = example(
        approval_id=sample(APPROVAL),
        action="revocations.unrevoke",
        subject=sample(MANIFEST),
        count=996,
        expires_at="2026-11-22T12:00:00Z",
    )

    approval_id: str = field("Identifier of the approval.", **identifier(APPROVAL))
    action: str = field("The protected action.")
    subject: str = field(
        "The resource that the action affects. For many revocations, their manifest."
    )
    count: int = field("Number of times that the action may be performed.")
    expires_at: MomentOut = field("Time until which the request can be approved.")


def answer(asked_for: ApprovalRequested) -> Response:
    """Return the 202 response with the pending approval."""
    made = asked_for.approval
    body = ApprovalRequest(
        approval_id=made.id,
        action=made.action,
        subject=made.subject,
        count=made.count,
        expires_at=made.expires_at,
    )
    return Response(body.model_dump_json(), 202, media_type="application/json")
