"""The files for container platforms. Nothing here can run them on their platforms."""

import json
import re
import shlex
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath
from typing import Final

import pytest
import yaml

from shared import wiring
from shared.adapters.postgresql.database import check_url
from tests.kit.processes import ROOT

_FILES: Final = ROOT / "infra/container"


@dataclass
class _Platform:
    """What a file says to its platform: the settings, and where it puts the secrets."""

    settings: dict[str, str]
    secrets: set[str]


def _cloud_run() -> _Platform:
    text = (_FILES / "cloud-run.sh").read_text()
    words = shlex.split(text[text.index("exec ") :].replace("\\\n", " "))
    options = [(name, value) for name, value in pairwise(words) if name.startswith("--")]
    # Its threads would stand still between requests, and polls wait for up to 25 seconds.
    assert "--no-cpu-throttling" in words
    assert int(dict(options)["--timeout"]) >= 60
    pairs = [
        pair.split("=", maxsplit=1)
        for name, value in options
        if name == "--set-env-vars"
        for pair in value.split(",")
    ]
    secrets = {each.split("=")[0] for each in dict(options)["--set-secrets"].split(",")}
    return _Platform(dict(pairs), secrets)


def _container_apps() -> _Platform:
    properties = yaml.safe_load((_FILES / "container-apps.yaml").read_text())["properties"]
    (container,), (volume,) = (properties["template"][each] for each in ("containers", "volumes"))
    (mount,) = container["volumeMounts"]
    kept = {each["name"] for each in properties["configuration"]["secrets"]}
    assert {each["secretRef"] for each in volume["secrets"]} == kept
    settings = {each["name"]: each["value"] for each in container["env"]}
    return _Platform(
        settings, {f"{mount['mountPath']}/{each['path']}" for each in volume["secrets"]}
    )


def _fly() -> _Platform:
    document = tomllib.loads((_FILES / "fly.toml").read_text())
    return _Platform(document["env"], {each["guest_path"] for each in document["files"]})


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
