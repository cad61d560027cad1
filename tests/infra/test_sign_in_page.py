"""docs/sign-in.md, typed as it stands: a company's provider (npm's oidc-provider), and sign-ins."""

import re
import shlex
import shutil
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.infra import console
from tests.infra.terminal import URL, Terminal, check_traces
from tests.kit.processes import HOST, ROOT, Group, free_port, local_server
from tests.kit.providers import Browser, needs_provider

pytestmark = [
    pytest.mark.slow,
    needs_provider,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
]
PAGE: Final = "docs/sign-in.md"
SSO: Final = "sso.example.test"
# What the line in /etc/hosts does, for these processes alone.
_NAMED: Final = f"""
import socket
found = socket.getaddrinfo
socket.getaddrinfo = lambda host, *a, **b: found("{HOST}" if host == "{SSO}" else host, *a, **b)
"""
# The browser of the page's reader, who is Ann.
_BROWSER: Final = """
import ssl, sys
import httpx2
from tests.kit.providers import Browser
_, certificate, host, port, url = sys.argv
browser = Browser(int(port), f"{host}:{port}", ssl.create_default_context(cafile=certificate))
httpx2.get(browser.visit(url, "ann", "http://127.0.0.1:"), trust_env=False)
"""


@dataclass
class Desk:
    """Where the reader types, and what the commands of the page name otherwise here."""

    folder: Path
    terminal: Terminal
    port: int
    before: set[Path]
    url: str = ""

    def type(self, block: str) -> str:
        typed = block.replace("9443", str(self.port)).replace(URL, self.url or URL)
        return self.terminal.type(typed)

    def browser(self) -> Browser:
        trusting = ssl.create_default_context(cafile=self.folder / "sso.crt")
        return Browser(self.port, f"{SSO}:{self.port}", trusting)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """The page up to the binding: a provider, and a service that reaches it."""
    folder, named, port = tmp_path / "desk", tmp_path / "named", free_port()
    folder.mkdir()
    named.mkdir()
    (named / "sitecustomize.py").write_text(_NAMED)
    (named / "browser.py").write_text(_BROWSER)
    words = [sys.executable, named / "browser.py", folder / "sso.crt", SSO, port]
    # A colon would begin another browser.
    home = {
        "RESCIND_CONFIG_DIR": str(tmp_path / "profiles"),
        "PYTHONPATH": f"{named}:{ROOT}",
        "BROWSER": f"{shlex.join(map(str, words))} %s",
    }
    make, serve, bind, *_ = console.blocks(PAGE)
    with ExitStack() as stack:
        terminal = stack.enter_context(Terminal(folder, home))
        made = Desk(folder, terminal, port, {*folder.iterdir()})
        *_, node = make.splitlines()
        openssl = "\n".join(each for each in make.split("\n") if not each.startswith(_ELSEWHERE))
        made.type(openssl)
        command = shlex.split(node.replace("9443", str(port)).replace("sso.pem", "{}/sso.pem"))
        command = [each.format(folder) for each in command]
        group = Group(command, tmp_path / "provider.log", lambda: _is_up(made))
        stack.callback(group.kill)
        group.start()
        export, _ = serve.splitlines()
        settings = dict(re.findall(r"(\S+)=(\S+)", export.replace("$PWD", str(folder))))
        server = stack.enter_context(local_server(folder / ".data", settings=home | settings))
        made.url = server.url
        said = made.type(f"{bind} 2>&1")
        assert "http://127.0.0.1/ with any port, for the client cli" in said
        assert "sign in at http://127.0.0.1:8080/?tenant=local" in said
        yield made


# Other users of the machine are not concerned, and the provider is started beside.
_ELSEWHERE: Final = ("echo 127.0.0.1", "make ", "node ")


def _is_up(desk: Desk) -> bool:
    try:
        return desk.browser().get("/.well-known/openid-configuration")[0] == 200
    except OSError:
        return False


def test_the_page_on_signing_in(desk: Desk) -> None:
    """F1230a: The commands of docs/sign-in.md bind a certified provider, and sign a person in."""
    session = console.blocks(PAGE)[3]
    said = desk.type(session)
    assert re.search(r"^identity +ann@acme\.example *$", said, re.MULTILINE)
    assert re.search(r"^role +admin *$", said, re.MULTILINE)
    assert "session.create" in said
    left = {each for each in {*desk.folder.iterdir()} - desk.before if ".data" not in each.name}
    assert {each.name for each in left} == {"sso.key", "sso.crt", "sso.pem"}
    check_traces(desk.folder, left)


def test_the_console_signs_in_with_the_same_provider(desk: Desk) -> None:
    """F1530a: The provider that docs/sign-in.md starts signs people in to the console, too."""
    back = "http://127.0.0.1:8080/console/signed-in/svc_idp_a"
    asked = "client_id=console&response_type=code&scope=openid&state=a&redirect_uri"
    shown = f"https://{SSO}:9443/auth?{asked}={back}"
    assert "code=" in desk.browser().visit(shown, "ann", back)


def test_a_code_of_a_certified_provider(desk: Desk) -> None:
    """F1230b: `login --device` signs in with a certified provider, once the code is entered."""
    login = f"rescind login --device --url {desk.url} --profile device"
    desk.type(
        f"({login} > device.log 2>&1 &)\nuntil grep -q ' or open ' device.log; do sleep 0.1; done"
    )
    shown = (desk.folder / "device.log").read_text()
    opened = re.search(r"or open (\S+)", shown)
    assert opened
    assert desk.browser().visit(opened[1], "ann", "http://127.0.0.1:") == ""
    desk.type("until grep -q '^expires_at' device.log; do sleep 0.1; done")
    said = desk.type("rescind whoami --profile device\nrescind logout --profile device")
    assert re.search(r"^name +Ann *$", said, re.MULTILINE)
