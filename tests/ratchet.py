"""Figures of the code that may fall, and grow only on purpose.

`python -m tests.ratchet` prints each beside the one in `tests/ratchet.json`, and fails if one has
grown; with `--write` it keeps the new ones. Either take something away, or keep the larger figure
and say why in the commit.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import grimp

from shared.operations.base import operation
from shared.operations.changes import revocations
from shared.operations.lists import publication
from shared.ports import Ports
from tests import dialect
from tests.kit.calls import gathered
from tests.kit.intercepted import Call, Intercepted
from tests.kit.processes import ROOT
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock, close, embedded

Figures = dict[str, int]

KEPT: Final = ROOT / "tests" / "ratchet.json"

_ROOMS: Final = ("functions", "infra", "shared")
# The languages of the product beside Python, and folders in it that are not ours.
_SUFFIXES: Final = frozenset({".css", ".go", ".js", ".ts"})
_FOREIGN: Final = frozenset({"dist", "node_modules", "vendor"})
# The functions that the contract names. What they import is the core.
_CORE: Final = (
    *("api_keys", "audit_log", "revocations", "service_accounts", "signing_keys"),
    *("srl", "srl_publication", "srl_schedule", "tenant_settings"),
)
_IMPORT: Final = re.compile(
    r"^[ ]*(?:from ([\w.]+) import (\([^)]*\)|[^\n]*)|import ([\w.]+))", re.MULTILINE
)
_DOCUMENTED: Final = (ast.AsyncFunctionDef, ast.ClassDef, ast.FunctionDef, ast.Module)
_HELPER: Final = re.compile(r"^(?:async )?def (?!test_)", re.MULTILINE)
_READS: Final = frozenset(
    {"column", "count", "get", "get_file", "get_many", "query", "query_many", "unseal"}
)


def figures() -> Figures:
    """Count everything anew."""
    return _of_product() | _of_tests() | _of_documents() | dialect.measure() | _of_paths()


def grown(now: Figures, kept: Mapping[str, int]) -> list[str]:
    """The figures that are larger than the kept ones, or are not kept, each as a line."""
    return [
        f"{name}: {value}, was {kept.get(name, 'not counted')}"
        for name, value in now.items()
        if value > kept.get(name, -1)
    ]


def table(now: Figures, kept: Mapping[str, int]) -> list[str]:
    """Each figure beside the kept one, as lines."""
    lines = [f"{'':34} {'now':>8} {'kept':>8}"]
    for name, value in now.items():
        before = kept.get(name)
        shown = "" if before is None else str(before)
        mark = "" if value == before else "  (less)" if value < (before or 0) else "  (MORE)"
        lines.append(f"{name:34} {value:>8} {shown:>8}{mark}")
    return lines


def kept() -> Figures:
    """The figures in `tests/ratchet.json`."""
    found: Figures = json.loads(KEPT.read_text(encoding="utf-8"))
    return found


def _of_product() -> Figures:
    modules = {_name(path): path for path in _modules(*_ROOMS)}
    lines = {name: _count_code_lines(path) for name, path in modules.items()}
    others = {
        room: sum(_count_other_lines(each) for each in (ROOT / room).rglob("*.*"))
        for room in _ROOMS
    }
    rooms = {
        f"code lines of {room}": others[room]
        + sum(number for name, number in lines.items() if name.startswith(f"{room}."))
        for room in _ROOMS
    }
    return {
        **rooms,
        "code lines of the core": sum(lines.get(name, 0) for name in _find_core()),
        "modules": len(modules),
    }


def _find_core() -> set[str]:
    """Return the modules of the core and their packages, as `_name` names them."""
    graph = grimp.build_graph(*_ROOMS, exclude_type_checking_imports=True, cache_dir=None)
    handlers = {f"functions.{name}.handler" for name in _CORE}
    found = handlers.union(*map(graph.find_upstream_modules, handlers))
    packages = {parent for name in found for parent in accumulate(name.split("."), "{}.{}".format)}
    return found | {f"{name}.__init__" for name in found | packages}


def _count_code_lines(path: Path) -> int:
    """Count the lines of a module without blank ones, comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    documented: set[int] = set()
    for node in dialect.read_statements(path):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            documented.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in documented
        for number, line in enumerate(text.splitlines(), 1)
    )


def _count_other_lines(path: Path) -> int:
    """Count the same of another language; 0 if it is none of the product, or a test."""
    if path.suffix not in _SUFFIXES or _FOREIGN & {*path.parts} or path.stem.endswith("_test"):
        return 0
    lines = map(str.strip, path.read_text(encoding="utf-8").splitlines())
    return sum(bool(line) and not line.startswith(("//", "*", "/*")) for line in lines)


def _of_tests() -> Figures:
    modules = _modules("tests")
    texts = {_name(path): path.read_text(encoding="utf-8") for path in modules}
    tests = {name for name in texts if name.rpartition(".")[2].startswith("test_")}
    imported = [_imports(name, text) & tests for name, text in texts.items()]
    return {
        "code lines of tests": sum(map(_count_code_lines, modules)),
        "helpers in test modules": sum(len(_HELPER.findall(texts[name])) for name in tests),
        "imports of test modules": sum(map(len, imported)),
    }


def _of_documents() -> Figures:
    decisions = [each for each in (ROOT / "docs/adr").glob("*.md") if each.name[0].isdigit()]
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    return {
        "words of documents": words,
        "decisions": len(decisions),
    }


def _modules(*folders: str) -> list[Path]:
    """The files of Python there, without those that only make a folder a package."""
    files = chain.from_iterable((ROOT / folder).rglob("*.py") for folder in folders)
    return sorted(file for file in files if file.stat().st_size)


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def _imports(importer: str, text: str) -> set[str]:
    """All that may be a module and is imported there: `from a import b` is `a` and `a.b`."""
    found: set[str] = set()
    for source, names, whole in _IMPORT.findall(text):
        module = _absolute(importer, source) if source else whole
        found.add(module)
        found.update(f"{module}.{name}" for name in re.findall(r"\w+", names))
    return {*found, *(f"{package}.__init__" for package in found)} - {importer}


def _absolute(importer: str, source: str) -> str:
    named = source.lstrip(".")
    if dots := len(source) - len(named):
        return ".".join([*importer.split(".")[:-dots], *filter(None, [named])])
    return source


def _of_paths() -> Figures:
    with TemporaryDirectory() as folder:
        return {
            f"{path}: {figure}": value
            for path, walked in _walks(Path(folder)).items()
            for figure, value in walked.figures().items()
        }


def _walks(folder: Path) -> "dict[str, Walk]":
    """What the four main paths of the code touch, in a world where each was walked before."""
    clock = Clock()
    pacing, operation.PACING = operation.PACING, replace(operation.PACING, in_flight=0)
    ports = embedded(folder, clock)
    try:
        tenant = Tenant.create(ports)
        _walked(ports, tenant, "svc_wrt_first")
        clock.advance(seconds=10)
        return _walked(ports, tenant, "svc_wrt_second")
    finally:
        operation.PACING = pacing
        close(ports)


def _walked(ports: Ports, tenant: Tenant, warrant_id: str) -> "dict[str, Walk]":
    walks = {name: Walk() for name in ("publication", "nothing due", "revoke", "check")}
    with walks["revoke"].watching(ports) as watched:
        tenant.revoke(watched, warrant_id)
    with walks["check"].watching(ports) as watched:
        assert revocations.check(watched, tenant.operator, warrant_id=warrant_id).revoked
    with walks["publication"].watching(ports) as watched:
        assert publication.publish_if_due(watched, tenant.id)
    with walks["nothing due"].watching(ports) as watched:
        assert not publication.publish_if_due(watched, tenant.id)
    return walks


@dataclass
class Walk:
    """What one run of the code touched.

    `trips` are the calls of ports that follow each other: reads that are gathered count as the
    longest of them. `again` is how often something was read that had been read before.
    """

    calls: list[str] = field(default_factory=list)
    trips: int = 0
    again: int = 0
    _read: set[str] = field(default_factory=set)

    @contextmanager
    def watching(self, ports: Ports) -> Iterator[Ports]:
        """Ports like these, through which the run has to be made."""
        watched: dict[str, Any] = {
            name: Intercepted(getattr(ports, name), self._counted)
            for name in ("blobs", "sealer", "store")
        }
        yield replace(ports, gather=partial(gathered, self), **watched)

    def figures(self) -> Figures:
        """The figures by name."""
        return {
            "trips": self.trips,
            "calls": len(self.calls),
            "read again": self.again,
        }

    def _counted(self, call: Call) -> Any:
        self.calls.append(call.verb)
        self.trips += 1
        for read in _reads(call):
            self.again += read in self._read
            self._read.add(read)
        return call()


def _reads(call: Call) -> list[str]:
    """What a call reads, one text for each item, walk or blob."""
    if call.verb not in _READS:
        return []
    if call.verb == "get_many":
        # One of them read alone is the same read.
        return [f"get {(address,)} {{}}" for address in call.arguments[0]]
    return [f"{call.verb} {call.arguments} {call.options}"]


def main(*arguments: str) -> int:
    """Print the table; return 1 if a figure has grown and is not to be kept."""
    now = figures()
    before = kept() if KEPT.exists() else {}
    print("\n".join(table(now, before)))
    if "--write" in arguments:
        KEPT.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
        return 0
    return 1 if grown(now, before) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
