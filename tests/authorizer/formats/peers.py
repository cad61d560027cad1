"""`cwt`, a COSE library that shares no code with this project, in a process of its own."""

import base64
from typing import Any

from shared.model import seeds
from tests.kit.peers import asked

SEED = bytes(range(32))
PUBLIC_KEY = base64.b64decode(seeds.public_key(SEED))
TENANT = "svc_tnt_01m7yzmhg014scvmqfzcb3mfmb"
KEY = "svc_key_01m7yzmhg014scvmqfzcb3mfmg"


def peer(command: str, **request: Any) -> Any:
    """What the library answers."""
    material = {"public_key": PUBLIC_KEY.hex(), "kid": f"{KEY}#1".encode().hex()}
    return asked("cose", "cwt_peer.py", material | request, command)
