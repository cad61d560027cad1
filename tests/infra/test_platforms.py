"""The files for container platforms. Nothing here can run them on their platforms."""

import json
import re
import shlex
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Final

import pytest
import yaml

from shared import wiring
from shared.adapters.postgresql_database import check_url
from tests.kit.processes import ROOT

_FILES: Final = ROOT / "infra/container"


@dataclass
class _Platform:
    """What a file says to its platform: settings, secrets by path, port, probes, arguments."""

    settings: dict[str, str]
    secrets: set[str]
    port: int
    probes: set[str]
    servers: int
    arguments: list[str]
    grace_seconds: int | None


def _cloud_run() -> _Platform:
    text = (_FILES / "cloud-run.sh").read_text()
    sql = "project:region:rescind"
    words = shlex.split(text[text.index("exec ") :].replace("\\\n", " ").replace("$sql", sql))
    options = [(name, value) for name, value in pairwise(words) if name.startswith("--")]
    told = dict(options)
    # Its threads would stand still between requests, and polls wait for up to 25 seconds.
    assert "--no-cpu-throttling" in words
    assert int(told["--timeout"]) >= 60
    assert told["--set-cloudsql-instances"] == sql
    pairs = [
        pair.split("=", maxsplit=1)
        for name, value in options
        if name == "--set-env-vars"
        for pair in value.split(",")
    ]
    secrets = {each.split("=")[0] for each in told["--set-secrets"].split(",")}
    probes = {told[f"--{each}-probe"].split(",")[0] for each in ("startup", "liveness")}
    return _Platform(
        settings=dict(pairs),
        secrets=secrets,
        port=int(told["--port"]),
        probes={each.removeprefix("httpGet.path=") for each in probes},
        servers=int(told["--min-instances"]),
        arguments=[],
        grace_seconds=None,
    )


def _container_apps() -> _Platform:
    properties = yaml.safe_load((_FILES / "container-apps.yaml").read_text())["properties"]
    template, configuration = properties["template"], properties["configuration"]
    (container,) = template["containers"]
    (volume,) = template["volumes"]
    (mount,) = container["volumeMounts"]
    assert mount["volumeName"] == volume["name"]
    kept = {each["name"] for each in configuration["secrets"]}
    assert {each["secretRef"] for each in volume["secrets"]} == kept
    ports = {each["httpGet"]["port"] for each in container["probes"]}
    assert ports == {configuration["ingress"]["targetPort"]}
    return _Platform(
        settings={each["name"]: each["value"] for each in container["env"]},
        secrets={f"{mount['mountPath']}/{each['path']}" for each in volume["secrets"]},
        port=configuration["ingress"]["targetPort"],
        probes={each["httpGet"]["path"] for each in container["probes"]},
        servers=template["scale"]["minReplicas"],
        arguments=container["args"],
        grace_seconds=template["terminationGracePeriodSeconds"],
    )


def _fly() -> _Platform:
    document = tomllib.loads((_FILES / "fly.toml").read_text())
    service = document["http_service"]
    (process,) = document["processes"]
    assert service["processes"] == [process]
    assert service["auto_stop_machines"] == "off"
    assert document["kill_signal"] == "SIGTERM"
    return _Platform(
        settings=document["env"],
        secrets={each["guest_path"] for each in document["files"]},
        port=service["internal_port"],
        probes={each["path"] for each in service["checks"]},
        servers=service["min_machines_running"],
        arguments=document["processes"][process].split(),
        grace_seconds=document["kill_timeout"],
    )


@pytest.fixture(params=[_cloud_run, _container_apps, _fly])
def platform(request: pytest.FixtureRequest) -> _Platform:
    found: _Platform = request.param()
    return found


def test_a_platform_serves_one_safe_database(platform: _Platform) -> None:
    """F658a: Servers on a platform share a database, and find their secrets where it puts them."""
    named = wiring.settings(platform.settings)
    check_url(f"{named.store.scheme}:{named.store.location}")
    assert (named.store.scheme, named.blobs.scheme) == ("postgresql", "postgresql")
    start = (_FILES / "start").read_text()
    (copies,) = re.findall(r"^copies=(.*)$", start, re.MULTILINE)
    # The image looks into /secrets, and into the folders in it.
    assert all(len(PurePath(each).relative_to("/secrets").parts) <= 2 for each in platform.secrets)
    names = {PurePath(each.removesuffix(".base64")).name for each in platform.secrets}
    looked = re.findall(rf"{copies}/([\w.]+)", json.dumps(platform.settings))
    assert set(looked) == names == {"master.key", "pgpass", "root.key"}


def test_a_platform_keeps_two_servers_that_run(platform: _Platform) -> None:
    """F658b: On each platform two servers run at all times, and are stopped in order."""
    image = (_FILES / "Dockerfile").read_text()
    assert platform.servers >= 2
    assert f"EXPOSE {platform.port}\n" in image
    assert platform.probes <= {"/healthz", "/readyz"}
    if platform.grace_seconds is not None:
        drain = int(platform.arguments[platform.arguments.index("--drain") + 1])
        assert platform.grace_seconds >= drain + 30


def test_each_file_is_in_the_page() -> None:
    """F658: and the page says what makes each of them right."""
    page = Path(ROOT / "docs/homes.md").read_text()
    for name in ("cloud-run.sh", "container-apps.yaml", "fly.toml"):
        (row,) = re.findall(rf"^\|.*\[`{name}`\].*$", page, re.MULTILINE)
        said = [each for each in re.findall("`([^`]*)`", row.split("|")[2]) if each != name]
        text = (_FILES / name).read_text()
        assert all(part in " ".join(text.split()) for part in _parts(said))


def _parts(said: list[str]) -> list[str]:
    return [part for each in said for part in re.split(r" (?=--)", each)]
