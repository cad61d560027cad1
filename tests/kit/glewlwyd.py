"""Debian's glewlwyd: an OpenID provider that shares no code with the other one of the tests."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc.jwk import ECKey

from tests.kit import providers
from tests.kit.processes import Group, free_port
from tests.kit.providers import CLIENT, Browser, Provider
from tests.kit.receivers import HOST, certificate

ISSUER: Final = f"https://{HOST}/api/oidc"
# glewlwyd does not decode what RFC 6749 encodes (2.3.1).
SECRET: Final = "of-characters-that-encoding-leaves"
_TABLES: Final = Path("/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3")
# Of the administrator, as in Debian's tables, and of Ann.
_PASSWORD: Final = "password"
_SETTINGS: Final = """
port = {port}
bind_address = "127.0.0.1"
external_url = "https://{host}"
cookie_domain = "{host}"
cookie_secure = 1
log_mode = "console"
log_level = "INFO"
user_module_path = "/usr/lib/glewlwyd/user"
client_module_path = "/usr/lib/glewlwyd/client"
user_auth_scheme_module_path = "/usr/lib/glewlwyd/scheme"
plugin_module_path = "/usr/lib/glewlwyd/plugin"
use_secure_connection = true
secure_connection_pem_file = "{folder}/0.pem"
secure_connection_key_file = "{folder}/1.pem"
hash_algorithm = "SHA512"
database = {{ type = "sqlite3" path = "{folder}/glewlwyd.db" }}
"""


def has_glewlwyd() -> bool:
    """Whether Debian's package glewlwyd is there."""
    return shutil.which("glewlwyd") is not None and _TABLES.exists()


needs_glewlwyd = pytest.mark.skipif(not has_glewlwyd(), reason="no glewlwyd (Debian's package)")


@dataclass
class Glewlwyd(Provider):
    """A running glewlwyd, whose API says what it has."""

    def sign_with(self, kid: str) -> None:
        """Sign with a new key, and publish it alone."""
        self._tell("admin", "PUT", "mod/plugin/oidc", _oidc(kid))
        self._tell("admin", "PUT", "mod/plugin/oidc/reset", {})

    def register(self, redirect: str) -> None:
        """Let it know the client, and Ann."""
        ann = {"username": "ann", "name": "Ann", "email": "ann@acme.example"}
        ann |= {"password": _PASSWORD}
        self._tell("admin", "POST", "user/", ann | {"scope": ["openid", "g_profile"]})
        client = {"client_id": CLIENT, "confidential": True, "client_secret": SECRET}
        client |= {"redirect_uri": [redirect], "authorization_type": ["code"], "scope": ["openid"]}
        client |= {"token_endpoint_auth_method": ["client_secret_basic"]}
        self._tell("admin", "POST", "client/", client)

    def code(self, url: str) -> str:
        """Sign in there as Ann, who allows what is asked; the code."""
        assert "callback_url=" in Browser(self.port).get(url)[1]
        ann = self._tell("ann", "PUT", f"auth/grant/{CLIENT}/", {"scope": "openid"})
        sent = parse_qs(urlsplit(ann.get(url + "&g_continue")[1]).query)
        assert (sent["state"], sent["iss"]) == (["s"], [ISSUER])
        return sent["code"][0]

    def _tell(self, who: str, method: str, path: str, members: dict[str, Any]) -> Browser:
        """Sign in, and call the API."""
        browser, known = Browser(self.port), {"username": who, "password": _PASSWORD}
        for how, where, what in (("POST", "auth/", known), (method, path, members)):
            sent = json.dumps(what)
            status, _, page = browser.send(how, f"/api/{where}", sent, "application/json")
            assert status == HTTPStatus.OK, f"{where}: {page}"
        return browser

    def begin(self) -> None:
        """Start it, as an OpenID provider."""
        self.start()
        self._tell("admin", "POST", "mod/plugin/", _oidc("first"))


def _oidc(kid: str) -> dict[str, Any]:
    key = ECKey.generate_key("P-256").as_dict(private=True) | {"kid": kid, "alg": "ES256"}
    parameters = {"iss": ISSUER, "jwks-private": json.dumps({"keys": [key]}), "jwks-show": True}
    parameters |= {"auth-type-code-enabled": True, "oauth-as-iss-id": True}
    parameters |= {"pkce-allowed": True, "pkce-required": True, "allowed-scope": ["openid"]}
    parameters |= {"email-claim": "mandatory", "name-claim": "mandatory"}
    named = {"module": "oidc", "name": "oidc", "display_name": "-", "order_rank": 0}
    return named | {"parameters": parameters}


@contextmanager
def glewlwyd(folder: Path) -> Iterator[Glewlwyd]:
    """A glewlwyd with a database, a certificate and a key of its own."""
    port, settings = free_port(), folder / "glewlwyd.conf"
    for number, part in enumerate(certificate(HOST, False)):
        (folder / f"{number}.pem").write_bytes(part)
    settings.write_text(_SETTINGS.format(port=port, host=HOST, folder=folder))
    with closing(sqlite3.connect(folder / "glewlwyd.db")) as database:
        database.executescript(_TABLES.read_text())
    arguments = ["glewlwyd", "--config-file", str(settings)]
    group = Group(arguments, folder / "log", lambda: providers.is_up(port, "/config"))
    made = Glewlwyd(port, group, arguments)
    try:
        made.begin()
        yield made
    finally:
        made.kill()
