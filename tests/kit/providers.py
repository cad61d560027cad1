"""A certified OpenID provider that shares no code with this project, and a person who signs in."""

import ssl
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from html.parser import HTMLParser
from http import HTTPStatus
from http.client import HTTPSConnection
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from shared.adapters.https import HttpsClient
from tests.kit.processes import HOST as LOCAL
from tests.kit.processes import ROOT, Group, free_port
from tests.kit.receivers import HOST, LOOPBACK, certificate, trusting

_PROGRAM: Final = ROOT / "tests/tools/oidc/provider.mjs"
_PACKAGE: Final = ROOT / ".tools/oidc/node_modules/oidc-provider"
ISSUER: Final = f"https://{HOST}"
REDIRECT: Final = "https://rescind.example/console/signed-in/a"
CLIENT, SECRET = "console", "a secret: with + and %"
# Between sign-in and code a browser sees fewer pages.
_PAGES_MAX: Final = 20

needs_provider = pytest.mark.skipif(
    not _PACKAGE.exists(), reason="no .tools/oidc; `make test-slow` installs it"
)


@dataclass
class Provider:
    """A running provider. Started anew with another key, it forgets all but what it is told."""

    port: int
    group: Group
    arguments: list[str]

    def outbound(self) -> HttpsClient:
        return HttpsClient(LOOPBACK, lambda _: [LOCAL], self.port, trusting(HOST))

    def start(self, *kids: str) -> None:
        self.group.command = [*self.arguments, *kids]
        self.group.start()

    def kill(self) -> None:
        self.group.kill()


@contextmanager
def provider(folder: Path, *kids: str, redirect: str = REDIRECT) -> Iterator[Provider]:
    """A provider on this machine, with a certificate of the tests, and keys of these names."""
    port, file = free_port(), folder / "provider.pem"
    file.write_bytes(b"".join(certificate(HOST, False)))
    arguments = ["node", str(_PROGRAM), str(port), ISSUER, str(file), redirect]
    path = "/.well-known/openid-configuration"
    group = Group(arguments, folder / "provider.log", lambda: is_up(port, path))
    made = Provider(port, group, arguments)
    try:
        made.start(*kids)
        yield made
    finally:
        made.kill()


def is_up(port: int, path: str) -> bool:
    """Whether a provider answers there."""
    try:
        return Browser(port).get(path)[0] == HTTPStatus.OK
    except OSError:
        return False


@dataclass
class Browser:
    """Follows the pages of a provider as a person would, with its cookies and forms.

    `context` is what it trusts, if that is not the certificate for `HOST`.
    """

    port: int
    host: str = HOST
    context: ssl.SSLContext = field(default_factory=lambda: trusting(HOST))
    cookies: SimpleCookie = field(default_factory=SimpleCookie)

    def get(self, url: str, form: dict[str, str] | None = None) -> tuple[int, str, str]:
        """Status, location and page."""
        method, body = ("GET", None) if form is None else ("POST", urlencode(form))
        return self.send(method, url, body, "application/x-www-form-urlencoded")

    def send(self, method: str, url: str, body: str | None, kind: str) -> tuple[int, str, str]:
        """Status, location and page, for a body of this content type."""
        parts = urlsplit(url)
        # The connection is by number.
        self.context.check_hostname = False
        connection = HTTPSConnection(LOCAL, self.port, context=self.context, timeout=30)
        try:
            connection.request(
                method,
                f"{parts.path}?{parts.query}",
                body,
                {
                    "Host": self.host,
                    "Cookie": "; ".join(f"{n}={m.value}" for n, m in self.cookies.items()),
                    "Content-Type": kind,
                },
            )
            response = connection.getresponse()
            for each in response.headers.get_all("Set-Cookie", []):
                self.cookies.load(each)
            page = response.read().decode()
            return response.status, response.headers.get("Location", ""), page
        finally:
            connection.close()

    def sign_in(self, url: str, person: str) -> dict[str, str]:
        """Begin at the provider, fill in its forms; what it sends to the redirect address."""
        back = self.visit(url, person, REDIRECT)
        return {name: each[0] for name, each in parse_qs(urlsplit(back).query).items()}

    def visit(self, url: str, person: str, redirect: str) -> str:
        """Fill in the forms of the provider; where it sends the browser, or "" if it stays."""
        form: dict[str, str] | None = None
        for _ in range(_PAGES_MAX):
            status, location, page = self.get(url, form)
            if location.startswith(redirect):
                return location
            if location:
                url, form = location, None
                continue
            assert status == HTTPStatus.OK, page
            url, form = _filled(page, person)
            if not url:
                return ""
        raise AssertionError("the provider has no end of pages")

    def sign_out(self) -> str:
        """Sign out at the provider; the page that follows when it has told its clients."""
        action, fields = _filled(self.get("/session/end")[2], "")
        return self.get(action, fields | {"logout": "yes"})[1]


class _Form(HTMLParser):
    """The first form of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.action, self.fields = "", dict[str, str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "form" and not self.action:
            self.action = found.get("action") or ""
        elif tag == "input" and found.get("name"):
            self.fields[found["name"] or ""] = found.get("value") or ""


def _filled(page: str, person: str) -> tuple[str, dict[str, str]]:
    form = _Form()
    form.feed(page)
    given = {"login": person, "password": "any"}
    return form.action, form.fields | {n: v for n, v in given.items() if n in form.fields}


def authorization(endpoint: str, *, verifier: str, nonce: str, redirect: str = REDIRECT) -> str:
    """The address at which a sign-in begins."""
    challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "client_id": CLIENT,
        "response_type": "code",
        "redirect_uri": redirect,
        "scope": "openid email profile",
        "state": "s",
        "nonce": nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return f"{endpoint}?{urlencode(asked)}"
