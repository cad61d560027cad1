"""Run AWS on this machine, for SAM local and for trials of the operator's commands.

    python -m tests.aws_local --port 4566 --host 127.0.0.1

Starts ministack, and creates in it the stack of `stateful.yaml` and the queues of `template.yaml`.
Ctrl-C stops it and deletes everything in it. With `--host 0.0.0.0`, containers can reach it, and
so can everyone else on the network.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import boto3

ROOT: Final = Path(__file__).parent.parent
STAGE: Final = "local"
# Those that functions fill.
QUEUES: Final = tuple(f"rescind-{STAGE}-{name}" for name in ("publication", "webhooks"))
_MINISTACK: Final = ROOT / ".tools" / "ministack" / "bin" / "ministack"
_REGION: Final = "eu-west-1"
_START_SECONDS: Final = 60
# Not a secret: anyone who can reach the port can do anything.
_CREDENTIALS: Final = {
    "AWS_ACCESS_KEY_ID": "000000000000",
    "AWS_SECRET_ACCESS_KEY": "local",
}


def main() -> int:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.aws_local", description=__doc__)
    parser.add_argument("--port", type=int, default=4566, help="default 4566")
    parser.add_argument("--host", default="127.0.0.1", help="default 127.0.0.1")
    arguments = parser.parse_args()
    with serving(arguments.port, host=arguments.host) as settings:
        print(f"AWS of this machine on port {arguments.port}. Ctrl-C stops it, and all is gone.")
        print("For the operator's commands, in another terminal:\n")
        for name, value in settings.items():
            print(f"export {name}={value}")
        print(flush=True)
        with suppress(KeyboardInterrupt):
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            signal.pause()
    return 0


def is_installed() -> bool:
    """Return whether `make .tools/ministack/.installed` has installed ministack."""
    return _MINISTACK.exists()


@contextmanager
def serving(
    port: int, *, host: str = "127.0.0.1", region: str = _REGION
) -> Iterator[dict[str, str]]:
    """Run AWS with the resources of the stage, and yield the environment for its clients."""
    process = subprocess.Popen(
        [_MINISTACK],
        env=os.environ | {"GATEWAY_PORT": str(port), "BIND_HOST": host, "LOG_LEVEL": "WARNING"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    endpoint = f"http://127.0.0.1:{port}"
    try:
        _wait_until_it_answers(endpoint, process)
        yield _deploy(endpoint, region)
    finally:
        process.terminate()
        process.wait()


def _wait_until_it_answers(endpoint: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{endpoint}/_ministack/health", timeout=1):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(
                    f"ministack does not answer at {endpoint}; is the port free?"
                ) from None
            time.sleep(0.1)


def _deploy(endpoint: str, region: str) -> dict[str, str]:
    """Create the stack of `stateful.yaml` and queues, and return the environment for clients."""
    session = boto3.Session(
        aws_access_key_id=_CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=_CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        region_name=region,
    )
    stacks = session.client("cloudformation", endpoint_url=endpoint)
    stacks.create_stack(
        StackName=f"rescind-{STAGE}-data",
        TemplateBody=(ROOT / "infra" / "stateful.yaml").read_text(),
        Parameters=[{"ParameterKey": "Stage", "ParameterValue": STAGE}],
    )
    stacks.get_waiter("stack_create_complete").wait(
        StackName=f"rescind-{STAGE}-data", WaiterConfig={"Delay": 1, "MaxAttempts": 30}
    )
    (stack,) = stacks.describe_stacks(StackName=f"rescind-{STAGE}-data")["Stacks"]
    outputs = {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}
    queues = session.client("sqs", endpoint_url=endpoint)
    publications, *_ = [queues.create_queue(QueueName=each)["QueueUrl"] for each in QUEUES]
    return _CREDENTIALS | {
        "AWS_DEFAULT_REGION": region,
        "AWS_ENDPOINT_URL": endpoint,
        "RESCIND_STORE": f"dynamodb:{outputs['TablePrefix']}",
        "RESCIND_BLOBS": f"s3:{outputs['BucketName']}",
        "RESCIND_KEY_WRAPPER": f"kms:{outputs['KeyAlias']}",
        "RESCIND_ROOT": f"kms:{outputs['RootKeyAlias']}",
        "RESCIND_QUEUE": f"sqs:{publications}",
    }


if __name__ == "__main__":
    sys.exit(main())
