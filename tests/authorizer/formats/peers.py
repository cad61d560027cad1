"""`cwt`, a COSE library that shares no code with this project, in a process of its own."""

import base64
import json
import subprocess
from typing import Any

from shared.model import seeds
from tests.kit.processes import ROOT

SEED = bytes(range(32))
PUBLIC_KEY = base64.b64decode(seeds.public_key(SEED))
TENANT = "svc_tnt_01m7yzmhg014scvmqfzcb3mfmb"
KEY = "svc_key_01m7yzmhg014scvmqfzcb3mfmg"


def peer(command: str, **request: Any) -> Any:
    """What the library answers."""
    python = ROOT / ".tools/cose/bin/python"
    assert python.exists(), f"{python} is missing; `make test-slow` installs it"
    material = {"public_key": PUBLIC_KEY.hex(), "kid": f"{KEY}#1".encode().hex()}
    answered = subprocess.run(
        [python, ROOT / "tests/tools/cwt_peer.py", command],
        input=json.dumps(material | request),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answered.returncode == 0, answered.stderr
    return json.loads(answered.stdout)
