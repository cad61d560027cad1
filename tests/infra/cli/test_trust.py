"""`rescind trust`, against a server: from its own root to roots of people."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.adapters.local.file_root import FileRoot
from shared.authorizer.formats.members import to_base64
from tests.infra.cli.conftest import Shell
from tests.kit.processes import LocalServer, local_server
from tests.kit.waiting import soon


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A server for these tests alone, which replace its root."""
    with local_server(tmp_path_factory.mktemp("trust") / "data") as server:
        yield server


@pytest.fixture
def operator(shell: Shell, own: LocalServer, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("RESCIND_URL", own.url)
    monkeypatch.setenv("RESCIND_API_KEY", own.admin_key)
    # After it has started, the server publishes a document, and another one once the log has a key.
    soon(lambda: _names_the_log(shell))
    return shell


@pytest.fixture
def people(tmp_path: Path) -> list[str]:
    """Three new roots, by their public keys; their files are `0.key` to `2.key`."""
    return [to_base64(FileRoot.create(tmp_path / f"{n}.key").public_key) for n in range(3)]


def _names_the_log(shell: Shell) -> bool:
    shown = shell.run("trust", "show", "-o", "json")
    return shown.code == 0 and any(
        "log" in each["uses"] for each in json.loads(shown.out)["signers"]
    )


def _shows(shell: Shell, *more: str) -> dict[str, Any]:
    found: dict[str, Any] = shell.json("trust", "show", *more)
    return found


def test_the_pin_of_a_new_deployment_is_shown(operator: Shell, own: LocalServer) -> None:
    """F715a: `trust show` shows the pin of the root, the keys that sign, and checks a pin."""
    shown = _shows(operator)
    key = FileRoot(own.data / "root.key").public_key
    assert shown["roots"] == [to_base64(key)]
    assert _shows(operator, "--trust-pin", str(shown["pin"])) == shown
    refused = operator.run("trust", "show", "--trust-pin", "0" * 64)
    assert (refused.code, "rejects the trust documents (root)" in refused.err) == (1, True)
    wrong = operator.run("trust", "show", "--trust-pin", "pin")
    assert (wrong.code, "64 hexadecimal digits" in wrong.err) == (2, True)
    text = operator.run("trust", "show", columns=300).out
    assert "lists" in text
    assert str(shown["pin"]) in text


def test_people_replace_the_root_of_a_server(
    operator: Shell, own: LocalServer, people: list[str], tmp_path: Path
) -> None:
    """F715b: Two of three people replace the root of a server, and clients keep their pin.

    Nothing is published before enough have signed, and a document of the old root is refused.
    """
    pin = str(_shows(operator)["pin"])
    draft, copy = tmp_path / "draft.json", tmp_path / "copy.json"
    named = [word for key in people for word in ("--new-public", key)]
    by = str(own.data / "root.key")
    rotate = ("trust", "rotate-root", "--key", by, *named, "--threshold", "2")
    begun = operator.run(*rotate, "--out", draft, "--yes", columns=400)
    assert (begun.code, "2 signature(s) are missing" in begun.err) == (0, True), begun.err
    assert "CHANGE from 1 of 1" in begun.out
    early = operator.run("trust", "publish", draft)
    assert (early.code, "2 root signature(s) are missing" in early.err) == (2, True)
    copy.write_bytes(draft.read_bytes())
    for number, file in ((0, draft), (2, copy)):
        sign = ("trust", "sign", file, "--key", tmp_path / f"{number}.key", "--yes")
        assert operator.run(*sign).code == 0
    done = operator.json("trust", "publish", draft, copy)
    assert operator.json("trust", "publish", draft, copy) == done
    shown = _shows(operator, "--trust-pin", pin)
    assert (shown["threshold"], sorted(people)) == (2, sorted(map(str, shown["roots"])))
    # The server renews nothing by itself any more; another draft is for the people.
    assert operator.run("trust", "draft", "--out", draft).code == 0
    ended = operator.run("trust", "sign", draft, "--key", own.data / "root.key", "--yes")
    assert (ended.code, "is not a root of this document" in ended.err) == (2, True)
    # The root of the server again, by those who hold the others, in one step.
    others = ("--key", tmp_path / "1.key", "--key", tmp_path / "2.key")
    new = ("--new", own.data / "root.key", "--out", tmp_path / "back.json")
    ended = operator.run("trust", "rotate-root", *others, *new, "--yes")
    assert ended.code == 0, ended.err
    assert _shows(operator, "--trust-pin", pin)["threshold"] == 1


def test_an_outdated_draft_is_refused(
    operator: Shell, own: LocalServer, people: list[str], tmp_path: Path
) -> None:
    """F715c: A draft that was overtaken is refused by the service, which says to get another."""
    draft, later = tmp_path / "draft.json", tmp_path / "later.json"
    key = own.data / "root.key"
    assert operator.run("trust", "draft", "--out", draft).code == 0
    # Of two drafts of one second the bytes are the same, unless they differ in what they say.
    both = ("--new-root", to_base64(FileRoot(key).public_key), "--new-root", people[0])
    assert operator.run("trust", "draft", "--out", later, *both).code == 0
    for file in (draft, later):
        assert operator.run("trust", "sign", file, "--key", key, "--yes").code == 0
    assert operator.run("trust", "publish", later).code == 0
    refused = operator.run("trust", "publish", draft)
    assert (refused.code, "(conflict)" in refused.err) == (1, True)


def test_a_rotation_needs_roots_and_a_threshold_of_them(
    operator: Shell, own: LocalServer, people: list[str], tmp_path: Path
) -> None:
    """F715d: A rotation without new roots, or with too high a threshold, is refused at once."""
    draft = tmp_path / "draft.json"
    rotate = ("trust", "rotate-root", "--key", own.data / "root.key", "--out", draft, "--yes")
    for more in ((), ("--new-public", people[0], "--threshold", "2")):
        ended = operator.run(*rotate, *more)
        assert (ended.code, "--new-public" in ended.err) == (2, True)
    ended = operator.run("trust", "draft", "--out", draft, "--new-root", "AAAA")
    assert (ended.code, "32 bytes" in ended.err) == (2, True)
    assert not draft.exists()
