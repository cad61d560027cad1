"""The API over HTTP: errors as exceptions, pages, and retries that repeat nothing twice."""

import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Self
from urllib.parse import quote
from uuid import uuid4

import httpx2

from infra.cli.errors import ApiError, NoUsableAnswer, WaitsForApproval, WrongUsage
from infra.cli.profiles import Profile
from shared import __version__

# An answer may wait 25 seconds for authorizers (FLEET), and a function ends after 29.
_SECONDS: Final = 35.0
_CONNECT_SECONDS: Final = 10.0
# How long a command waits in all for a service that asks it to come back later.
_PATIENCE: Final = 60.0
_PAUSE_MAX: Final = 30.0
_PAGE: Final = 100
# The session is accepted, but its sign-in is too long ago.
_TOO_OLD: Final = "reauthentication_required"
_PROTECTED: Final = "approval_required"
_ASK: Final = "the same command with --request-approval WHY, signed in as a person"
_BUSY: Final = frozenset({429, 503})
# The schemes for which the environment may name a proxy.
_PROXIED: Final = ("http://", "https://", "all://")
_ASKED: Final = 202
# The headers of APPROVAL-2.
HEADER: Final = "Rescind-Approval"
REASON: Final = f"{HEADER}-Reason"
COUNT: Final = f"{HEADER}-Count"
ASKS: Final = "request"
_CHANGES: Final = frozenset({"POST", "PATCH"})

Params = Mapping[str, object]


class Api:
    """A service and an API key or a session. Paths begin with `/v1/`; use `segment` in them.

    All methods raise `ApiError` if the service refuses, `NoUsableAnswer` if there is no answer, and
    `WrongUsage` if a parameter is empty. After an answer 429 or 503 the request is repeated, for a
    minute in all. Each POST and PATCH has its own `Idempotency-Key`, which its retries repeat.
    `told` is called with each request as a command of curl. `approving` has the headers of each
    change about an approval; if one is asked for, a change raises `WaitsForApproval`.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        wait: Callable[[float], None] = time.sleep,
        told: Callable[[str], object] | None = None,
        approving: Mapping[str, str] | None = None,
    ) -> None:
        self._wait, self._told, self._renewal = wait, told, profile.renewal
        self._approving = approving or {}
        # What a command that watches was answered, in the round before and in this one.
        self._before: dict[str, httpx2.Response] = {}
        self._now: dict[str, httpx2.Response] = {}
        credential = {"Authorization": f"Bearer {profile.api_key}"} if profile.api_key else {}
        self._http = httpx2.Client(
            base_url=profile.url,
            headers={**credential, "User-Agent": f"rescind/{__version__}"},
            timeout=httpx2.Timeout(_SECONDS, connect=_CONNECT_SECONDS),
            # A proxy would read the key, which may go without TLS only because it stays here.
            mounts=dict.fromkeys(_PROXIED) if profile.is_here else None,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def begin_round(self) -> None:
        """From now on, ask only whether what was answered since the last call has changed."""
        self._before, self._now = self._now, {}

    @property
    def has_news(self) -> bool:
        """Whether this round was answered anything else than the round before."""
        before, now = (
            {url: each.content for url, each in answers.items()}
            for answers in (self._before, self._now)
        )
        return before != now

    def get(self, path: str, params: Params | None = None) -> Any:
        """Return the JSON of an answer. Parameters that are None are left out."""
        return _json(self.send("GET", path, params=params))

    def post(self, path: str, body: object = None, *, count: int = 0) -> Any:
        """Return the JSON of an answer; None if it has no body.

        `count` is how many revocations an approval is asked for, if not those of this request.
        """
        return _json(self.send("POST", path, body=body, count=count))

    def submit(self, path: str, form: Mapping[str, str]) -> Any:
        """Post a form, as clients of OAuth do; return the JSON of the answer."""
        return _json(self.send("POST", path, form=form))

    def patch(self, path: str, body: object) -> Any:
        """Return the JSON of an answer."""
        return _json(self.send("PATCH", path, body=body))

    def put(self, path: str, body: object) -> Any:
        """Return the JSON of an answer."""
        return _json(self.send("PUT", path, body=body))

    def delete(self, path: str, params: Params | None = None) -> None:
        """Delete a resource, or those that `params` name."""
        self.send("DELETE", path, params=params)

    def pages(self, path: str, params: Params | None = None) -> Iterator[dict[str, Any]]:
        """Return the pages of a list, each as the service answers it."""
        cursor: str | None = None
        while True:
            page = self.get(path, {"limit": _PAGE, **(params or {}), "cursor": cursor})
            yield page
            cursor = page["cursor"]
            if cursor is None:
                return

    def listed(
        self, path: str, name: str, *, most: int = 0, params: Params | None = None
    ) -> dict[str, Any]:
        """Return up to `most` records of a list (0: all) as one page, whose records are in `name`.

        Its `cursor` is None if the page has all records.
        """
        size = {"limit": min(most, _PAGE)} if most else {}
        found: dict[str, Any] = {name: []}
        for page in self.pages(path, {**size, **(params or {})}):
            records = [*found[name], *page[name]]
            found = {**page, name: records[:most] if most else records}
            if most and len(records) >= most:
                break
        return found

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: object = None,
        form: Mapping[str, str] | None = None,
        follow: bool = False,
        count: int = 0,
    ) -> httpx2.Response:
        """Return an answer that is no error. With `follow`, redirects are followed (SRL-1)."""
        made = self._http.build_request(
            method,
            path,
            params={
                name: _text(value) for name, value in (params or {}).items() if value is not None
            },
            json=body,
            data=form,
            headers=self._headers(method) | ({COUNT: str(count)} if count else {}),
        )
        known = self._before.get(str(made.url)) if method == "GET" else None
        if known is not None and "ETag" in known.headers:
            made.headers["If-None-Match"] = known.headers["ETag"]
        if self._told:
            self._told(_curl(made))
        left = _PATIENCE
        while True:
            answer = self._once(made, follow=follow)
            pause = _pause(answer)
            if answer.status_code not in _BUSY or pause > left:
                if known is not None and answer.status_code == httpx2.codes.NOT_MODIFIED:
                    answer = known
                self._now[str(made.url)] = answer
                return _checked(answer, self._renewal)
            left -= pause
            self._wait(pause)

    def _headers(self, method: str) -> dict[str, str]:
        once = {"Idempotency-Key": str(uuid4())} if method in _CHANGES else {}
        return once if method == "GET" else {**once, **self._approving}

    def _once(self, made: httpx2.Request, *, follow: bool) -> httpx2.Response:
        try:
            return self._http.send(made, follow_redirects=follow)
        except httpx2.HTTPError as error:
            url = made.url.copy_with(query=None)
            raise NoUsableAnswer(
                f"{url} does not answer: {str(error) or type(error).__name__}"
            ) from error


def _curl(made: httpx2.Request) -> str:
    """Return a request as a command of curl, with the key by its name."""
    words = ["curl", "-X", made.method, str(made.url)]
    for name in ("content-type", "idempotency-key", "if-none-match"):
        if value := made.headers.get(name):
            words += ["-H", f"{name}: {value}"]
    words += ["--data", made.content.decode()] if made.content else []
    return f'{shlex.join(words)} -H "Authorization: Bearer $RESCIND_API_KEY"'


def segment(value: str) -> str:
    """Return a value as one segment of a path, whatever its characters are.

    Raises `WrongUsage` if it is empty.
    """
    return quote(_text(value), safe="")


def _text(value: object) -> str:
    if value == "":
        # An unset variable of the shell: with an empty filter, a search would find nothing.
        raise WrongUsage("an argument is empty; is the variable of your shell set?")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pause(answer: httpx2.Response) -> float:
    """Return how many seconds the service asks for; 1 if it does not say."""
    said = answer.headers.get("Retry-After", "")
    return min(max(float(said), 0.1), _PAUSE_MAX) if said.isascii() and said.isdecimal() else 1.0


def _checked(answer: httpx2.Response, renewal: str | None) -> httpx2.Response:
    """Return the answer if it is none of an error; `renewal` is the command that signs in again.

    Raises `WaitsForApproval` if the request asked for an approval.
    """
    if answer.status_code == _ASKED and answer.request.headers.get(HEADER) == ASKS:
        raise WaitsForApproval(_json(answer))
    if answer.is_success:
        return answer
    request_id = answer.headers.get("X-Request-Id")
    try:
        whole = answer.json()
        said = whole["error"]
        # The errors of OAuth have another form (IDENTITY-7).
        if isinstance(said, str):
            said = {"code": said, "message": whole["error_description"]}
        code, message = str(said["code"]), str(said["message"])
        remedy = renewal if answer.status_code == httpx2.codes.UNAUTHORIZED else None
        if remedy and code == _TOO_OLD and "--fresh" not in remedy:
            remedy += " --fresh"
        if code == _PROTECTED and HEADER not in answer.request.headers:
            remedy = _ASK
        raise ApiError(answer.status_code, code, message, request_id, remedy)
    except (KeyError, TypeError, ValueError):
        raise NoUsableAnswer(
            f"{answer.request.url.copy_with(query=None)} answers {answer.status_code}, "
            "but not as this API does; check the address of the service."
        ) from None


def _json(answer: httpx2.Response) -> Any:
    if not answer.content:
        return None
    try:
        return answer.json()
    except ValueError as error:
        raise NoUsableAnswer(
            f"{answer.request.url.copy_with(query=None)} does not answer with JSON."
        ) from error
