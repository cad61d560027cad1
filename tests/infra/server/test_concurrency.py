"""Many callers, several worker processes and sudden death on one data folder."""

import random
import sys
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Final

import pytest

from infra import data_folder
from shared.operations.base import tenants
from tests.infra.crowd import HANDLE, Crowd
from tests.infra.folders import opened
from tests.infra.publisher import check_published, end, publishing
from tests.kit.processes import HOST, Group, answers, free_port

_VICTIMS: Final = ["worker"] * 4 + ["server", "publisher"] * 3

# Many processes, or many requests: part of `make test-all`.
pytestmark = pytest.mark.slow


def test_nothing_acknowledged_is_lost_if_a_process_is_killed(tmp_path: Path) -> None:
    """F01, F03, F31: workers, publisher or all of them killed at random, over and over."""
    data, port = tmp_path / "data", free_port()
    options = ["--port", str(port), "--data", str(data), "--workers", "2"]
    server = Group(
        [sys.executable, "-m", "infra.cli.operator.serve", *options],
        tmp_path / "server.log",
        lambda: answers(port, HTTPStatus.UNAUTHORIZED),
    )
    with ExitStack() as stack:
        stack.callback(server.kill)
        server.start()
        publisher = publishing(tmp_path, HANDLE, data_folder.environment(data))
        stack.callback(publisher.kill)
        publisher.start()
        crowd = Crowd(f"http://{HOST}:{port}", (data / "admin.key").read_text().strip())
        with crowd.working():
            for victim in random.sample(_VICTIMS, len(_VICTIMS)):
                crowd.wait_for(random.randint(50, 350), lambda crowd: crowd.acknowledged)
                if victim == "worker":
                    server.kill_worker(random.randrange(2))
                else:
                    group = server if victim == "server" else publisher
                    group.kill()
                    group.start()
            crowd.wait_for(100, lambda crowd: crowd.acknowledged)
        end(publisher)
        assert publisher.killed == _VICTIMS.count("publisher") + 1, "it has ended by itself"
        print(f"{server.killed + publisher.killed} processes killed, {crowd.figures()}")
        # Nothing is in flight any more whose caller has gone.
        server.kill()
        server.start()
        with opened(data) as ports:
            crowd.check(ports)
            check_published(publisher, ports, tenants.find(ports, HANDLE).tenant_id)
