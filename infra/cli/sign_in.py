"""Sign-ins at an identity provider, and what a program exchanges its token for (IDENTITY-7).

A person signs in with a browser of this machine, which comes back to a page of this program (RFC
8252, with PKCE), or of another one by a code that is shown here (RFC 8628). `POST /v1/sign-in/code`
redeems a code, and `POST /v1/token` exchanges a token.
"""

import json
import os
import secrets
import socket
import time
import webbrowser
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from queue import Empty, Full, Queue
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from infra.cli import inputs, profiles
from infra.cli.client import ApiClient, OutgoingRequest, is_success, send_once
from infra.cli.connections import Connections
from infra.cli.errors import BadResponse, NotSignedIn, UsageError

_SCOPE: Final = {"scope": "openid email profile"}
# With max_age, the provider states auth_time (OpenID Connect Core, 2), the evidence of a fresh
# sign-in. With `_FRESH`, it also authenticates the person again.
_USUAL: Final = {"max_age": "43200"}
_FRESH: Final = {"prompt": "login", "max_age": "0"}
_DEVICE: Final = "urn:ietf:params:oauth:grant-type:device_code"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_JWT: Final = "urn:ietf:params:oauth:token-type:jwt"
# How often the provider is asked whether the person is done, unless it says so (RFC 8628, 3.2).
_INTERVAL: Final = 5.0
_INTERVAL_MIN: Final = 0.1
_OF_CLIENT: Final = frozenset({"invalid_client", "unauthorized_client", "invalid_scope"})
# Where GitHub Actions gives a job its tokens, if the job has the permission `id-token: write`.
_GITHUB: Final = ("ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class OfferedProvider:
    """An identity provider as the service offers it for sign-ins."""

    id: str
    name: str
    issuer: str
    client_id: str
    cli_client_id: str | None
    authorization_endpoint: str | None
    device_authorization_endpoint: str | None
    token_endpoint: str | None

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Return a provider of an answer. Raises `BadResponse` if it is none."""
        try:
            return cls(**{name: body[name] for name in cls.__dataclass_fields__})
        except (KeyError, TypeError):
            raise BadResponse("The service does not say who vouches for people.") from None

    @property
    def client(self) -> str:
        """The command line at the provider."""
        return self.cli_client_id or self.client_id


def select_provider(api: ApiClient, tenant: str, name: str | None) -> OfferedProvider:
    """Return the only provider of a tenant, or the one with this name or identifier.

    Raises `UsageError` if there is no such one.
    """
    answer = api.get("/v1/sign-in", {"tenant": tenant})
    found = [OfferedProvider.of(each) for each in answer["identity_providers"]]
    if not found:
        raise UsageError(
            f"The tenant {tenant} has no identity provider for people, or does not exist. "
            "Log in with an API key; an operator adds one: rescind identity-providers add."
        )
    fitting = [each for each in found if name in (None, each.name, each.id)]
    if len(fitting) != 1:
        names = ", ".join(f"{each.name} ({each.id})" for each in found)
        raise UsageError(f"Choose one by --provider, by its name or identifier: {names}")
    return fitting[0]


def by_browser(
    api: ApiClient, provider: OfferedProvider, redirect: str, seconds: int, say: Say, *, fresh: bool
) -> dict[str, Any]:
    """Sign in with a browser of this machine, which comes back to the address `redirect`.

    With `fresh`, the provider authenticates the person in any case. Raises `NotSignedIn`,
    `UsageError` if the port is taken, and the errors of the API.
    """
    endpoint = _reachable(provider, provider.authorization_endpoint, "codes")
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    digest = sha256(verifier.encode()).digest()
    with Loopback(redirect) as here:
        asked = {
            "client_id": provider.client,
            "response_type": "code",
            "redirect_uri": here.url,
            **_SCOPE,
            **(_FRESH if fresh else _USUAL),
            "state": state,
            "nonce": nonce,
            "code_challenge": urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        address = f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(asked)}"
        say(f"Sign in to {provider.name} in your browser:\n{address}")
        webbrowser.open(address)
        answer = here.answer(seconds)
    if answer is None:
        raise NotSignedIn(
            f"Nobody signed in within {seconds} seconds. If the browser is on another machine, use "
            f"--device. If the provider refuses the address, allow {here.url} for its client "
            f"{provider.client}."
        )
    form = {
        "grant_type": "authorization_code",
        "audience": provider.id,
        "client": "cli",
        "code": _code(answer, state, provider),
        "code_verifier": verifier,
        "nonce": nonce,
        "redirect_uri": here.url,
    }
    return _request_token(api, "/v1/sign-in/code", form)


def by_device(
    api: ApiClient,
    provider: OfferedProvider,
    say: Say,
    *,
    fresh: bool,
    wait: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Sign in with a browser of any machine, by a code that `say` shows. Raises as `by_browser`."""
    endpoint = _reachable(provider, provider.device_authorization_endpoint, "device codes")
    tokens = _reachable(provider, provider.token_endpoint, "device codes")
    asked = {"client_id": provider.client, **_SCOPE, **(_FRESH if fresh else {})}
    begun = _request_provider(endpoint, asked)
    _check_begun(begun, provider)
    complete = begun.get("verification_uri_complete")
    say(
        f"Open {begun['verification_uri']} in any browser, and enter the code "
        f"{begun['user_code']}" + (f"; or open {complete}" if complete else ".")
    )
    form = {
        "grant_type": _DEVICE,
        "device_code": begun["device_code"],
        "client_id": provider.client,
    }
    interval = max(_number(begun.get("interval"), _INTERVAL), _INTERVAL_MIN)
    left = _number(begun.get("expires_in"), 0)
    while left > 0:
        wait(interval)
        left -= interval
        said = _request_provider(tokens, form)
        if said.get("error") == "slow_down":
            interval += _INTERVAL
        elif said.get("error") != "authorization_pending":
            return exchange_token(api, provider.id, _id_token(said, provider))
    raise NotSignedIn("Nobody entered the code in time; run the command again.")


def exchange_token(api: ApiClient, audience: str, token: str) -> dict[str, Any]:
    """Exchange a token of a provider, which `audience` names, for a session (RFC 8693)."""
    form = {
        "grant_type": _EXCHANGE,
        "audience": audience,
        "subject_token": token,
        "subject_token_type": _JWT,
    }
    return _request_token(api, "/v1/token", form)


def token_of_program(
    file: Path | None, audience: str, environment: Mapping[str, str] = os.environ
) -> str:
    """Return the token in a file (`-`: standard input), else one that GitHub Actions gives a job.

    Raises `UsageError` if there is none, `BadResponse` if GitHub does not give it.
    """
    if file is not None:
        found = inputs.read_text(file).strip()
        if not found:
            raise UsageError(f"{file} has no token.")
        return found
    url, key = (environment.get(each, "").strip() for each in _GITHUB)
    if not url or not key:
        raise UsageError(
            "Name the file of the token by --token-file. In GitHub Actions, give the job the "
            "permission id-token: write instead."
        )
    said = _request_provider(f"{url}&{urlencode({'audience': audience})}", key=key)
    if not isinstance(said.get("value"), str):
        raise BadResponse("GitHub does not give this job a token.")
    return str(said["value"])


def _reachable(provider: OfferedProvider, endpoint: str | None, means: str) -> str:
    """Return the endpoint. Raises `UsageError` if there is none, or none that is safe to use."""
    if endpoint is None or not profiles.is_private(endpoint):
        raise UsageError(f"{provider.name} gives no {means}; sign in by another way or provider.")
    return endpoint


def _code(answer: Mapping[str, str], state: str, provider: OfferedProvider) -> str:
    """Return the code that a provider sent a browser here with (RFC 6749, RFC 9207)."""
    if not compare_digest(answer.get("state", "").encode(), state.encode()):
        raise NotSignedIn(
            "The browser came with the answer to another sign-in (a wrong state), which was not "
            "used; run the command again."
        )
    if answer.get("iss", provider.issuer) != provider.issuer:
        raise NotSignedIn("The browser came from another provider, whose answer was not used.")
    if "error" in answer or not answer.get("code"):
        raise _sign_in_error(answer, provider)
    return answer["code"]


def _sign_in_error(answer: Mapping[str, Any], provider: OfferedProvider) -> NotSignedIn:
    """Return why a provider gives nothing. Its words are shown without control characters."""
    error = answer.get("error")
    if error in _OF_CLIENT:
        return NotSignedIn(
            f"{provider.name} does not accept its client {provider.client} here ({error}): an "
            "administrator sets cli_client_id to one that needs no secret and may do this."
        )
    if error == "access_denied":
        return NotSignedIn(f"The sign-in to {provider.name} was refused there ({error}).")
    return NotSignedIn(
        f"{provider.name} refused: {answer.get('error_description') or ''} ({error or 'no code'})."
    )


def _check_begun(answer: Mapping[str, Any], provider: OfferedProvider) -> None:
    if "error" in answer:
        raise _sign_in_error(answer, provider)
    if not all(
        isinstance(answer.get(each), str)
        for each in ("verification_uri", "user_code", "device_code")
    ):
        raise BadResponse(f"{provider.name} does not begin a sign-in by device code.")


def _id_token(answer: Mapping[str, Any], provider: OfferedProvider) -> str:
    if "error" in answer:
        raise _sign_in_error(answer, provider)
    if not isinstance(answer.get("id_token"), str):
        raise BadResponse(f"{provider.name} gives no ID token; its client needs scope openid.")
    return str(answer["id_token"])


def _number(value: object, usual: float) -> float:
    return float(value) if isinstance(value, int | float) else usual


def _request_provider(
    url: str, form: Mapping[str, str] | None = None, *, key: str = ""
) -> dict[str, Any]:
    """Return what a provider says to a form, also if it refuses; without a form, to a GET."""
    headers = {"Accept": "application/json"} | ({"Authorization": f"bearer {key}"} if key else {})
    method = "GET" if form is None else "POST"
    with closing(Connections()) as connections:
        answer = send_once(connections, OutgoingRequest.of(method, url, headers, form=form))
    with suppress(ValueError):
        said = json.loads(answer.body)
        if isinstance(said, dict) and (is_success(answer) or "error" in said):
            return said
    raise BadResponse(f"{urlsplit(url).netloc} answers {answer.status}, and not with JSON.")


def _request_token(api: ApiClient, path: str, form: Mapping[str, str]) -> dict[str, Any]:
    answer = api.submit(path, form)
    if not isinstance(answer, dict) or not isinstance(answer.get("access_token"), str):
        raise BadResponse("The service gives no session.")
    return answer


_HOSTS: Final = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "::1"}
_PAGE: Final = b"Go back to the terminal, which goes on. This page can be closed.\n"


class Loopback:
    """Listens at an address such as `http://127.0.0.1:53682/`; without a port, on any free one.

    Raises `UsageError` if the address is not of this machine, or if its port is taken. A browser
    may open connections that it does not use; they hold up nothing.
    """

    def __init__(self, redirect: str) -> None:
        host, port, path = _parts(redirect)
        self._answers: Queue[Mapping[str, str]] = Queue(1)
        self._server = _listening(host, port, _handler(path, self._answers))
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_address[1]}{path}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, seconds: int) -> Mapping[str, str] | None:
        """Return the parameters that a browser comes with; None if none comes in time."""
        try:
            return self._answers.get(timeout=seconds)
        except Empty:
            return None


def _parts(redirect: str) -> tuple[str, int, str]:
    try:
        parts = urlsplit(redirect)
        port = parts.port or 0
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme != "http" or parts.hostname not in _HOSTS or parts.query or parts.fragment:
        raise UsageError("--redirect is an address of this machine: http://127.0.0.1:53682/")
    return parts.hostname, port, parts.path or "/"


class _LoopbackServer(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True


class _LoopbackServer6(_LoopbackServer):
    address_family = socket.AF_INET6


def _listening(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> _LoopbackServer:
    made = _LoopbackServer6 if ":" in host else _LoopbackServer
    try:
        return made((_HOSTS[host], port), handler)
    except OSError as error:
        raise UsageError(
            f"{host}:{port} cannot be listened on ({error.strerror}): end the program that has it, "
            "or name another address by --redirect."
        ) from error


def _handler(path: str, answers: Queue[Mapping[str, str]]) -> type[BaseHTTPRequestHandler]:
    class ReturnPage(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            """Take the parameters of a request to the page; others, as for an icon, are refused."""
            parts = urlsplit(self.path)
            found = parse_qs(parts.query) if parts.path == path else {}
            self.send_response(HTTPStatus.OK if found else HTTPStatus.NOT_FOUND)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Connection", "close")
            self.end_headers()
            if not found:
                return
            self.wfile.write(_PAGE)
            # The first answer counts.
            with suppress(Full):
                answers.put_nowait({name: values[0] for name, values in found.items()})

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (that of the library)
            """Log nothing: the parameters are secret."""

    return ReturnPage
