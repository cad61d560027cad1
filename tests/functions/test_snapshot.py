"""What a function holds when Lambda takes a snapshot of it, and what it does once restored."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Final

import pytest

from tests.kit.processes import HOST, run

pytestmark = pytest.mark.slow

_SETTINGS: Final = {
    "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start",
    "AWS_LAMBDA_FUNCTION_NAME": "rescind-test-srl",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_EC2_METADATA_DISABLED": "true",
    "RESCIND_STORE": "dynamodb:rescind-test-",
    "RESCIND_BLOBS": "s3:rescind-test-blobs",
    "RESCIND_KEY_WRAPPER": "kms:alias/rescind-test",
    "RESCIND_STAGE": "test",
}

# After the snapshot, the token for credentials may be another, and the credentials may be old.
_PROGRAM: Final = """
import json, os, socket, sys
from botocore.session import Session
made, make = [], Session.create_client
Session.create_client = lambda self, name, **more: (made.append(name), make(self, name, **more))[1]
from functions.feed import handler
from shared import wiring
from shared.capabilities import INSTALLED
loaded = set(sys.modules)
_ = INSTALLED.log
from functions.authorizers import registrations
new = sorted(each for each in set(sys.modules) - loaded if each.startswith("functions"))
early = list(made)
links = [os.path.join("/proc/self/fd", each) for each in os.listdir("/proc/self/fd")]
sockets = [each for each in links if os.path.exists(each) and "socket" in os.readlink(each)]
families = [socket.socket(fileno=os.dup(int(os.path.basename(each)))).family for each in sockets]
connections = [each for each in families if each in (socket.AF_INET, socket.AF_INET6)]
os.environ["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "restored"
(ports,) = wiring._made_early
url = ports.blobs.url("srl/list", ttl_seconds=60)
late = made[len(early):]
print(json.dumps([sorted(set(early)), late, len(connections), url, new]))
"""


class _Credentials(BaseHTTPRequestHandler):
    """Lambda's endpoint for credentials; they are named after the token that asked for them."""

    def do_GET(self) -> None:
        asked_by = self.headers["Authorization"]
        minutes = {"initial": 1, "restored": 60}[asked_by]
        expires = datetime.now(UTC) + timedelta(minutes=minutes)
        body = json.dumps(
            {
                "AccessKeyId": f"AKIA{asked_by.upper()}",
                "SecretAccessKey": "pretended",
                "Token": "pretended",
                "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        """Say nothing."""


@contextmanager
def _credentials() -> Iterator[dict[str, str]]:
    with HTTPServer((HOST, 0), _Credentials) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://{HOST}:{server.server_port}/",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "initial",
        }
        server.shutdown()
        thread.join()


def test_the_clients_are_in_the_snapshot_and_their_credentials_are_renewed() -> None:
    """F107a: A Lambda snapshot contains the AWS clients, and their credentials are renewed.

    It also contains the modules that the first poll needs.
    """
    with _credentials() as endpoint:
        ran = run("-c", _PROGRAM, settings=_SETTINGS | endpoint)
    assert ran.returncode == 0, ran.stderr
    early, late, connections, url, new = json.loads(ran.stdout)
    assert (early, late, connections, new) == (["dynamodb", "kms", "s3"], [], 0, [])
    assert "AKIARESTORED" in url
