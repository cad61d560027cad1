"""Apache with mod_auth_openidc introspects tokens, with the configuration of docs/tokens.md."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.kit import issuers
from tests.kit.processes import HOST, ROOT, free_port, local_server
from tests.kit.receivers import certificate
from tests.kit.waiting import soon

_APACHE, _MODULES = Path("/usr/sbin/apache2"), Path("/usr/lib/apache2/modules")
_ISSUER, _AUDIENCE = "https://as.example", "accounts"
_CONFIGURATION = """
ServerRoot {folder}
ServerName localhost
Listen {host}:{port}
PidFile {folder}/pid
ErrorLog {folder}/error.log
Mutex file:{folder} default
User www-data
Group www-data
DocumentRoot {folder}/pages
{modules}
OIDCCryptoPassphrase not-used-by-resource-servers
OIDCCABundlePath {folder}/service.pem
{documented}
# The service, behind TLS.
Listen {host}:{tls_port}
<VirtualHost {host}:{tls_port}>
  SSLEngine on
  SSLCertificateFile {folder}/service.pem
  SSLCertificateKeyFile {folder}/service.key
  <Location "/v1">
    AuthType None
    Require all granted
  </Location>
  ProxyPass "/v1" "{url}/v1"
</VirtualHost>
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (_MODULES / "mod_auth_openidc.so").exists(), reason="no mod_auth_openidc"
    ),
]


@contextmanager
def _apache(folder: Path, url: str, key: str) -> Iterator[str]:
    port, tls_port = free_port(), free_port()
    names = ["mpm_event", "authn_core", "authz_core", "authz_user", "auth_openidc"]
    names += ["socache_shmcb", "ssl", "proxy", "proxy_http"]
    for name, data in zip(("pem", "key"), certificate("localhost"), strict=True):
        (folder / f"service.{name}").write_bytes(data)
    modules = "\n".join(f"LoadModule {each}_module {_MODULES}/mod_{each}.so" for each in names)
    (folder / "pages").mkdir()
    (folder / "pages" / "account").write_text("ann")
    file = folder / "apache.conf"
    page = (ROOT / "docs" / "tokens.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```apache\n(.*?)```", page, re.DOTALL)
    address = f"https://localhost:{tls_port}"
    lines = lines.replace("https://rescind.example", address).replace("svc_…", key)
    values = {"host": HOST, "port": port, "tls_port": tls_port, "url": url}
    file.write_text(
        _CONFIGURATION.format(folder=folder, modules=modules, documented=lines, **values)
    )
    # The tests run as root, and Apache serves as another user.
    for each in (folder, folder / "pages"):
        each.chmod(0o777)
    for parent in folder.parents[:4]:
        parent.chmod(parent.stat().st_mode | 0o011)
    command = [str(_APACHE), "-f", str(file), "-D", "FOREGROUND"]
    with subprocess.Popen(command) as process:
        try:
            soon(lambda: _status(f"http://{HOST}:{port}/account", "none") == 401)
            yield f"http://{HOST}:{port}/account"
        finally:
            process.terminate()


def _status(url: str, token: str) -> int:
    try:
        return httpx2.get(url, headers={"Authorization": f"Bearer {token}"}).status_code
    except httpx2.TransportError:
        return 0


def _token(jti: str) -> str:
    now = int(time.time())
    claims = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": "ann", "exp": now + 3600, "jti": jti}
    return issuers.signed(
        {"alg": "ES256", "kid": "a", "typ": "at+jwt"}, claims, issuers.key("ES256")
    )


def test_a_revoked_token_is_refused_at_the_next_request(tmp_path: Path) -> None:
    """F2006a, TOKEN-4: With the documented interval, Apache does not cache the introspection."""
    keys: Any = {"keys": [issuers.public(issuers.key("ES256"), kid="a")]}
    with (
        local_server(tmp_path / "data") as server,
        httpx2.Client(
            base_url=server.url, headers={"Authorization": f"Bearer {server.admin_key}"}
        ) as http,
    ):
        provider = {"name": "AS", "usage": "verify_only", "issuer": _ISSUER, "client_id": _AUDIENCE}
        answer = http.post("/v1/tenant/identity-providers", json=provider | {"jwks": keys})
        assert answer.status_code == 201, answer.text
        key = http.post("/v1/api-keys", json={"name": "gateway", "scopes": ["authorizer"]}).json()
        with _apache(tmp_path, server.url, key["key"]) as url:
            good, bad = _token("good-1"), _token("bad-1")
            assert _status(url, good) == _status(url, bad) == 200
            token = {"kind": "jwt", "issuer": _ISSUER, "value": "bad-1"}
            body = json.dumps({"token": token, "reason": "laptop stolen"})
            headers = {"Content-Type": "application/json"}
            assert http.post("/v1/revocations", content=body, headers=headers).status_code == 201
            assert _status(url, bad) in (401, 403)
            assert _status(url, good) == 200
