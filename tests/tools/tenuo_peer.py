"""The classes of `tenuo` 0.3.3 as a witness, in an environment of its own (`.tools/tenuo`).

    python tests/tools/tenuo_peer.py lists < request.json > answer.json
    python tests/tools/tenuo_peer.py authorizer CONTROL_PLANE_URL API_KEY SIGNER SECONDS

`lists` gives an authorizer each history: the public key of the signer, and lists one after the
other. It answers for each list the version and the identifiers in it, or the name of the error.
`authorizer` registers at the service, and then does what a stock authorizer does: a heartbeat, the
list, and a decision about a warrant. It writes one line of JSON for each event.
"""

import base64
import json
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import tenuo_core as tenuo


def lists(histories: list[dict[str, Any]]) -> list[list[Any]]:
    return [_history(**each) for each in histories]


def _history(public_key: str, lists: list[str]) -> list[Any]:
    key = tenuo.PublicKey.from_bytes(bytes.fromhex(public_key))
    authorizer = tenuo.Authorizer(trusted_roots=[key])
    answers: list[Any] = []
    for body in lists:
        try:
            listed = _install(authorizer, key, json.loads(body))
        except Exception as error:  # noqa: BLE001 (whatever it refuses with)
            answers.append(type(error).__name__)
        else:
            answers.append([listed.version, sorted(listed.revoked_ids)])
    return answers


def _install(authorizer: Any, key: Any, answer: dict[str, Any]) -> Any:
    listed = tenuo.SignedRevocationList.from_bytes(base64.b64decode(answer["srl"]))
    listed.verify(key)
    authorizer.set_revocation_list(listed)
    assert listed.version == answer["version"]
    return listed


def authorizer(base: str, api_key: str, signer: str, seconds: float) -> None:
    """Run as the authorizer does, with the client that is in the wheel and the list loop beside it.

    The first trusted key is the native signer, and the second one a root of warrants.
    """
    root, holder = tenuo.SigningKey.generate(), tenuo.SigningKey.generate()
    key = tenuo.PublicKey.from_bytes(bytes.fromhex(signer))
    enforcing = tenuo.Authorizer(trusted_roots=[key, root.public_key])
    client = tenuo.ControlPlaneClient(
        url=base, api_key=api_key, authorizer_name="stock", heartbeat_interval_secs=int(seconds)
    )
    warrants = {name: _warrant(root, holder) for name in "012345"}
    _wait(lambda: client.authorizer_id)
    _say("registered", id=client.authorizer_id, warrants={n: w.id for n, w in warrants.items()})
    threading.Thread(
        target=_decide, args=(enforcing, warrants, holder, client), daemon=True
    ).start()
    while True:
        request = urllib.request.Request(
            f"{base}/v1/revocations/srl/signed", headers={"Authorization": f"Bearer {api_key}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            listed = _install(enforcing, key, json.load(answer))
        _say("list", version=listed.version, ids=listed.revoked_ids)
        time.sleep(seconds)


def _warrant(root: Any, holder: Any) -> Any:
    return tenuo.Warrant.issue(
        root, capabilities={"read": {}}, ttl_seconds=3600, holder=holder.public_key
    )


def _decide(enforcing: Any, warrants: dict[str, Any], holder: Any, client: Any) -> None:
    """Say each change of the decisions, for the client's receipts too."""
    seen: dict[str, str] = {}
    while True:
        for name, warrant in warrants.items():
            decision = _decision(enforcing, warrant, holder)
            if seen.get(name) != decision:
                seen[name] = decision
                _say("decision", warrant=name, decision=decision, at=time.time())
                _emit(client, warrant, decision)
        time.sleep(0.02)


def _decision(enforcing: Any, warrant: Any, holder: Any) -> str:
    signature = warrant.sign(holder, "read", {}, int(time.time()))
    try:
        enforcing.authorize_one(warrant, "read", {}, signature=bytes(signature))
    except Exception as error:  # noqa: BLE001 (whatever it refuses with)
        return type(error).__name__
    return "allowed"


def _emit(client: Any, warrant: Any, decision: str) -> None:
    common = (1, None, None, 5, "request", None)
    if decision == "allowed":
        client.emit_allow(warrant.id, "read", *common)
    else:
        client.emit_deny(warrant.id, "read", decision, None, *common)


def _wait(read: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 30
    while not read():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _say(event: str, **what: Any) -> None:
    # In one piece: its threads speak at the same time.
    sys.stdout.write(json.dumps({"event": event, **what}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] == "lists":
        json.dump(lists(json.load(sys.stdin)), sys.stdout)
    else:
        authorizer(sys.argv[2], sys.argv[3], sys.argv[4], float(sys.argv[5]))
