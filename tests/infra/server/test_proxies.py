"""The server behind nginx, which keeps connections and compresses."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.kit import sockets
from tests.kit.processes import HOST, free_port, local_server
from tests.kit.waiting import soon

_NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
_CONFIGURATION = """
daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off; gzip on; gzip_types *; gzip_min_length 1; gzip_proxied any;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  upstream rescind {{ server 127.0.0.1:{upstream}; keepalive 16; keepalive_timeout 60s; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://rescind; proxy_http_version 1.1; proxy_set_header Connection "";
    }}
  }}
}}
"""


@contextmanager
def nginx(folder: Path, upstream: int) -> Iterator[str]:
    """The address of an nginx in front of a server on this port."""
    assert _NGINX
    port, file = free_port(), folder / "nginx.conf"
    file.write_text(_CONFIGURATION.format(folder=folder, upstream=upstream, port=port))
    command = [_NGINX, "-e", str(folder / "error.log"), "-p", str(folder), "-c", str(file)]
    url = f"http://{HOST}:{port}"
    with subprocess.Popen(command) as process:
        try:
            soon(lambda: _answers(url))
            yield url
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/healthz").is_success
    except httpx2.TransportError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(_NGINX is None, reason="no nginx")
def test_nginx_keeps_connections_and_changes_tags(tmp_path: Path) -> None:
    """F1740c, F1741d: Behind an nginx that keeps connections and compresses, tags stay known."""
    with (
        local_server(tmp_path / "data") as server,
        nginx(tmp_path, server.port) as url,
        httpx2.Client(
            base_url=url, headers={"Authorization": f"Bearer {server.admin_key}"}
        ) as http,
    ):
        for number in range(40):
            body = {"warrant_id": f"svc_wrt_{number}", "reason": "stolen"}
            assert http.post("/v1/revocations", json=body).status_code == 201
        assert http.post("/v1/revocations/srl/regenerate").status_code == 200
        for path in ("/v1/revocations/feed", "/v1/revocations/srl", "/v1/trust"):
            answer = http.get(path)
            assert answer.headers["content-encoding"] == "gzip"
            etag = answer.headers["etag"]
            assert etag.startswith("W/")
            assert http.get(path, headers={"If-None-Match": etag}).status_code == 304


@pytest.mark.slow
def test_the_time_of_idle_connections_can_be_set(tmp_path: Path) -> None:
    """F1741e: `--idle` is how long the server keeps a connection without a request."""
    with local_server(tmp_path / "data", "--idle", "1") as server:
        answer = sockets.read_all(HOST, server.port, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" not in answer
