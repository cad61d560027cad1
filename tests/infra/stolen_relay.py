"""A relay with a client behind it, and a thief at its address, in a documented session."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Self
from urllib.request import Request, urlopen

from tests.infra.following import Asked, following
from tests.infra.terminal import Terminal
from tests.kit.processes import HOST, Group, answers, free_port

_FEED: Final = "/v1/revocations/feed"
# It answers polls with a file, as if that were confirmed just now, and loses reports.
_THIEF: Final = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
class Thief(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        is_poll = self.path.startswith("/v1/revocations/feed")
        body = Path(sys.argv[2]).read_bytes() if is_poll else b"{}"
        self.send_response(200 if is_poll else 404)
        self.send_header("Age", "0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()
    def log_message(self, *_):
        pass
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Thief).serve_forever()
"""


class Stolen:
    """What a thief has: the API key of the relay, and what the relay answered before."""

    def __init__(self, poll: "partial[bytes]", older: bytes, old: bytes, served: Path) -> None:
        self.old = old
        self._poll, self._older, self._served = poll, older, served
        self.serves(old)

    def serves(self, answer: bytes) -> None:
        """Answer polls so from now on."""
        new = self._served.with_suffix(".new")
        new.write_bytes(answer)
        new.rename(self._served)

    def altered(self) -> Iterator[tuple[set[str], bytes]]:
        """Yield answers that a client refuses, each with the reason; their bytes are genuine."""
        newest = json.loads(self._poll())
        head, entries = newest["head"], newest["entries"]
        assert entries
        forged = json.loads(self.old)["head"] | {"Payload": head["Payload"]}
        yield {"rollback"}, self._older
        yield {"signature"}, json.dumps(newest | {"head": forged}).encode()
        # As the client holds the entry before it, or does not.
        yield {"chain", "gap"}, json.dumps(newest | {"entries": entries[:-1]}).encode()


class Site:
    """The machines near a relay. The session has `PIN`, and an API key for the relay."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._stack, self._client = ExitStack(), ExitStack()
        self._url, self._pin, folder = terminal.type('echo "$URL" "$PIN" "$PWD"').split()
        self._tenant = json.loads(terminal.type("rescind settings show -o json"))["tenant_id"]
        self._folder = Path(folder)
        self._older = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._stack.close()

    def relay(self, name: str) -> str:
        """Start a relay with an API key of its own, and return its address."""
        create = f"test -e {name}.json || rescind api-keys create {name} --scope authorizer -o json"
        self._terminal.type(f"{create} > {name}.json")
        self._key = json.loads((self._folder / f"{name}.json").read_text())["key"]
        self._port = free_port()
        command = [sys.executable, "-m", "shared.authorizer", "relay", self._url]
        options = {"tenant": self._tenant, "root": self._pin, "name": name}
        options |= {"state": str(self._folder / name), "listen": f"{HOST}:{self._port}"}
        command += [word for option, value in options.items() for word in (f"--{option}", value)]
        self._relay = self._started(command, {"RESCIND_API_KEY": self._key})
        return f"http://{HOST}:{self._port}"

    def follow(self, url: str) -> Asked:
        """Let the client `gate` follow a relay, with the floor that it had."""
        self._client.close()
        settings = {"url": url, "api_key": "any", "tenant": self._tenant, "trust_root": self._pin}
        source = {"package": "shared.authorizer", "name": "gate"}
        python, floor = Path(sys.executable), self._folder / "gate"
        client = self._client.enter_context(following(python, floor, **settings, **source))
        self._older = self._poll(url, "any")
        return client

    def registered(self) -> dict[str, str]:
        """The names of the authorizers that the service knows, each with its relay."""
        listed = json.loads(self._terminal.type("rescind authorizers list -o json 2>/dev/null"))
        return {each["name"]: each["relay"] for each in listed["authorizers"]}

    @contextmanager
    def stolen(self) -> Iterator[Stolen]:
        """Replace the relay by a thief, who has recorded what it answered."""
        old = self._poll(f"http://{HOST}:{self._port}", "any")
        self._relay.kill()
        served = self._folder / "served"
        stolen = Stolen(partial(self._poll, self._url, self._key), self._older, old, served)
        thief = self._started([sys.executable, "-c", _THIEF, str(self._port), str(served)], {})
        yield stolen
        thief.kill()

    def _started(self, command: list[str], settings: dict[str, str]) -> Group:
        log = self._folder / f"{self._port}.log"
        group = Group(command, log, partial(answers, self._port, 404), settings)
        group.start()
        self._stack.callback(group.kill)
        return group

    def _poll(self, url: str, key: str) -> bytes:
        headers = {"Authorization": f"Bearer {key}"}
        with urlopen(Request(f"{url}{_FEED}", headers=headers), timeout=30) as answer:
            found: Any = answer.read()
        return bytes(found)
