"""Build the artefact that Lambda runs: one folder for all functions (`make build`).

The artefact contains `functions/`, `shared/` and the wheels of `requirements.lock` for Lambda's
platform. The same inputs give the same bytes on any machine. If a build fails, the previous
artefact is kept. docs/adr/22-aws.md gives the reasons.

Exit codes: 0 done, 1 failed, 2 wrong usage.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile

from infra import environment
from shared.artefact import TARGET_FILE

ROOT: Final = Path(__file__).parent.parent

# The services that the adapters call. botocore has some four hundred.
SERVICES: Final = frozenset({"dynamodb", "kms", "s3", "sqs"})

# The same values as parameters of the template, for `sam --parameter-overrides file://…` (YAML).
PARAMETERS_FILE: Final = "parameters.yaml"

# Template parameters that become settings of all functions. SAM publishes a new version if the code
# or the text of the template changes, but not if only a parameter changes. The artefact must
# therefore change with these parameters.
SETTINGS: Final = frozenset(
    {"BasePath", "Mode", "OperationMetrics", "RestoredAs", "TrustedProxies", "Witnesses"}
)

_SOURCES: Final = ("functions", "shared")
_PLATFORMS: Final = {"arm64": "aarch64-manylinux_2_28", "x86_64": "x86_64-manylinux_2_28"}

# The folder into which Lambda unpacks the artefact, for paths in tracebacks.
_TASK_ROOT: Final = "/var/task"

# Package files that no function reads. `boto3/docs` and `botocore/docs` are code.
_UNUSED: Final = (
    ".lock",
    "bin",
    "boto3/data",
    "boto3/examples",
    "botocore/data/*/*/examples-1.json*",
    "**/__pycache__",
    "**/tests",
    "**/*.pyi",
    "**/py.typed",
)
# Source files that no function reads. The relay needs packages that the artefact lacks.
_UNUSED_SOURCES: Final = shutil.ignore_patterns("__pycache__", "py.typed", "relay", ".*")
# Files that importlib.metadata and vulnerability scanners read. Licences are kept too.
_METADATA: Final = frozenset({"METADATA", "entry_points.txt", "sboms"})
_LICENCES: Final = ("licen", "copying", "notice", "authors")

# The earliest time that a zip file can store in every time zone: 2 January 1980.
_MOMENT: Final = 315_619_200


class BuildFailed(Exception):
    """No artefact was built. The message contains the reason."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target of the artefact: a Lambda architecture, a Python version, and settings.

    `parameters` contains parameters of `template.yaml` that become settings of the functions, by
    name. Other parameters keep their deployed values (docs/adr/22).
    """

    architecture: str = "arm64"
    python: str = "3.13"
    parameters: Mapping[str, str] = field(default_factory=dict)

    def write(self, app: Path) -> None:
        """Write the target into the artefact, for `shared.artefact` and for SAM."""
        (app / TARGET_FILE).write_text(json.dumps(asdict(self)) + "\n")
        parameters = {"Architecture": self.architecture} | dict(self.parameters)
        # JSON is valid YAML.
        (app / PARAMETERS_FILE).write_text(json.dumps(parameters) + "\n")


def main() -> int:
    """Build once and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m infra.build",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--architecture", choices=sorted(_PLATFORMS), default="arm64")
    parser.add_argument("--python", default="3.13", metavar="VERSION", help="Lambda's runtime")
    parser.add_argument(
        "--parameter",
        action="append",
        type=_parameter,
        default=[],
        metavar="NAME=VALUE",
        help=f"template.yaml parameter to change with this artefact: {', '.join(sorted(SETTINGS))}",
    )
    parser.add_argument("--output", type=Path, default=Path(".build/app"), metavar="FOLDER")
    parser.add_argument(
        "--interpreter",
        metavar="PATH",
        help="interpreter that compiles the bytecode; requires the version of --python",
    )
    arguments = parser.parse_args()
    target = Target(arguments.architecture, arguments.python, dict(arguments.parameter))
    try:
        build(arguments.output, target, interpreter=arguments.interpreter)
    except BuildFailed as error:
        print(f"not built: {error}", file=sys.stderr)
        return 1
    unzipped, zipped = (size / 1e6 for size in _sizes(arguments.output))
    print(f"{arguments.output}: {unzipped:.1f} MB, {zipped:.1f} MB zipped")
    return 0


def build(
    output: Path, target: Target, *, interpreter: str | None = None, root: Path = ROOT
) -> None:
    """Build the artefact from the sources in `root`, and replace the artefact at `output`.

    `interpreter` is a Python of the target's version that compiles the bytecode. By default, an
    interpreter is searched. Raises `BuildFailed`.
    """
    if output.exists() and not (output / TARGET_FILE).is_file():
        raise BuildFailed(f"{output} is no artefact, and is not replaced")
    version = target.python
    compiler = _of_version(interpreter, version) if interpreter else find_python(version)
    if interpreter and compiler is None:
        raise BuildFailed(f"{interpreter} is no Python {version}, which would ignore its bytecode")
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{output.name}-", dir=output.parent) as folder:
        new, old = Path(folder, "new"), Path(folder, "old")
        print(f"Installing wheels for {target.architecture}, Python {version}", flush=True)
        new.mkdir()
        install(root / "requirements.lock", new, target)
        _remove_unused_files(new)
        for name in _SOURCES:
            shutil.copytree(root / name, new / name, ignore=_UNUSED_SOURCES)
        target.write(new)
        if compiler is None:
            print(
                f"No python{version} on PATH, so bytecode is left out: each cold start compiles "
                "every module, which takes seconds. --interpreter names one.",
                file=sys.stderr,
            )
        else:
            print(f"Compiling with {compiler}", flush=True)
            add_bytecode(new, compiler)
        # The same times and modes make builds reproducible, and the files readable for Lambda.
        for path in (new, *new.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
            os.utime(path, (_MOMENT, _MOMENT))
        if output.exists():
            output.rename(old)
        new.rename(output)


def install(lock: Path, folder: Path, target: Target) -> None:
    """Install the packages of a lock file into `folder`, for the target. Raises `BuildFailed`."""
    options = ["--python-platform", _PLATFORMS[target.architecture]]
    options += ["--python-version", target.python, "--only-binary", ":all:"]
    # The build changes the files, so they must not be links into uv's cache.
    options += ["--no-compile-bytecode", "--link-mode", "copy", "--target", str(folder)]
    uv = [sys.executable, "-m", "uv"]
    try:
        environment.install(uv, lock, ["--python", sys.executable, *options])
    except environment.CannotInstall as error:
        raise BuildFailed(str(error)) from None


def add_bytecode(folder: Path, compiler: str) -> None:
    """Compile bytecode next to the sources, which are kept for tracebacks."""
    # Zip files round times, and Lambda's file system shows different times. Bytecode with
    # timestamps would therefore be recompiled at each cold start.
    options = ["--invalidation-mode", "unchecked-hash", "-o", "0"]
    paths = ["-s", str(folder), "-p", _TASK_ROOT]
    compileall = [compiler, "-I", "-W", "ignore", "-m", "compileall", "-q", "-j", "0"]
    done = subprocess.run(  # noqa: S603 (an interpreter that `build` has checked)
        [*compileall, *options, *paths, str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildFailed(f"{done.stdout}{done.stderr}".strip())


def find_python(version: str) -> str | None:
    """Return the path of an interpreter of this version: the running one, or one on PATH."""
    paths = (_of_version(name, version) for name in (sys.executable, f"python{version}"))
    return next(filter(None, paths), None)


def _remove_unused_files(app: Path) -> None:
    """Remove package files that no function reads."""
    services = app.glob("botocore/data/*/")
    _remove(each for each in services if each.is_dir() and each.name not in SERVICES)
    for pattern in _UNUSED:
        _remove(app.glob(pattern))
    for endpoints in app.glob("botocore/data/endpoints.json"):
        # Each new client reads the whole file, so keep it small.
        content = json.loads(endpoints.read_text())
        for partition in content["partitions"]:
            used = SERVICES & partition["services"].keys()
            partition["services"] = {name: partition["services"][name] for name in sorted(used)}
        endpoints.write_text(json.dumps(content))
    for path in list(app.glob("*.dist-info/*")):
        if path.name not in _METADATA and not path.name.lower().startswith(_LICENCES):
            _remove([path])


def _remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _of_version(interpreter: str, version: str) -> str | None:
    """Return the path of the interpreter if it is CPython of this version, else None."""
    script = "import sys; print(sys.implementation.cache_tag, sys.executable)"
    # pyenv's wrappers on PATH start a version only if it is named.
    variables = os.environ | {"PYENV_VERSION": version}
    try:
        output = subprocess.check_output(  # noqa: S603 (on PATH, or of the caller's choice)
            [interpreter, "-I", "-c", script], env=variables, stderr=subprocess.DEVNULL, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    tag, path = output.rstrip("\n").split(" ", 1)
    return path if tag == f"cpython-{version.replace('.', '')}" else None


def _sizes(app: Path) -> tuple[int, int]:
    """Return the size of the artefact in bytes, unzipped and zipped.

    Lambda's limit is 250 MB unzipped.
    """
    files = [path for path in sorted(app.rglob("*")) if path.is_file()]
    with tempfile.TemporaryFile() as archive:
        with ZipFile(archive, "w", ZIP_DEFLATED) as zipped:
            for path in files:
                zipped.write(path, path.relative_to(app))
        return sum(path.stat().st_size for path in files), archive.tell()


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or name not in SETTINGS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(sorted(SETTINGS))}")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
