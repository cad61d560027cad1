"""The manifests for Kubernetes, held to the code and to the image that they run.

No cluster is at hand: nothing shows here that Kubernetes starts them.
"""

import re
import subprocess
from itertools import chain
from pathlib import PurePath
from typing import Any, Final

import pytest
import yaml

from shared import wiring
from shared.adapters.postgresql.database import check_url
from tests.kit.processes import ROOT

_BASE: Final = ROOT / "infra/kubernetes"
_KUSTOMIZATION: Final = yaml.safe_load((_BASE / "kustomization.yaml").read_text())
# What checkov asks for and does not get: the first two are an overlay's part; the processes share
# out the processor by themselves; a Job that only calls the database takes no requests.
_WAIVED: Final = "CKV_K8S_14,CKV_K8S_43,CKV_K8S_21,CKV_K8S_11,CKV2_K8S_6"


def _one(kind: str) -> dict[str, Any]:
    files = [(_BASE / each).read_text() for each in _KUSTOMIZATION["resources"]]
    documents = chain.from_iterable(map(yaml.safe_load_all, files))
    (found,) = (each for each in documents if each["kind"] == kind)
    return dict(found)


def _settings() -> dict[str, str]:
    (generator,) = _KUSTOMIZATION["configMapGenerator"]
    lines = [line for each in generator["envs"] for line in (_BASE / each).read_text().split()]
    return dict(line.split("=", maxsplit=1) for line in lines)


def _pods() -> list[dict[str, Any]]:
    return [_one(kind)["spec"]["template"]["spec"] for kind in ("Deployment", "Job")]


def _container(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod["containers"]
    return dict(found)


def test_the_pods_can_do_little() -> None:
    """F657a: Servers and setup run as the image's user, without rights and without a token."""
    text = (ROOT / "infra/container/Dockerfile").read_text()
    user, group = map(int, re.findall(r"^USER (.*)$", text, re.MULTILINE)[-1].split(":"))
    assert not _one("ServiceAccount")["automountServiceAccountToken"]
    for pod in _pods():
        assert not pod["automountServiceAccountToken"]
        rights = pod["securityContext"]
        assert rights.pop("seccompProfile") == {"type": "RuntimeDefault"}
        assert rights == {
            "runAsNonRoot": True,
            "runAsUser": user,
            "runAsGroup": group,
            "fsGroup": group,
        }
        assert _container(pod)["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_the_settings_are_those_of_the_code() -> None:
    """F657b: The settings name a database, with TLS and no password, that the servers share."""
    settings = _settings()
    named = wiring.settings(settings)
    check_url(f"{named.store.scheme}:{named.store.location}")
    assert (named.store.scheme, named.blobs.scheme) == ("postgresql", "postgresql")
    settings_of_ours = {each for each in settings if each.startswith("RESCIND_")}
    code = (ROOT / "shared/settings.py").read_text()
    assert all(f"`{each}`" in code for each in settings_of_ours)
    owner = _container(_pods()[1])["env"]
    assert [each["name"] for each in owner] == ["PGUSER"]
    assert owner[0]["value"] != settings["PGUSER"]
    assert _container(_pods()[1])["args"] == ["setup", "--role", settings["PGUSER"]]


def test_each_secret_is_where_the_settings_look() -> None:
    """F657c: The settings name copies of the files in the Secrets, where the image makes them."""
    start = (ROOT / "infra/container/start").read_text()
    (copies,) = re.findall(r"^copies=(.*)$", start, re.MULTILINE)
    looked = re.findall(rf"{copies}/([\w.]+)", " ".join(_settings().values()))
    servers, setup = ({each["name"]: each for each in pod["volumes"]} for pod in _pods())
    sources = [part["secret"] for part in setup["secrets"]["projected"]["sources"]]
    names = [item["path"] for secret in sources for item in secret["items"]]
    assert sorted(looked) == sorted(names)
    # Of one Secret all keys are files. Its owner's password is in another one.
    parts = [secret["name"] for secret in sources]
    assert servers["secrets"]["secret"]["secretName"] == parts[0] != parts[1]
    for pod in _pods():
        mounted = {each["name"]: each["mountPath"] for each in _container(pod)["volumeMounts"]}
        assert PurePath(mounted["tmp"]) in PurePath(copies).parents
        assert f"for file in {mounted['secrets']}/*" in start
        # The group of the user reads them; nobody else does.
        assert "defaultMode: 0440" in (_BASE / "deployment.yaml").read_text()


@pytest.mark.slow
def test_the_manifests_are_valid() -> None:
    """F657d: The schemas of Kubernetes accept each manifest, and so does checkov."""
    files = [str(_BASE / each) for each in _KUSTOMIZATION["resources"]]
    validate = f"{ROOT}/.tools/kubernetes/bin/kubernetes-validate"
    checkov = f"{ROOT}/.tools/checkov/bin/checkov"
    for command in (
        [validate, "--strict", *files],
        [checkov, "--framework", "kubernetes", "--skip-check", _WAIVED, "-f", *files],
    ):
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
