"""HTTP client of the API, with typed errors, pagination and safe retries."""

import json
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final, Self
from urllib.parse import SplitResult, quote, urlencode, urlsplit
from uuid import uuid4

from infra.cli.connections import Connections
from infra.cli.errors import ApiError, ApprovalPending, BadResponse, UsageError
from infra.cli.profiles import Profile
from shared import __version__
from shared.authorizer import http1
from shared.authorizer.http1 import HttpError, Request, Response, port_of, printable, to_ascii

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_REDIRECTS_MAX: Final = 5
# The total time, in seconds, that a command waits for a busy service.
_PATIENCE: Final = 60.0
_PAUSE_MAX: Final = 30.0
_PAGE: Final = 100
# The session is valid, but its sign-in is too old.
_TOO_OLD: Final = "reauthentication_required"
_PROTECTED: Final = "approval_required"
_ASK: Final = "the same command with --request-approval WHY, signed in as a person"
_BUSY: Final = frozenset({429, 503})
# The characters of a URL that need no encoding, and `%`.
_SAFE: Final = "%:/?#[]@!$&'()*+,;=~"
_AGENT: Final = {"User-Agent": f"rescind/{__version__}", "Accept-Encoding": "gzip"}
# The headers of APPROVAL-2.
HEADER: Final = "Rescind-Approval"
REASON: Final = f"{HEADER}-Reason"
ASKS: Final = "request"
_CHANGES: Final = frozenset({"POST", "PATCH"})

Params = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """An HTTP request without its credential."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None

    @classmethod
    def of(
        cls,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: object = None,
        form: Mapping[str, str] | None = None,
    ) -> Self:
        """Return a request with a JSON body, or with a form for OAuth endpoints."""
        if form is not None:
            kind, content = "application/x-www-form-urlencoded", urlencode(form)
        elif body is not None:
            kind, content = "application/json", json.dumps(body, separators=(",", ":"))
        else:
            return cls(method, url, headers)
        return cls(method, url, {**headers, "Content-Type": kind}, content.encode())

    @property
    def place(self) -> str:
        """The URL without the query, which may contain a secret."""
        return self.url.partition("?")[0]


class ApiClient:
    """Client of one service, with an API key or a session.

    Paths begin with `/v1/`. Encode their variable parts with `segment`.

    All methods raise `ApiError` if the service refuses, `BadResponse` if there is no response, and
    `UsageError` if a parameter is empty. A request is retried after 429 or 503, for up to one
    minute in total. Retries of a POST or PATCH repeat its `Idempotency-Key`.

    `on_request` receives each request as a curl command. `approving` contains the approval headers
    that protected requests send. `ApprovalPending` is raised if such a request requested an
    approval.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        wait: Callable[[float], None] = time.sleep,
        on_request: Callable[[str], object] | None = None,
        approving: Mapping[str, str] | None = None,
        connections: Connections | None = None,
    ) -> None:
        self._wait, self._on_request, self._renewal = wait, on_request, profile.renewal
        self._approving = approving or {}
        # The responses to a watching command, from the previous round and from this one.
        self._before: dict[str, Response] = {}
        self._now: dict[str, Response] = {}
        self._url = profile.url.rstrip("/")
        self._credential = {"Authorization": f"Bearer {profile.api_key}"} if profile.api_key else {}
        self._connections = connections or Connections()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connections.close()

    def begin_round(self) -> None:
        """Start a round. Its requests are conditional on the responses of the previous round."""
        self._before, self._now = self._now, {}

    @property
    def has_news(self) -> bool:
        """Whether the responses of this round differ from the previous round."""
        before = {url: each.body for url, each in self._before.items()}
        return before != {url: each.body for url, each in self._now.items()}

    def get(self, path: str, params: Params | None = None) -> Any:
        """Return the JSON of a response. Parameters that are None are omitted."""
        document = _json(self.send("GET", path, params=params))
        if document is None:
            raise BadResponse("the service returned an empty response; check its address.")
        return document

    def post(self, path: str, body: object = None, *, is_protected: bool = True) -> Any:
        """Return the JSON of a response, or None if it has no body.

        Approval headers are sent only if the request is protected.
        """
        return _json(self.send("POST", path, body=body, is_protected=is_protected))

    def submit(self, path: str, form: Mapping[str, str]) -> Any:
        """Post a form to an OAuth endpoint, and return the JSON of the response."""
        return _json(self.send("POST", path, form=form))

    def patch(self, path: str, body: object) -> Any:
        """Return the JSON of a response."""
        return _json(self.send("PATCH", path, body=body))

    def put(self, path: str, body: object) -> Any:
        """Return the JSON of a response."""
        return _json(self.send("PUT", path, body=body))

    def delete(self, path: str, params: Params | None = None) -> None:
        """Delete a resource, or all resources that `params` select."""
        self.send("DELETE", path, params=params)

    def pages(self, path: str, params: Params | None = None) -> Iterator[dict[str, Any]]:
        """Yield the pages of a list, as the service returns them."""
        cursor: str | None = None
        while True:
            page = self.get(path, {"limit": _PAGE, **(params or {}), "cursor": cursor})
            yield page
            cursor = page["cursor"]
            if cursor is None:
                return

    def list_records(
        self, path: str, name: str, *, most: int = 0, params: Params | None = None
    ) -> dict[str, Any]:
        """Return up to `most` records of a list as one page. 0 returns all.

        The records are in the member `name`. `cursor` is None if the page contains all records.
        """
        size = {"limit": min(most, _PAGE)} if most else {}
        result: dict[str, Any] = {name: []}
        for page in self.pages(path, {**size, **(params or {})}):
            records = [*result[name], *page[name]]
            result = {**page, name: records[:most] if most else records}
            if most and len(records) >= most:
                break
        return result

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: object = None,
        form: Mapping[str, str] | None = None,
        follow: bool = False,
        is_protected: bool = True,
    ) -> Response:
        """Return a successful response. With `follow`, redirects are followed (SRL-1)."""
        query = {name: _text(value) for name, value in (params or {}).items() if value is not None}
        url = self._url + path + (f"?{urlencode(query, quote_via=quote)}" if query else "")
        headers = {"Idempotency-Key": str(uuid4())} if method in _CHANGES else {}
        if is_protected and method != "GET":
            headers |= self._approving
        request = OutgoingRequest.of(method, url, headers, body, form)
        known = self._before.get(url) if method == "GET" else None
        if known is not None and "etag" in known.headers:
            headers = {**request.headers, "If-None-Match": known.headers["etag"]}
            request = replace(request, headers=headers)
        if self._on_request:
            self._on_request(_curl(request))
        seconds_left = _PATIENCE
        while True:
            answer = send_once(self._connections, request, self._credential, follow=follow)
            pause = http1.retry_after(answer)
            pause = 1.0 if pause is None else min(max(pause, 0.1), _PAUSE_MAX)
            if not is_success(answer):
                # Errors quote the response, and a server could echo the credential.
                answer = _hide(self._credential, answer)
            if answer.status not in _BUSY or pause > seconds_left:
                if known is not None and answer.status == HTTPStatus.NOT_MODIFIED:
                    answer = known
                self._now[url] = answer
                return _require_success(request, answer, self._renewal)
            seconds_left -= pause
            self._wait(pause)


def send_once(
    connections: Connections,
    outgoing_request: OutgoingRequest,
    credential: Mapping[str, str] = {},
    *,
    follow: bool = False,
) -> Response:
    """Send a request once, and return the response. Raises `BadResponse` if there is none.

    With `follow`, redirects are followed. The credential is not sent to another server.
    """
    url, headers = outgoing_request.url, {**_AGENT, **credential, **outgoing_request.headers}
    for _ in range(_REDIRECTS_MAX + 1):
        try:
            request = Request(
                _encode_url(url), outgoing_request.method, headers, outgoing_request.body
            )
            answer = connections.exchange(request)
            if not follow or answer.status not in _REDIRECTS:
                return answer
            url = http1.redirect_target(url, answer)
            if _encode_url(url)[:2] != request.url[:2]:
                headers = _AGENT
        except (HttpError, OSError, ValueError) as error:
            # Do not quote the query, because a redirect can contain a signature.
            place = printable(url.partition("?")[0])
            reason = error.strerror if isinstance(error, OSError) else None
            reason = printable(reason or str(error) or type(error).__name__)
            via = printable(connections.via)
            raise BadResponse(f"no valid response from {place}: {reason}{via}") from None
    raise BadResponse(f"{outgoing_request.place} redirects too many times")


def _encode_url(url: str) -> SplitResult:
    """Return a URL in ASCII. Raises `ValueError` if it is not an http or https URL."""
    parts = to_ascii(urlsplit(url))
    port_of(parts)
    path, query = quote(parts.path, safe=_SAFE), quote(parts.query, safe=_SAFE)
    return parts._replace(path=path, query=query)


def _curl(request: OutgoingRequest) -> str:
    """Return a request as a curl command, with a variable in place of the API key."""
    words = ["curl", "-X", request.method, request.url]
    for name, value in request.headers.items():
        words += ["-H", f"{name}: {value}"]
    words += ["--data", request.body.decode()] if request.body else []
    return f'{shlex.join(words)} -H "Authorization: Bearer $RESCIND_API_KEY"'


def segment(value: str) -> str:
    """Encode any value as one path segment. Raises `UsageError` if it is empty."""
    return quote(_text(value), safe="")


def _text(value: object) -> str:
    if value == "":
        # An unset shell variable is a likely cause. A search with an empty filter would find no
        # records.
        raise UsageError("an argument is empty; check that your shell variable is set.")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _hide(credential: Mapping[str, str], answer: Response) -> Response:
    """Return a response with the credential removed from its headers and its body."""
    for secret in (each.removeprefix("Bearer ") for each in credential.values()):
        body = answer.body.replace(secret.encode(), b"...")
        headers = {name: each.replace(secret, "...") for name, each in answer.headers.items()}
        answer = replace(answer, headers=headers, body=body)
    return answer


def _require_success(request: OutgoingRequest, answer: Response, renewal: str | None) -> Response:
    """Return the response if it is successful. `renewal` is the command that signs in again.

    Raises `ApprovalPending` if the request requested an approval, and `ApiError` if the service
    refused. Raises `BadResponse` if the response is not in the format of this API.
    """
    if answer.status == HTTPStatus.ACCEPTED and request.headers.get(HEADER) == ASKS:
        raise ApprovalPending(_json(answer))
    if is_success(answer):
        return answer
    request_id = answer.headers.get("x-request-id")
    try:
        document = json.loads(answer.body)
        error = document["error"]
        # OAuth errors have another format (IDENTITY-7).
        if isinstance(error, str):
            error = {"code": error, "message": document["error_description"]}
        code, message = str(error["code"]), str(error["message"])
        remedy = renewal if answer.status == HTTPStatus.UNAUTHORIZED else None
        if remedy and code == _TOO_OLD and "--reauthenticate" not in remedy:
            remedy += " --reauthenticate"
        if code == _PROTECTED and HEADER not in request.headers:
            remedy = _ASK
        raise ApiError(answer.status, code, message, request_id, remedy)
    except (KeyError, TypeError, ValueError):
        raise BadResponse(
            f"{request.place} returned {answer.status}, but not in the format of this API; check "
            "the address of the service."
        ) from None


def is_success(answer: Response) -> bool:
    """Return whether the status of a response is 200 to 299."""
    return answer.status // 100 == 2  # noqa: PLR2004


def _json(answer: Response) -> Any:
    if not answer.body:
        return None
    try:
        document = json.loads(answer.body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise BadResponse("the service returned no JSON object; check the address of the service.")
    return document
