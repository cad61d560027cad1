"""The artefact that `make build` stages: what is in it, what is not, and that builds are alike."""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path

import pytest

from infra import build
from infra.build import BuildFailed, Target
from tests.kit.artefact import Artefact, built, built_for_lambda
from tests.kit.processes import ROOT
from tests.kit.surroundings import with_proxies

# Builds: part of `make test-all`.
pytestmark = pytest.mark.slow

RELAY = ROOT / "shared" / "authorizer" / "relay"
# The sources of the functions: all but the relay, which runs by itself.
SOURCES = [
    path
    for folder in ("functions", "shared")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if RELAY not in path.parents
]
# These need an extra of the package, and are not chosen on AWS.
_OF_EXTRAS = ("azure", "pkcs11", "postgresql")
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in SOURCES
    if path.parent.name not in _OF_EXTRAS
]
# A fifth above what it was when it was measured, in bytes; Lambda takes 250 MB.
SIZE_BOUND = 50_000_000
AARCH64 = 0xB7

# Tells what bytecode is missing, is not what Lambda would take unchecked and be right, or is more.
STALE = """
import importlib.util, pathlib, sys
folder = pathlib.Path(sys.argv[1])
made = set(folder.rglob("*.pyc"))
for source in folder.rglob("*.py"):
    expected = pathlib.Path(importlib.util.cache_from_source(source))
    unchecked = importlib.util.MAGIC_NUMBER + b"\\1\\0\\0\\0"
    header = unchecked + importlib.util.source_hash(source.read_bytes())
    if expected not in made or expected.read_bytes()[:16] != header:
        print(source)
    made.discard(expected)
print(*made, sep="\\n", end="")
"""


@pytest.fixture(autouse=True)
def proxies() -> Iterator[None]:
    """A build may download."""
    with with_proxies():
        yield


@pytest.fixture(scope="session")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    return built(tmp_path_factory)


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_for_lambda(tmp_path_factory)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Sources of one module each, which depend on nothing; one has been run by Python 3.11."""
    for name in ("functions", "shared"):
        (tmp_path / "tree" / name).mkdir(parents=True)
        (tmp_path / "tree" / name / "module.py").write_text("VALUE = 1\n")
    stale = tmp_path / "tree" / "shared" / "__pycache__" / "module.cpython-311.pyc"
    stale.parent.mkdir()
    stale.write_bytes(b"stale")
    (tmp_path / "tree" / "requirements.lock").touch()
    return tmp_path / "tree"


def test_every_module_can_be_imported_from_the_artefact_alone(artefact: Artefact) -> None:
    """A fresh interpreter with the artefact and Python's library imports handlers and adapters."""
    assert {"functions.srl.handler", "shared.adapters.aws.s3"} <= set(MODULES)
    imports = "".join(f"import {module}\n" for module in MODULES)
    assert _run(artefact, imports) == ""


def test_a_client_of_every_service_in_use_can_be_made(artefact: Artefact) -> None:
    """botocore finds in the artefact the description of each service that an adapter names."""
    adapters = "".join(path.read_text() for path in ROOT.glob("shared/adapters/aws/*.py"))
    services = set(re.findall(r'clients\.connect\(\s*"(\w+)"', adapters))
    assert services == build.SERVICES
    connects = "".join(
        f"connect({name!r}, region='eu-west-1', endpoint_url=None)\n" for name in services
    )
    assert _run(artefact, f"from shared.adapters.aws.clients import connect\n{connects}") == ""


def test_a_client_calls_the_address_that_it_would_call_otherwise(artefact: Artefact) -> None:
    """In each of AWS's partitions, and in a region that botocore does not know yet."""
    regions = ["eu-west-1", "us-east-1", "cn-north-1", "us-gov-west-1", "eu-central-9"]
    clients = (
        "import botocore.session\n"
        "session = botocore.session.Session()\n"
        f"for service in {sorted(build.SERVICES)}:\n"
        f"    for region in {regions}:\n"
        "        client = session.create_client(service, region_name=region)\n"
        "        meta = client.meta\n"
        "        print(service, region, meta.endpoint_url, meta.config.signature_version)\n"
    )
    printed = _run(artefact, clients)
    assert printed.count("https://") == len(build.SERVICES) * len(regions)
    otherwise = subprocess.run(
        [sys.executable, "-I", "-c", clients], capture_output=True, text=True, check=True
    )
    assert printed == otherwise.stdout


def test_the_sources_are_those_of_the_repository(deployed: Path) -> None:
    """`functions` and `shared` without the relay are in it as they are, nothing else of ours."""
    for name in ("functions", "shared"):
        staged = {path.relative_to(deployed): path for path in (deployed / name).rglob("*.py")}
        ours = {path.relative_to(ROOT): path for path in SOURCES if ROOT / name in path.parents}
        assert staged.keys() == ours.keys()
        assert all(path.read_bytes() == ours[each].read_bytes() for each, path in staged.items())
    sent, pages = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*.*")}
        for root in (each / "functions" / "console" / "static" for each in (ROOT, deployed))
    )
    assert pages == sent
    for name in ("infra", "tests", "docs", "bin", "template.yaml", "pyproject.toml"):
        assert not (deployed / name).exists()


def test_every_licence_is_kept(deployed: Path) -> None:
    """Each licence file that a package names in its metadata lies beside that."""
    packages = list(deployed.glob("*.dist-info"))
    lock = (ROOT / "requirements.lock").read_text()
    assert len(packages) == len(re.findall(r"^\S+==", lock, re.MULTILINE))
    named = []
    for package in packages:
        metadata = HeaderParser().parsestr((package / "METADATA").read_text())
        for name in metadata.get_all("License-File", []):
            beside = package / name
            named.append(beside if beside.exists() else package / "licenses" / name)
    assert named
    assert [path for path in named if not path.is_file()] == []


def test_every_module_has_bytecode_that_is_not_checked(artefact: Artefact) -> None:
    """Each module has bytecode of its source, of the right version, that is taken as it is."""
    assert _run(artefact, STALE) == ""


def test_the_deployed_libraries_are_of_its_platform(deployed: Path) -> None:
    """Every native library is for aarch64, and for this version of Python or any."""
    libraries = list(deployed.rglob("*.so*"))
    assert libraries
    for path in libraries:
        header = path.read_bytes()[:20]
        assert (header[:4], int.from_bytes(header[18:20], "little")) == (b"\x7fELF", AARCH64)
        assert re.search(r"\.(abi3|cpython-313-aarch64-linux-gnu)\.so$", path.name), path


def test_it_is_small_and_readable_by_all(deployed: Path) -> None:
    """It stays well within Lambda's limit, and Lambda's own user can read all of it."""
    files = [path for path in deployed.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < SIZE_BOUND
    assert {path.stat().st_mode & 0o777 for path in files} == {0o644}


def test_the_same_inputs_make_the_same_artefact(
    deployed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """S8: The same sources make the same artefact, byte for byte."""
    again = tmp_path / "again"
    monkeypatch.setattr(sys, "argv", ["build", "--output", str(again)])
    assert build.main() == 0
    assert dict(_files(again)) == dict(_files(deployed))
    assert re.search(r"again: \d+\.\d MB, \d+\.\d MB zipped\n$", capsys.readouterr().out)


def test_a_build_replaces_the_one_before_and_adds_nothing_else(tree: Path, tmp_path: Path) -> None:
    """What is gone from the sources is gone from the artefact; the sources stay as they were."""
    output = tmp_path / "out" / "app"
    build.build(output, Target(), root=tree)
    (tree / "shared" / "module.py").rename(tree / "shared" / "renamed.py")
    before = sorted(tree.rglob("*"))
    build.build(output, Target(), root=tree)
    assert [path.name for path in (output / "shared").glob("*.py")] == ["renamed.py"]
    assert json.loads((output / "target.json").read_text()) == {
        "architecture": "arm64",
        "python": "3.13",
        "parameters": {},
    }
    assert not list(output.rglob("*.cpython-311.pyc"))
    assert sorted(tree.rglob("*")) == before
    assert list(output.parent.iterdir()) == [output]


def test_the_artefact_names_its_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F105: what was given to the build is in the artefact, for the template that is deployed."""
    given = ["--architecture", "x86_64", "--output", str(tmp_path / "app")]
    monkeypatch.setattr(sys, "argv", ["build", *given, "--parameter", "RestoredAs=r1-"])
    assert build.main() == 0
    # JSON, which is YAML too.
    parameters = json.loads((tmp_path / "app" / "parameters.yaml").read_text())
    assert parameters == {"Architecture": "x86_64", "RestoredAs": "r1-"}


def test_a_parameter_of_no_function_is_no_part_of_the_artefact(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """F105: a misspelt name, or one that changes no function, is refused and nothing is built."""
    for given in ("Stage=prod", "RestoredAs"):
        monkeypatch.setattr(sys, "argv", ["build", "--parameter", given])
        with pytest.raises(SystemExit):
            build.main()
        assert (
            f"'{given}' is none of BasePath, Mode, OperationMetrics, RestoredAs, TrustedProxies"
            in capsys.readouterr().err
        )


def test_a_failed_build_leaves_the_artefact_before_it(tree: Path, tmp_path: Path) -> None:
    """S8: A build refuses a dependency without a hash and keeps the artefact before it."""
    output = tmp_path / "out" / "app"
    build.build(output, Target(), root=tree)
    before = dict(_files(output))
    (tree / "requirements.lock").write_text("six==1.17.0\n")
    with pytest.raises(BuildFailed, match="hash"):
        build.build(output, Target(), root=tree)
    assert dict(_files(output)) == before
    assert list(output.parent.iterdir()) == [output]


def test_a_folder_that_is_no_artefact_is_not_replaced(tree: Path) -> None:
    """An output that names anything but an earlier artefact is refused before it is touched."""
    before = dict(_files(tree))
    with pytest.raises(BuildFailed, match="is no artefact"):
        build.build(tree, Target(), root=tree)
    assert dict(_files(tree)) == before


def _run(artefact: Artefact, code: str, folder: Path | None = None) -> str:
    """What the code prints in a fresh interpreter that sees the folder and Python's library."""
    place = folder or artefact.task
    seen = f"import sys\nsys.path.insert(0, {str(place)!r})\n{code}"
    # -B: the artefact is shared, and compared.
    done = subprocess.run(
        [artefact.interpreter, "-I", "-S", "-B", "-c", seen, str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _files(folder: Path) -> Iterator[tuple[str, tuple[str, int, int]]]:
    """Path, content, mode and time of every file."""
    for path in folder.rglob("*"):
        if path.is_file():
            status = path.stat()
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            yield str(path.relative_to(folder)), (content, status.st_mode, status.st_mtime_ns)
