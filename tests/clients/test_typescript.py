"""The TypeScript client: its package, in Node and in a browser, and without each of its checks."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Route

from shared import __version__
from tests.conformance import runner
from tests.conformance.vectors import vectors
from tests.kit import browsers, typescript
from tests.kit.processes import ROOT

pytestmark = pytest.mark.slow

_CASES: Final = vectors()
_PROGRAM: Final = ROOT / "tests/clients/left_out.mjs"

# Nobody is asked for this address: the test answers.
_PAGE: Final = "https://page.example/"
_HTML: Final = """<!doctype html><script type="importmap">
{"imports": {"@noble/hashes/": "/@noble/hashes/"}}
</script><script type="module">
import * as client from "/@rescind/authorizer/dist/index.js";
import { Session } from "/@rescind/authorizer/dist/conformance.js";
const session = new Session();
window.names = Object.keys(client);
window.ask = (request) => session.answer(request);
</script>"""


def test_the_package_says_its_version_and_needs_one_other() -> None:
    """F1040a: The npm package has the version of the service, and depends on `@noble/hashes`."""
    package, lock = (_read(name) for name in ("package.json", "package-lock.json"))
    assert package["version"].replace("-dev.", ".dev") == __version__
    assert f'VERSION = "{package["version"]}"' in (typescript.SOURCE / "src/reports.ts").read_text()
    assert package["dependencies"] == {"@noble/hashes": "2.4.0"}
    assert "devDependencies" not in package
    locked = {name: each for name, each in lock["packages"].items() if name}
    assert all(each["integrity"].startswith("sha512-") for each in locked.values())


def test_the_part_for_browsers_passes_in_chromium() -> None:
    """F1040b: `.` of the npm package passes the conformance suite in Chromium, without `node:`."""
    if (chromium := browsers.executable()) is None:
        pytest.skip("no Chromium")
    modules = typescript.installed() / "node_modules"
    fetched = []

    def answer(route: Route) -> None:
        path = route.request.url.removeprefix(_PAGE)
        if path:
            fetched.append((modules / path).read_text())
            route.fulfill(body=fetched[-1], content_type="text/javascript")
        else:
            route.fulfill(body=_HTML, content_type="text/html")

    with browsers.launched(chromium) as browser:
        page = browser.new_page()
        page.route("**/*", answer)
        page.goto(_PAGE)
        page.wait_for_function("() => !!window.ask")
        names = ["AuthorizerClient", "MemoryStateStore", "StateError", "tokenId"]
        assert page.evaluate("window.names") == names
        outcomes = list(runner.run(lambda request: page.evaluate("ask", request), _CASES))
    assert [each for each in outcomes if each.fault] == []
    assert len(outcomes) == len(_CASES)
    assert len(fetched) > 10
    assert not [each for each in fetched if "node:" in each]


def test_a_client_that_leaves_a_check_out_fails(tmp_path: Path) -> None:
    """F1040c: For each check, a TypeScript client that lacks it fails a case of the suite."""
    modules = typescript.installed() / "node_modules"
    shutil.copytree(modules / "@rescind/authorizer/dist", tmp_path / "dist")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "cases.json").write_text(json.dumps(_CASES))
    files = (_PROGRAM, tmp_path / "dist", tmp_path / "cases.json")
    failed = json.loads(
        subprocess.check_output([typescript.node(), *map(str, files)], timeout=1200)
    )
    assert [check for check, case in failed.items() if case is None] == []
    # Each refusal has a check that was left out.
    reasons = {word for name in failed for word in re.findall(r'"([a-z_]+)"\);$', name)}
    assert {"tenant", "lifetime", "rollback", "replay", "break", "hash", "behind"} <= reasons
    assert len(failed) > 100


def test_the_set_is_what_entries_say() -> None:
    """F1317a: In TypeScript, the set of revoked warrants is a plain one after any entries."""
    package = typescript.installed() / "node_modules/@rescind/authorizer"
    program = _PROGRAM.with_name("ids.mjs")
    subprocess.run([typescript.node(), str(program), str(package)], check=True, timeout=100)


def test_a_client_bears_faults_of_its_surroundings() -> None:
    """F1631a: In TypeScript, faults of a saved state, a handler or a service end and leak nothing.

    Pauses are bounded, connections are renewed, and API keys are checked. A runtime without Ed25519
    raises an error.
    """
    program = typescript.installed() / "faults.mjs"
    shutil.copy(_PROGRAM.with_name("faults.mjs"), program)
    subprocess.run([typescript.node(), str(program)], check=True, timeout=100)


def _read(name: str) -> Any:
    return json.loads((typescript.SOURCE / name).read_text(encoding="utf-8"))
