"""Connections of the command line: proxies, `NO_PROXY`, redirects and addresses of no use."""

import json
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from infra.cli import profiles
from infra.cli.client import ApiClient
from infra.cli.connections import Connections, is_exempt, proxy_of
from infra.cli.errors import BadResponse, UsageError
from infra.cli.profiles import Profile
from shared.authorizer.http1 import Request
from tests.infra.cli.conftest import Shell
from tests.kit.receivers import HOST, Receiver, certificate, conversing, raw, read

KEY = "svc_a-secret"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
PROXY = "http://me:it%40@127.0.0.1"
BASIC = f"Basic {b64encode(b'me:it@').decode()}"


@pytest.mark.parametrize(
    ("url", "exempt", "expected"),
    [
        ("https://a.example/", "", False),
        ("https://a.example/", "*", True),
        ("https://a.example/", "b.example, *", True),
        ("https://a.example/", "a.example", True),
        ("https://a.example./", "a.example", True),
        ("https://A.example/", "a.EXAMPLE.", True),
        ("https://a.example/", "example", True),
        ("https://a.example/", ".example", True),
        ("https://a.example/", "*.example", True),
        ("https://a.example/", "ample", False),
        ("https://a.example/", ".", False),
        ("https://a.example/", ",,", False),
        ("https://a.example/", "x.a.example", False),
        ("https://a.example/", "b.example a.example", True),
        ("https://a.example/", "a.example:443", True),
        ("https://a.example/", "a.example:8443", False),
        ("https://a.example:8443/", "a.example:8443", True),
        ("http://a.example/", ".example:80", True),
        ("http://10.1.2.3/", "10.1.2.3", True),
        ("http://10.1.2.3/", "10.0.0.0/8", True),
        ("http://10.1.2.3/", "10.9.9.9/8", True),
        ("http://11.1.2.3/", "10.0.0.0/8", False),
        ("http://10.1.2.3:8080/", "10.0.0.0/8:8080", True),
        ("http://10.1.2.3:8080/", "10.0.0.0/8:80", False),
        ("http://10.1.2.3/", "1.2.3", False),
        ("http://10.1.2.3/", "fd00::/8", False),
        ("https://a.example/", "10.0.0.0/8", False),
        ("http://[fd00::1]/", "fd00::/8", True),
        ("http://[fd00::1]/", "[fd00::1]", True),
        ("http://[fd00::1]/", "FD00:0::1", True),
        ("http://[fd00::1]:8080/", "[fd00::1]:8080", True),
        ("http://[fd00::1]:8080/", "[fd00::1]:80", False),
        ("http://[fd00::1]/", "fd00::2", False),
        ("http://[::ffff:10.1.2.3]/", "10.0.0.0/8", True),
        ("http://[::ffff:10.1.2.3]/", "::ffff:10.0.0.0/104", True),
        ("http://[::ffff:10.1.2.3]/", "[::ffff:10.1.2.3]", True),
        ("https://bücher.example/", "xn--bcher-kva.example", True),
        ("https://xn--bcher-kva.example/", "bücher.example", True),
        ("https://a.example/", "[", False),
    ],
)
def test_hosts_without_a_proxy(url: str, exempt: str, expected: bool) -> None:
    """F1663a: `NO_PROXY` has names, domains, addresses, networks and `*`, also with a port."""
    parts = urlsplit(url)
    assert is_exempt(parts, exempt) is expected
    for name in ("no_proxy", "NO_PROXY"):
        environment = {"HTTP_PROXY": "p.example:1", "https_proxy": "http://p.example:1/"}
        found = proxy_of(parts, {**environment, name: exempt})
        assert (found is None) is expected


def test_which_proxy_is_used() -> None:
    """F506a, F1663b: The lower case of a variable takes precedence; loopback has no proxy."""
    far = urlsplit("https://a.example/")
    both = {"https_proxy": "low.example", "HTTPS_PROXY": "up.example", "ALL_PROXY": "all.example"}
    found = [
        proxy_of(far, both),
        proxy_of(far, {**both, "https_proxy": ""}),
        proxy_of(far, {"HTTPS_PROXY": "http://up.example:81"}),
        proxy_of(far, {"http_proxy": "plain.example"}),
    ]
    names = [each and each.netloc for each in found]
    assert names == ["low.example", "all.example", "up.example:81", None]
    for url in ("http://localhost:80/", "http://127.0.0.9/", "https://[::1]:8/"):
        assert proxy_of(urlsplit(url), {**both, "http_proxy": "low.example"}) is None


@pytest.mark.parametrize(
    "value",
    [
        "socks5://p:pa55@a.example",
        "https://p:pa55@a.example",
        "http://p:pa55@[::1",
        "http://p:pa55@a.example:port",
        "http://p:pa55@",
    ],
)
def test_a_proxy_of_no_use(value: str) -> None:
    """F1663c: A proxy that cannot be used is an error that names the variable, not its value."""
    with pytest.raises(UsageError, match=r"^HTTPS_PROXY does not name .*; set it") as refused:
        proxy_of(urlsplit("https://a.example/"), {"HTTPS_PROXY": value})
    assert "pa55" not in str(refused.value)


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate of the service is one of the authorities of this machine."""
    file = tmp_path / "authorities.pem"
    file.write_bytes(certificate(HOST, False)[0])
    monkeypatch.setenv("SSL_CERT_FILE", str(file))


def _set_proxy(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    for name in ("https_proxy", "http_proxy"):
        monkeypatch.setenv(name, f"{PROXY}:{port}")


@contextmanager
def _tunnelling(port: int, reply: bytes = b"HTTP/1.1 200 Connected\r\n\r\n") -> Iterator[Receiver]:
    """A proxy that answers CONNECT with `reply`, and then connects to `port` of this machine."""

    def run(connection: socket.socket) -> None:
        made.requests.append(read(connection))
        connection.sendall(reply)
        with socket.create_connection(("127.0.0.1", port)) as server:
            back = threading.Thread(target=_copy, args=(server, connection))
            back.start()
            _copy(connection, server)
            back.join()

    with raw(run) as made:
        yield made


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@pytest.mark.usefixtures("trusted")
def test_a_tunnel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F1664a: HTTPS goes through a tunnel. The proxy gets its password alone; the service the key.

    An interim response of the proxy is skipped, and the tunnel is kept for the next request.
    """
    reply = b"HTTP/1.1 102 Wait\r\n\r\nHTTP/1.1 200 Connected\r\nContent-Length: 0\r\n\r\n"
    with conversing((OK,), tls=True) as service, _tunnelling(service.port, reply) as proxy:
        _set_proxy(monkeypatch, proxy.port)
        with ApiClient(Profile(tmp_path, f"https://{HOST}", KEY)) as api:
            assert [api.get("/v1/whoami") for _ in range(2)] == [{}, {}]
    (asked,) = proxy.requests
    assert asked.line == f"CONNECT {HOST}:443 HTTP/1.1"
    assert asked.headers == {"host": HOST, "proxy-authorization": BASIC}
    assert [each.line for each in service.requests] == ["GET /v1/whoami HTTP/1.1"] * 2
    for each in service.requests:
        assert each.headers["authorization"] == f"Bearer {KEY}"
        assert "proxy-authorization" not in each.headers


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno", "refuses the tunnel with status 407"),
        (b"HTTP/1.1 302 No\r\nLocation: http://a.example/\r\n\r\n", "with status 302"),
        (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "before the server"),
        (b"SSH-2.0\r\n\r\n", "not valid HTTP"),
    ],
)
@pytest.mark.usefixtures("trusted")
def test_a_tunnel_that_does_not_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: bytes, said: str
) -> None:
    """F1664b: A proxy that gives no tunnel is an error, and gets no key."""
    with conversing((OK,), tls=True) as service, _tunnelling(service.port, reply) as proxy:
        _set_proxy(monkeypatch, proxy.port)
        api = ApiClient(Profile(tmp_path, f"https://{HOST}", KEY))
        with api, pytest.raises(BadResponse, match=said) as refused:
            api.get("/v1/whoami")
    assert "it@" not in str(refused.value)
    assert "authorization" not in proxy.requests[0].headers
    assert service.requests == []


def test_a_request_without_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F1540a, F1664c: A URL without TLS goes to the proxy whole, with the proxy's password.

    It does not if `NO_PROXY` has its network.
    """
    profile = Profile(tmp_path, "http://192.0.2.1:8080", KEY, allow_http=True)
    with conversing((OK,)) as proxy:
        _set_proxy(monkeypatch, proxy.port)
        with ApiClient(profile) as api:
            api.get("/v1/keys", {"limit": 1})
    assert proxy.requests[0].line == "GET http://192.0.2.1:8080/v1/keys?limit=1 HTTP/1.1"
    assert proxy.requests[0].headers["host"] == "192.0.2.1:8080"
    assert proxy.requests[0].headers["proxy-authorization"] == BASIC
    assert (
        proxy_of(urlsplit(profile.url), {"http_proxy": PROXY, "no_proxy": "192.0.2.0/24"}) is None
    )


def test_a_url_with_other_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F1664d: A URL is sent in ASCII, whatever its host and its path are."""
    profile = Profile(tmp_path, "http://b\u00fccher.example:81", KEY, allow_http=True)
    with conversing((OK,)) as proxy:
        _set_proxy(monkeypatch, proxy.port)
        with ApiClient(profile) as api:
            api.send("GET", "/v1/\u00fc a%2Fb")
            api.send("GET", "/v1/tile/x001/000")
    target, host = "/v1/%C3%BC%20a%2Fb", "xn--bcher-kva.example:81"
    assert proxy.requests[0].line == f"GET http://{host}{target} HTTP/1.1"
    assert proxy.requests[0].headers["host"] == host
    assert proxy.requests[1].line == f"GET http://{host}/v1/tile/x001/000 HTTP/1.1"


def test_a_redirect_gets_no_key(tmp_path: Path) -> None:
    """F1540b, F1665a: Only a GET with `follow` is redirected; another origin gets no credential."""
    with conversing((OK,)) as far:
        there = f"http://127.0.0.1:{far.port}/list?signature=secret"
        moved = f"HTTP/1.1 302 No\r\nLocation: {there}\r\nContent-Length: 0\r\n\r\n".encode()
        near = b"HTTP/1.1 307 No\r\nLocation: /v1/b\r\nContent-Length: 0\r\n\r\n"
        with conversing((near,), (moved,)) as service:
            profile = Profile(tmp_path, f"http://127.0.0.1:{service.port}", KEY)
            with ApiClient(profile) as api:
                assert api.send("GET", "/v1/a", follow=True).body == b"{}"
            with ApiClient(profile) as api, pytest.raises(BadResponse, match="returned 302"):
                api.get("/v1/a")
    keys = [each.headers.get("authorization") for each in service.requests]
    assert keys == [f"Bearer {KEY}"] * 3
    assert [each.line for each in far.requests] == ["GET /list?signature=secret HTTP/1.1"]
    assert "authorization" not in far.requests[0].headers


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("/v1/a", "redirects too many times"),
        ("ftp://a.example/", "not an http or https URL"),
        ("http://[::1?signature=secret", "leads to no address"),
        ("http://127.0.0.1:1/?signature=secret", "from http://127.0.0.1:1/: "),
    ],
)
def test_a_redirect_of_no_use(tmp_path: Path, location: str, said: str) -> None:
    """F1665b: A redirect that leads nowhere is an error of one line without the query."""
    moved = f"HTTP/1.1 302 No\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()
    with conversing((moved,)) as service:
        profile = Profile(tmp_path, f"http://127.0.0.1:{service.port}", KEY)
        with ApiClient(profile) as api, pytest.raises(BadResponse, match=said) as refused:
            api.send("GET", "/v1/a", follow=True)
    assert "secret" not in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.usefixtures("trusted")
def test_a_redirect_never_drops_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F1665c: A redirect from HTTPS to HTTP is not followed."""
    moved = b"HTTP/1.1 302 No\r\nLocation: http://a.example/\r\nContent-Length: 0\r\n\r\n"
    with conversing((moved,), tls=True) as service, _tunnelling(service.port) as proxy:
        _set_proxy(monkeypatch, proxy.port)
        api = ApiClient(Profile(tmp_path, f"https://{HOST}", KEY))
        with api, pytest.raises(BadResponse, match="without TLS"):
            api.send("GET", "/v1/a", follow=True)
    assert [each.line for each in proxy.requests] == [f"CONNECT {HOST}:443 HTTP/1.1"]


def test_a_head_request() -> None:
    """F1666a: A response to HEAD has no body, whatever length it states."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
    with conversing((head,), (OK,)) as service:
        url, connections = f"http://127.0.0.1:{service.port}/", Connections()
        assert connections.exchange(Request.parse(url, method="HEAD")).body == b""
        assert connections.exchange(Request.parse(url)).body == b"{}"
        connections.close()
    assert service.connections == 1


def test_an_error_of_the_server_ends_the_connection() -> None:
    """F1666b: After an error of the server, the next request has a new connection."""
    down = b"HTTP/1.1 503 Down\r\nContent-Length: 0\r\n\r\n"
    with conversing((OK,), (OK,), (down,), (OK,)) as service:
        url, connections = f"http://127.0.0.1:{service.port}/", Connections()
        found = [connections.exchange(Request.parse(url)).status for _ in range(4)]
        connections.close()
    assert (found, service.connections) == ([200, 200, 503, 200], 2)


@pytest.mark.parametrize("url", ["http://[::1", "https://a.example:99999", "https://", "a.example"])
def test_an_address_of_no_use(tmp_path: Path, url: str) -> None:
    """F1666c: An address that is none is an error of one line."""
    with pytest.raises(UsageError, match="URL is invalid; use a URL such as https://"):
        profiles.reaching(Profile(tmp_path, url, KEY))
    assert profiles.is_private(url) == url.startswith("https:")


@pytest.mark.parametrize(
    "changed", [{"url": 5}, {"url": None}, {"api_key": 5}, {"allow_http": "no"}, {"renewal": []}]
)
def test_a_profile_with_other_types(shell: Shell, changed: dict[str, object]) -> None:
    """F1666d: A profile whose values have other types is an error of one line."""
    profiles.save(Profile(shell.home / "default", "http://127.0.0.1:1", KEY))
    path = shell.home / "default" / "profile.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **changed}))
    ended = shell.run("whoami")
    assert ended.code == 2
    assert "is not a profile; log in again." in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """F1954a: The error of a request through a proxy names the proxy without its password."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    _set_proxy(monkeypatch, port)
    host = PROXY.rpartition("@")[2]
    api = ApiClient(Profile(tmp_path, f"{scheme}://{HOST}", KEY, allow_http=True))
    with api, pytest.raises(BadResponse) as refused:
        api.get("/v1/whoami")
    said = f": Connection refused, through the proxy {host}:{port}"
    assert str(refused.value) == f"no valid response from {scheme}://{HOST}/v1/whoami{said}"


def test_without_a_proxy_an_error_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1954b: The error of a request that no proxy has taken names no proxy."""
    _set_proxy(monkeypatch, 9)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    api = ApiClient(Profile(tmp_path, url, KEY))
    with api, pytest.raises(BadResponse, match=r"^no valid response from .*: Connection refused$"):
        api.get("/v1/whoami")
