"""The files that commands read: all rows are sent, or none (F1711)."""

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from infra.cli import inputs, revoking
from infra.cli.errors import UsageError
from infra.cli.output import Output
from infra.cli.revoking import read_identifiers
from shared.model import identifiers
from tests.infra.cli.conftest import Shell
from tests.kit.processes import ROOT

_WHY: Final = ("--reason", "lost", "--yes")
_BOM: Final = b"\xef\xbb\xbf"


@dataclass
class Recorder:
    """A server that takes every batch, and the warrants that it was sent."""

    url: str
    sent: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    made = Recorder("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            ids = json.loads(self.rfile.read(size))["warrant_ids"]
            made.sent += ids
            results = [{"id": each, "outcome": "revoked"} for each in ids]
            answer = json.dumps({"results": results}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        made.url = f"http://127.0.0.1:{server.server_port}"
        yield made
        server.shutdown()
        thread.join()


@pytest.fixture
def user(shell: Shell, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("RESCIND_URL", recorder.url)
    monkeypatch.setenv("RESCIND_API_KEY", "svc_key")
    recorder.sent.clear()
    return shell


REFUSED: Final = {
    "an open quotation mark": (b'warrant_id,owner\nsvc_wrt_a,"Jo\nsvc_wrt_b,Al\n', 2),
    "a line feed in a cell": (b'warrant_id,owner\nsvc_wrt_a,"Jo\nDoe"\nsvc_wrt_b,Al\n', 2),
    "a carriage return in a cell": (b'warrant_id,owner\nsvc_wrt_a,"Jo\rDoe"\n', 2),
    "text after a quotation mark": (b'warrant_id\n"svc_wrt_a"x\n', 2),
    "a quotation mark within a cell": (b'warrant_id,size\nsvc_wrt_a,15" wide\n', 2),
    "fewer cells": (b"owner,warrant_id\nme,svc_wrt_a\nsvc_wrt_b\n", 3),
    "more cells": (b"owner,warrant_id\nme,svc_wrt_a,x\n", 2),
    "a comma at the end": (b"warrant_id\nsvc_wrt_a,\n", 2),
    "columns without a heading": (b"svc_wrt_a,svc_wrt_b\n", 1),
    "semicolons": (b"warrant_id;owner\nsvc_wrt_a;me\n", 1),
    "tabs": (b"warrant_id\towner\nsvc_wrt_a\tme\n", 1),
    "a heading twice": (b"warrant_id,warrant_id\nsvc_wrt_a,svc_wrt_b\n", 1),
    "two headings": (b"id,Warrant\nsvc_wrt_x,svc_wrt_a\n", 1),
    "two headings below a blank row": (b"\nwarrant,x,revocation\nsvc_wrt_a,1,2\n", 2),
    "no heading": (b"name,owner\nsvc_wrt_a,me\n", 1),
    "a NUL byte": (b"warrant_id\nsvc_wrt_a\0\n", 2),
    "UTF-16": ("warrant_id\nsvc_wrt_a\n".encode("utf-16"), 1),
    "UTF-16 without a mark": ("warrant_id\nsvc_wrt_a\n".encode("utf-16-le"), 1),
    "Latin-1": ("warrant_id,owner\nsvc_wrt_a,Jos\xe9\n".encode("latin-1"), 2),
    "a surrogate": (b"warrant_id,owner\nsvc_wrt_a,\xed\xa0\x80\n", 2),
    "a second byte order mark": (_BOM + b"svc_wrt_a\n" + _BOM + b"svc_wrt_b\n", 2),
    "a very long cell": (b"warrant_id,owner\nsvc_wrt_a," + b"x" * 200_000 + b"\n", 2),
    "a row without an identifier": (b"warrant_id,owner\n,me\nsvc_wrt_a,me\n", 2),
}


@pytest.mark.parametrize("stream", [False, True], ids=["file", "stdin"])
@pytest.mark.parametrize(("content", "line"), REFUSED.values(), ids=REFUSED.keys())
def test_a_file_that_is_not_whole_is_refused(
    user: Shell, recorder: Recorder, tmp_path: Path, content: bytes, line: int, stream: bool
) -> None:
    """F1711a: If a row of a file is in doubt, its line is named, and nothing is sent."""
    file = tmp_path / "lost.csv"
    file.write_bytes(content)
    ended = user.run("revoke", "--file", "-" if stream else file, *_WHY, stdin=content)
    assert ended.code == 2
    assert re.search(rf"{'-' if stream else file}, line {line}: (a|the) ", ended.err)
    assert "Nothing was sent." in ended.err
    assert len(ended.err.splitlines()) == 1
    assert recorder.sent == []


Taken = tuple[bytes, list[str], str]
TAKEN: Final[dict[str, Taken]] = {
    "a byte order mark": (_BOM + b"svc_wrt_a\n", ["svc_wrt_a"], "Read 1 rows"),
    "carriage returns": (
        b"warrant_id\rsvc_wrt_a\rsvc_wrt_b\r",
        ["svc_wrt_a", "svc_wrt_b"],
        "2 rows",
    ),
    "both line ends": (b"warrant_id\r\nsvc_wrt_a\r\n", ["svc_wrt_a"], "Read 1 rows"),
    "no line end": (b"svc_wrt_a", ["svc_wrt_a"], "Read 1 rows"),
    "blank rows": (b"\nwarrant_id,x\n,\nsvc_wrt_a,1\n\n", ["svc_wrt_a"], "3 blank"),
    "repeated rows": (b"svc_wrt_a\nsvc_wrt_a\n", ["svc_wrt_a"], "1 identifiers, 1 repeated"),
    "quoted cells": (b'"x","warrant_id"\n"a,""b""","svc_wrt_a"\n', ["svc_wrt_a"], "Read 1 rows"),
    "the columns of an export": (
        b"id,Warrant_ID\nsvc_rev_x,svc_wrt_a\n",
        ["svc_wrt_a"],
        "Read 1 rows",
    ),
    "spaces": (b" svc_wrt_a \n", ["svc_wrt_a"], "Read 1 rows"),
    **{
        f"the heading {name}": (f"x,{name}\n1,svc_wrt_a\n".encode(), ["svc_wrt_a"], "Read 1 rows")
        for name in ("warrant_id", "WARRANT", "revocation_id", "Revocation", "id")
    },
}


@pytest.mark.parametrize("stream", [False, True], ids=["file", "stdin"])
@pytest.mark.parametrize("taken", TAKEN.values(), ids=TAKEN.keys())
def test_each_row_of_a_file_is_sent(
    user: Shell, recorder: Recorder, tmp_path: Path, taken: Taken, stream: bool
) -> None:
    """F1711b: Each row of a file is sent, and the number of rows and identifiers is printed."""
    content, ids, said = taken
    file = tmp_path / "lost.csv"
    file.write_bytes(content)
    ended = user.run("revoke", "--file", "-" if stream else file, *_WHY, stdin=content)
    assert (ended.code, recorder.sent) == (0, ids), ended.err
    assert said in ended.err


def test_all_headings_are_documented() -> None:
    """F1955a: The page about files names all headings of identifiers, in their order."""
    page = (ROOT / "docs/bulk.md").read_text()
    assert (
        re.findall("`([a-z_]+)`", page.partition("from this list: ")[2].partition(".")[0])
        == _HEADINGS
    )
    assert list(revoking._HEADINGS) == _HEADINGS


@pytest.mark.parametrize("content", [b"", b"warrant_id\n", b"\n,\n"])
def test_a_file_without_identifiers_is_refused(
    user: Shell, recorder: Recorder, content: bytes
) -> None:
    """F1711c: A file without an identifier is refused, also beside warrants that are typed."""
    ended = user.run("revoke", "svc_wrt_a", "--file", "-", *_WHY, stdin=content)
    assert (ended.code, ended.err) == (2, "error: - contains no identifiers.\n")
    assert recorder.sent == []


def _reference(content: bytes) -> list[str] | None:
    """The identifiers of a file, read character by character; None if it is not whole."""
    try:
        rows = [row for row in _rows(content.decode("utf-8-sig")) if any(row)]
    except ValueError:
        return None
    if len({len(row) for row in rows}) != 1:
        return None
    names = [cell.lower() for cell in rows[0]]
    is_exact = names.count("warrant_id") == 1
    known = ["warrant_id"] if is_exact else [each for each in names if each in _HEADINGS]
    if len(names) > 1 and len(known) != 1:
        return None
    column = names.index(known[0]) if known else 0
    ids = [row[column] for row in rows[len(known) :]]
    are_valid = all(re.fullmatch(r"svc_wrt_[A-Za-z0-9_-]{1,64}", each) for each in ids)
    return list(dict.fromkeys(ids)) if ids and are_valid else None


def _rows(text: str) -> list[list[str]]:
    """The rows of a text. Raises `ValueError` if a quotation mark is where none may be."""
    rows, cells, cell, state = list[list[str]](), list[str](), "", "start"
    for char in [*text.replace("\r\n", "\n").replace("\r", "\n"), "\n"]:
        kind = char if char in '"\n,' else "x"
        if char == "\0" or (state, kind) in _WRONG:
            raise ValueError
        usual = ("inside" if state == "inside" else "plain", char)
        state, kept = _STEPS.get((state, kind), usual)
        cell += kept
        if state == "start":
            cells, cell = [*cells, cell.strip()], ""
        if state == "start" and char == "\n":
            rows, cells = [*rows, cells], []
    return rows


_WRONG: Final = {("inside", "\n"), ("plain", '"'), ("quote", "x")}
_STEPS: Final = {
    **{(state, end): ("start", "") for state in ("start", "plain", "quote") for end in ",\n"},
    ("start", '"'): ("inside", ""),
    ("inside", '"'): ("quote", ""),
    ("quote", '"'): ("inside", '"'),
}


_HEADINGS: Final = ["warrant_id", "warrant", "revocation_id", "revocation", "id"]
_PIECES: Final = st.sampled_from(
    [
        *("svc_wrt_a", "svc_wrt_b", "svc_wrt_", "warrant_id", "id", ",", '"', "\n", "\r", "\r\n"),
        *('""', ";", "\t", " ", "x", "\0", "\ufeff", "\xe9", "\u2028", "\x85", "\x0b", "\x1c"),
    ]
)
_CONTENTS: Final = st.one_of(
    st.binary(max_size=40), st.lists(_PIECES, max_size=20).map(lambda each: "".join(each).encode())
)


@pytest.mark.slow
@settings(
    max_examples=400,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(content=_CONTENTS)
@example(content=b'svc_wrt_a\n"svc_wrt_b\nsvc_wrt_c\n')
@example(content=b'"svc_wrt_a"\n')
def test_any_file_is_read_whole_or_not_at_all(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F1711d: Of any bytes, the rows that another reader finds are read, or none."""
    file = tmp_path / "any.csv"
    file.write_bytes(content)
    try:
        found: list[str] | None = read_identifiers(Output(), file, identifiers.warrant_id)
    except UsageError:
        found = None
    capsys.readouterr()
    assert found == _reference(content)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=_CONTENTS)
@example(content=b"warrant_id,owner\nsvc_wrt_a,me\nsvc_wrt_b,me\n")
def test_any_file_is_sent_whole_or_not_at_all(
    content: bytes, user: Shell, recorder: Recorder
) -> None:
    """F1711e: Of any bytes, all rows are sent, or the exit code is 2 and nothing is sent."""
    recorder.sent.clear()
    ended = user.run("revoke", "--file", "-", *_WHY, stdin=content)
    expected = _reference(content)
    assert (ended.code, recorder.sent) == (2 if expected is None else 0, expected or [])


@pytest.mark.slow
def test_a_million_rows_are_read_one_by_one(tmp_path: Path) -> None:
    """F1711f: A large file is read row by row, so that a line without end needs no memory."""
    endless = Path("/dev/zero")
    with pytest.raises(UsageError, match=r"line 1: the line is longer than 99999 characters"):
        list(inputs.read_rows(endless))
    large = tmp_path / "large.csv"
    large.write_text("warrant_id\n" + "svc_wrt_a\n" * 100_000)
    assert sum(1 for _ in inputs.read_rows(large)) == 100_001
