"""The list signer of a real server is rotated while clients follow it."""

import base64
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from shared.authorizer import events
from shared.authorizer.client import AuthorizerClient
from shared.authorizer.policy import PollPolicy
from shared.authorizer.saved_state import FileStateStore
from shared.authorizer.status import Verdict
from tests.infra.following import Server, soon

pytestmark = pytest.mark.slow

_CLIENTS: Final = 3
_KEYS: Final = "/revocations/srl/keys"
# Far below the default, so that a client that waits for anything is seen.
_POLICY: Final = PollPolicy(max_staleness=6, poll_seconds=0.2)


@pytest.fixture
def clients(
    server: Server, tmp_path: Path
) -> Iterator[list[tuple[AuthorizerClient, list[events.Event]]]]:
    """Clients that follow, each with its events after the start."""
    settings = server.client_settings() | {"url": server.url, "policy": _POLICY}
    with ExitStack() as stack:
        made = []
        for number in range(_CLIENTS):
            seen: list[events.Event] = []
            state = FileStateStore(tmp_path / f"state-{number}")
            client = AuthorizerClient(**settings, state=state, on_event=seen.append)
            stack.enter_context(client)
            seen.clear()
            made.append((client, seen))
        yield made


def test_no_client_is_stale_while_the_signer_is_rotated_twice(
    server: Server, clients: list[tuple[AuthorizerClient, list[events.Event]]]
) -> None:
    """F282a, FEED-9: Two rotations under load refuse no answer, and make no client stale.

    Each client refuses each acknowledged revocation, and follows the new signer.
    """
    with server.revoking(400) as acknowledged:
        for least in (100, 200):
            soon(lambda: len(acknowledged) > least)  # noqa: B023
            rotated = server.call("POST", f"{_KEYS}/rotate")
            assert rotated["statement"]
            assert {client.check(["svc_wrt_other"]) for client, _ in clients} == {Verdict.CLEAR}
    pin = base64.b64decode(server.call("GET", _KEYS)["keys"][0]["public_key"]).hex()
    for client, seen in clients:
        soon(lambda: all(client.check([each]) is Verdict.REVOKED for each in acknowledged))  # noqa: B023
        assert client.check(["svc_wrt_other"]) is Verdict.CLEAR
        assert client.status.signer == pin
        assert client.status.refusals == {}
        kinds = [type(each) for each in seen]
        assert events.BecameStale not in kinds
        assert 1 <= kinds.count(events.SignerChanged) <= 2
