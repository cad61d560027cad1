"""Sign-ins at an identity provider, and token exchange for programs (IDENTITY-7).

A person signs in with a browser on this machine, which is redirected to a local page of this
program (RFC 8252, with PKCE). A browser on another machine uses a code shown here (RFC 8628).
`POST /v1/sign-in/code` redeems a code, and `POST /v1/token` exchanges a token.
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
# With max_age, the provider must return auth_time (OpenID Connect Core, 2), which proves a recent
# sign-in. `_FRESH` also forces the provider to authenticate the person again.
_USUAL: Final = {"max_age": "43200"}
_FRESH: Final = {"prompt": "login", "max_age": "0"}
_DEVICE: Final = "urn:ietf:params:oauth:grant-type:device_code"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_JWT: Final = "urn:ietf:params:oauth:token-type:jwt"
# The seconds between polls of the provider, unless it sets an interval (RFC 8628, 3.2).
_INTERVAL: Final = 5.0
_INTERVAL_MIN: Final = 0.1
_OF_CLIENT: Final = frozenset({"invalid_client", "unauthorized_client", "invalid_scope"})
# GitHub Actions sets these variables if the job has the permission `id-token: write`.
_GITHUB: Final = ("ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class OfferedProvider:
    """An identity provider that the service offers for sign-ins."""

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
        """Return a provider from a response. Raises `BadResponse` if it is invalid."""
        try:
            return cls(**{name: body[name] for name in cls.__dataclass_fields__})
        except (KeyError, TypeError):
            raise BadResponse("the service returned an invalid identity provider.") from None

    @property
    def client(self) -> str:
        """The client identifier of the command line at the provider."""
        return self.cli_client_id or self.client_id


def select_provider(api: ApiClient, tenant: str, name: str | None) -> OfferedProvider:
    """Return the only provider of a tenant, or the provider with this name or identifier.

    Raises `UsageError` if there is no such provider, or if `name` is needed to choose.
    """
    answer = api.get("/v1/sign-in", {"tenant": tenant})
    providers = [OfferedProvider.of(each) for each in answer["identity_providers"]]
    if not providers:
        raise UsageError(
            f"the tenant {tenant} does not exist, or has no identity provider for people. Log in "
            "with an API key, or have an operator add a provider: rescind identity-providers add."
        )
    fitting = [each for each in providers if name in (None, each.name, each.id)]
    if len(fitting) != 1:
        names = ", ".join(f"{each.name} ({each.id})" for each in providers)
        raise UsageError(f"choose a provider with --provider, by its name or identifier: {names}")
    return fitting[0]


def by_browser(
    api: ApiClient, provider: OfferedProvider, redirect: str, seconds: int, say: Say, *, fresh: bool
) -> dict[str, Any]:
    """Sign in with a browser on this machine, which returns to the address `redirect`.

    With `fresh`, the provider always authenticates the person again. Raises `NotSignedIn`,
    `UsageError` if the port is taken, and the errors of the API.
    """
    endpoint = _reachable(provider, provider.authorization_endpoint, "codes")
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    digest = sha256(verifier.encode()).digest()
    with Loopback(redirect) as here:
        query = {
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
        address = f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(query)}"
        say(f"Sign in to {provider.name} in your browser:\n{address}")
        webbrowser.open(address)
        answer = here.answer(seconds)
    if answer is None:
        raise NotSignedIn(
            f"no sign-in completed within {seconds} seconds. If the browser is on another machine, "
            f"use --device. If the provider refuses the address, allow {here.url} for its client "
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
    """Sign in with a browser on any machine, by a code that `say` prints.

    Raises the errors of `by_browser`.
    """
    endpoint = _reachable(provider, provider.device_authorization_endpoint, "device codes")
    tokens = _reachable(provider, provider.token_endpoint, "device codes")
    query = {"client_id": provider.client, **_SCOPE, **(_FRESH if fresh else {})}
    offer = _request_provider(endpoint, query)
    if "error" in offer:
        raise _sign_in_error(offer, provider)
    members = ("verification_uri", "user_code", "device_code")
    if not all(isinstance(offer.get(each), str) for each in members):
        raise BadResponse(f"{provider.name} returned no device code.")
    complete = offer.get("verification_uri_complete")
    say(
        f"Open {offer['verification_uri']} in any browser, and enter the code "
        f"{offer['user_code']}" + (f"; or open {complete}" if complete else ".")
    )
    form = {
        "grant_type": _DEVICE,
        "device_code": offer["device_code"],
        "client_id": provider.client,
    }
    interval = max(_number(offer.get("interval"), _INTERVAL), _INTERVAL_MIN)
    seconds_left = _number(offer.get("expires_in"), 0)
    while seconds_left > 0:
        wait(interval)
        seconds_left -= interval
        answer = _request_provider(tokens, form)
        if answer.get("error") == "slow_down":
            interval += _INTERVAL
        elif answer.get("error") == "authorization_pending":
            continue
        elif "error" in answer:
            raise _sign_in_error(answer, provider)
        elif isinstance(answer.get("id_token"), str):
            return exchange_token(api, provider.id, answer["id_token"])
        else:
            raise BadResponse(
                f"{provider.name} returned no ID token; its client requires the scope openid."
            )
    raise NotSignedIn("the code expired before the sign-in; run the command again.")


def exchange_token(api: ApiClient, audience: str, token: str) -> dict[str, Any]:
    """Exchange a token of the provider `audience` for a session (RFC 8693)."""
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
    """Return the token in a file (`-`: standard input), or the token of a GitHub Actions job.

    Raises `UsageError` if there is none, and `BadResponse` if GitHub does not issue it.
    """
    if file is not None:
        token = inputs.read_text(file).strip()
        if not token:
            raise UsageError(f"{file} contains no token.")
        return token
    url, key = (environment.get(each, "").strip() for each in _GITHUB)
    if not url or not key:
        raise UsageError(
            "set --token-file to the file with the token. In GitHub Actions, give the job the "
            "permission id-token: write instead."
        )
    answer = _request_provider(f"{url}&{urlencode({'audience': audience})}", key=key)
    if not isinstance(answer.get("value"), str):
        raise BadResponse("GitHub issued no token for this job.")
    return str(answer["value"])


def _reachable(provider: OfferedProvider, endpoint: str | None, means: str) -> str:
    """Return the endpoint. Raises `UsageError` if it is missing or not safe to use."""
    if endpoint is None or not profiles.is_private(endpoint):
        raise UsageError(
            f"{provider.name} does not offer {means}; use another sign-in method or provider."
        )
    return endpoint


def _code(answer: Mapping[str, str], state: str, provider: OfferedProvider) -> str:
    """Return the code in the provider's redirect (RFC 6749, RFC 9207).

    Raises `NotSignedIn` if the redirect belongs to another sign-in or provider, or has an error.
    """
    if not compare_digest(answer.get("state", "").encode(), state.encode()):
        raise NotSignedIn(
            "the browser returned the response of another sign-in (wrong state), which was "
            "ignored; run the command again."
        )
    if answer.get("iss", provider.issuer) != provider.issuer:
        raise NotSignedIn(
            "the browser returned the response of another provider, which was ignored; run the "
            "command again."
        )
    if "error" in answer or not answer.get("code"):
        raise _sign_in_error(answer, provider)
    return answer["code"]


def _sign_in_error(answer: Mapping[str, Any], provider: OfferedProvider) -> NotSignedIn:
    """Return the error for a provider's refusal.

    Its text is printed without control characters.
    """
    error = answer.get("error")
    if error in _OF_CLIENT:
        return NotSignedIn(
            f"{provider.name} refuses its client {provider.client} here ({error}). An "
            "administrator must set cli_client_id to a public client that allows this sign-in."
        )
    if error == "access_denied":
        return NotSignedIn(f"{provider.name} refused the sign-in ({error}).")
    return NotSignedIn(
        f"{provider.name} refused: {answer.get('error_description') or ''} ({error or 'no code'})."
    )


def _number(value: object, usual: float) -> float:
    return float(value) if isinstance(value, int | float) else usual


def _request_provider(
    url: str, form: Mapping[str, str] | None = None, *, key: str = ""
) -> dict[str, Any]:
    """Post a form to a provider and return the response, even a refusal.

    Without a form, send a GET.
    """
    headers = {"Accept": "application/json"} | ({"Authorization": f"bearer {key}"} if key else {})
    method = "GET" if form is None else "POST"
    with closing(Connections()) as connections:
        answer = send_once(connections, OutgoingRequest.of(method, url, headers, form=form))
    with suppress(ValueError):
        document = json.loads(answer.body)
        if isinstance(document, dict) and (is_success(answer) or "error" in document):
            return document
    raise BadResponse(f"{urlsplit(url).netloc} returned {answer.status} without a JSON object.")


def _request_token(api: ApiClient, path: str, form: Mapping[str, str]) -> dict[str, Any]:
    answer = api.submit(path, form)
    if not isinstance(answer, dict) or not isinstance(answer.get("access_token"), str):
        raise BadResponse("the service returned no session.")
    return answer


_HOSTS: Final = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "::1"}
_PAGE: Final = b"Return to the terminal. You can close this page.\n"


class Loopback:
    """Listens at an address such as `http://127.0.0.1:53682/`, by default on any free port.

    Raises `UsageError` if the address is not on this machine, or if its port is taken. Unused
    connections of a browser do not block the listener.
    """

    def __init__(self, redirect: str) -> None:
        try:
            parts = urlsplit(redirect)
            port = parts.port or 0
        except ValueError:
            parts, port = urlsplit(""), 0
        host, path = parts.hostname, parts.path or "/"
        if parts.scheme != "http" or host not in _HOSTS or parts.query or parts.fragment:
            raise UsageError(
                "--redirect must be an address on this machine, such as http://127.0.0.1:53682/"
            )
        self._answers: Queue[Mapping[str, str]] = Queue(1)
        server = _LoopbackServer6 if ":" in host else _LoopbackServer
        try:
            self._server = server((_HOSTS[host], port), _handler(path, self._answers))
        except OSError as error:
            raise UsageError(
                f"cannot listen on {host}:{port} ({error.strerror}); stop the program that uses "
                "it, or set another address with --redirect."
            ) from error
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_address[1]}{path}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, seconds: int) -> Mapping[str, str] | None:
        """Return the parameters of the browser's redirect, or None after the timeout."""
        try:
            return self._answers.get(timeout=seconds)
        except Empty:
            return None


class _LoopbackServer(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True


class _LoopbackServer6(_LoopbackServer):
    address_family = socket.AF_INET6


def _handler(path: str, answers: Queue[Mapping[str, str]]) -> type[BaseHTTPRequestHandler]:
    class ReturnPage(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            """Accept the parameters of a request to the page.

            Refuse other paths, such as an icon.
            """
            parts = urlsplit(self.path)
            query = parse_qs(parts.query) if parts.path == path else {}
            self.send_response(HTTPStatus.OK if query else HTTPStatus.NOT_FOUND)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Connection", "close")
            self.end_headers()
            if not query:
                return
            self.wfile.write(_PAGE)
            # Only the first response counts.
            with suppress(Full):
                answers.put_nowait({name: values[0] for name, values in query.items()})

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (that of the library)
            """Log no requests, because the parameters are secret."""

    return ReturnPage
