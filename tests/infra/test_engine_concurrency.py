"""Several processes on one DynamoDB that dies under them: a real engine, from its own package."""

import os
import random
import sys
from contextlib import ExitStack, closing
from http import HTTPStatus
from pathlib import Path
from typing import Final

import pytest

from infra import data_folder
from shared import wiring
from shared.adapters import dynamodb
from shared.operations.operator import onboarding
from tests.infra.crowd import HANDLE, Crowd
from tests.infra.engine import MARKS, the_engine
from tests.infra.publisher import check_published, end, publishing
from tests.kit.aws import create_tables, pretend_credentials, table_prefix
from tests.kit.processes import HOST, Group, answers, free_port

_STAGE: Final = "engine"
_VICTIMS: Final = ["engine"] * 2 + ["worker"] * 2 + ["server", "publisher"]
_WRITERS: Final = 5

pytestmark = MARKS


def _server(folder: Path, settings: dict[str, str]) -> tuple[Group, str]:
    port = free_port()
    options = ["--host", HOST, "--port", str(port), "--workers", "2", "--lifespan", "off"]
    # A worker that a busy machine has not started yet is not to be killed for it.
    options += ["--timeout-worker-healthcheck", "120"]
    command = [sys.executable, "-m", "uvicorn", "infra.server.app:app", *options]
    group = Group(
        [*command, "--log-level", "warning"],
        folder / "server.log",
        lambda: answers(port, HTTPStatus.UNAUTHORIZED),
        settings,
    )
    return group, f"http://{HOST}:{port}"


def _settings(folder: Path, endpoint: str, environment: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of all processes, this one too, once there are tables and a master key."""
    pretend_credentials(environment)
    environment.setenv("AWS_ENDPOINT_URL", endpoint)
    with closing(dynamodb.connect()) as client:
        create_tables(client, stage=_STAGE)
    data_folder.prepare(folder / "data")
    places = data_folder.environment(folder / "data")
    places["SVC_STORE"] = f"dynamodb:{table_prefix(_STAGE)}"
    return places | {name: os.environ[name] for name in os.environ if name.startswith("AWS_")}


def test_nothing_acknowledged_is_lost_if_a_process_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F22, F24, F31: the engine itself among the dead; until it is back, callers get 503."""
    engine, endpoint = the_engine(tmp_path)
    with ExitStack() as stack:
        stack.callback(engine.kill)
        engine.start()
        settings = _settings(tmp_path, endpoint, monkeypatch)
        ports = wiring.build(wiring.settings(settings))
        tenant, admin = onboarding.create_tenant(ports, handle=HANDLE)
        server, url = _server(tmp_path, settings)
        publisher = publishing(tmp_path, HANDLE, settings)
        groups = {"engine": engine, "server": server, "publisher": publisher}
        for group in (server, publisher):
            stack.callback(group.kill)
            group.start()
        crowd = Crowd(url, admin.secret, forgetful=True)
        with crowd.working(writers=_WRITERS):
            for victim in random.sample(_VICTIMS, len(_VICTIMS)):
                crowd.wait_for(random.randint(20, 150), lambda crowd: crowd.acknowledged)
                if victim == "worker":
                    server.kill_worker(random.randrange(2))
                    continue
                groups[victim].kill()
                if victim == "engine":
                    crowd.wait_for(1, lambda crowd: crowd.refused)
                groups[victim].start()
            crowd.wait_for(100, lambda crowd: crowd.acknowledged)
        end(publisher)
        assert publisher.killed == _VICTIMS.count("publisher") + 1, "it has ended by itself"
        killed = sum(group.killed for group in groups.values())
        # Nothing is in flight any more whose caller has gone.
        server.kill()
        server.start()
        print(f"{killed} processes killed, {crowd.figures()}")
        crowd.check(ports)
        # At most the write in flight of each writer, each time.
        assert len(crowd.repeated) <= _VICTIMS.count("engine") * _WRITERS, crowd.repeated
        check_published(publisher, ports, tenant.tenant_id)
