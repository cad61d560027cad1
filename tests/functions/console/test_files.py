"""The files of the console: which paths there are, and with which headers they are sent."""

import gzip
import re
from pathlib import Path

import pytest

from functions.console.files import STATIC, Files

_SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; worker-src 'self'; manifest-src 'none'; form-action 'none'; "
        "frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; "
        "trusted-types lit-html"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
_FOREVER = "public, max-age=31536000, immutable"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small console, beside a file that is none of it."""
    folder = tmp_path / "static"
    (folder / "pages").mkdir(parents=True)
    index = '<link href="page.css"><script src="pages/one.js"></script><a href="#/keys">Keys</a>'
    (folder / "index.html").write_text(index)
    (folder / "page.css").write_text("h1 { color: black }\n" * 20)
    (folder / "pages" / "one.js").write_text('import "../two.js"')
    (folder / "two.js").write_text("export const a = 1")
    (folder / ".hidden").write_text("hidden")
    (tmp_path / "secret.js").write_text("secret")
    return folder


def test_every_answer_has_the_strict_headers_and_no_others(folder: Path) -> None:
    """F447a: Each answer forbids foreign hosts, inline scripts and styles, and frames."""
    files = Files(folder)
    page = files.answer("GET", "/", {})
    assert page.headers == _SECURITY | {
        "Cache-Control": "no-cache",
        "Content-Length": str(len(page.body)),
        "Content-Type": "text/html; charset=utf-8",
        "ETag": page.headers["ETag"],
        "Vary": "Accept, Accept-Encoding",
    }
    script = files.answer("GET", f"/console/{files.version}/two.js", {"accept-encoding": "gzip"})
    assert script.headers == _SECURITY | {
        "Cache-Control": _FOREVER,
        "Content-Encoding": "gzip",
        "Content-Length": str(len(script.body)),
        "Content-Type": "text/javascript; charset=utf-8",
        "ETag": script.headers["ETag"],
        "Vary": "Accept-Encoding",
    }
    kept = files.answer("GET", "/", {"if-none-match": page.headers["ETag"]})
    assert kept.headers == _SECURITY | {
        "Cache-Control": "no-cache",
        "ETag": page.headers["ETag"],
        "Vary": "Accept, Accept-Encoding",
    }
    refused = [files.answer("GET", "/console/", {}), files.answer("PUT", "/", {})]
    for answer, more in zip(refused, ({}, {"Allow": "GET, HEAD"}), strict=True):
        assert answer.headers == _SECURITY | more | {
            "Cache-Control": "no-store",
            "Content-Length": str(len(answer.body)),
            "Content-Type": "text/html; charset=utf-8",
        }


@pytest.mark.parametrize(
    "path",
    [
        *("/console/", "/console/two.js", "/console/000000000000/two.js", "//", "/../secret.js"),
        *("/console/{v}", "/console/{v}/", "/console/{v}/index.html", "/console/{v}/.hidden"),
        *("/console/{v}/two.js/", "/console/{v}/two.js\0", "/console/{v}/TWO.js"),
        *("/console/{v}//two.js", "/console/{v}/./two.js", "/console/{v}/pages/../two.js"),
        *("/console/{v}/../secret.js", "/console/{v}/../../secret.js"),
        *("/console/{v}/%2e%2e/secret.js", "/console/{v}/..\\secret.js"),
    ],
)
def test_only_the_paths_of_the_files_are_served(folder: Path, path: str) -> None:
    """F448a: A path that is not that of a file of this version is answered with 404."""
    files = Files(folder)
    answer = files.answer("GET", path.format(v=files.version), {})
    assert answer.status == 404
    assert b"renewed" in answer.body


def test_who_comes_from_a_provider_is_sent_to_the_page(folder: Path) -> None:
    """F1240a: The redirect address of a provider leads to the page, and the code into no log.

    An address that is not that of a provider, or a query that is none, is answered with 404.
    """
    files, path = Files(folder), f"/console/signed-in/svc_idp_{'0' * 26}"
    answer = files.answer("GET", path, {}, "code=a%2Fb&state=s&iss=https%3A%2F%2Fsso")
    assert answer.status == 303
    assert answer.headers == _SECURITY | {
        "Cache-Control": "no-store",
        "Content-Length": "0",
        "Location": f"../../#signed-in=svc_idp_{'0' * 26}?code=a%2Fb&state=s&iss=https%3A%2F%2Fsso",
    }
    for where, query in (
        (path, ""),
        (path, "code=a\r\nSet-Cookie: a=b"),
        (path, "a" * 9000),
        (f"{path}/", "code=a"),
        (f"{path}\r\nSet-Cookie: a=b", "code=a"),
        ("/console/signed-in/", "code=a"),
        ("/console/signed-in//evil.example", "code=a"),
    ):
        assert files.answer("GET", where, {}, query).status == 404


def test_the_page_names_its_files_where_they_are_served(folder: Path) -> None:
    """The page has the version in the addresses of its files, without a first slash."""
    files = Files(folder)
    page = files.answer("GET", "/", {}).body.decode()
    assert re.findall('(?:href|src)="([^"]*)"', page) == [
        f"console/{files.version}/page.css",
        f"console/{files.version}/pages/one.js",
        "#/keys",
    ]
    assert {f"/{each}" for each in re.findall('"(console/[^"]*)"', page)} < files.paths


def test_a_changed_file_has_another_address(folder: Path) -> None:
    """F448b: If any file changes, all addresses change, and the old ones are answered with 404."""
    old, again = Files(folder), Files(folder)
    assert (old.version, old.paths) == (again.version, again.paths)
    (folder / "two.js").write_text("export const a = 2")
    new = Files(folder)
    assert re.fullmatch("[0-9a-f]{12}", new.version)
    assert old.paths & new.paths == {"/"}
    tag = old.answer("GET", "/", {}).headers["ETag"]
    assert new.answer("GET", "/", {"if-none-match": tag}).status == 200
    assert new.answer("GET", f"/console/{old.version}/two.js", {}).status == 404
    (folder / "two.js").rename(folder / "three.js")
    assert Files(folder).version not in {old.version, new.version}


@pytest.mark.parametrize("path", ["/", "/console/{v}/page.css"])
def test_a_file_is_sent_compressed_if_asked_and_not_twice(folder: Path, path: str) -> None:
    """F448c: A file is sent as it is or compressed, and not again to a browser that has it."""
    files = Files(folder)
    path = path.format(v=files.version)
    plain = files.answer("GET", path, {})
    packed = files.answer("GET", path, {"accept-encoding": "br, gzip"})
    assert "Content-Encoding" not in plain.headers
    assert gzip.decompress(packed.body) == plain.body
    head = files.answer("HEAD", path, {"accept-encoding": "gzip"})
    assert head == (200, packed.headers, b"")
    tag = plain.headers["ETag"]
    assert tag == packed.headers["ETag"]
    for condition in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        for method in ("GET", "HEAD"):
            answer = files.answer(method, path, {"if-none-match": condition})
            assert (answer.status, answer.body) == (304, b"")
    assert files.answer("GET", path, {"if-none-match": '"other"'}).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get"])
def test_files_are_only_read(folder: Path, method: str) -> None:
    """F448d: A method other than GET and HEAD is answered with 405 at any path."""
    files = Files(folder)
    for path in ("/", f"/console/{files.version}/two.js", "/console/"):
        assert files.answer(method, path, {}).status == 405


def test_every_file_of_the_console_is_served() -> None:
    """Each file in `static/` but a licence and a version has a type.

    Each address on the page is that of a file.
    """
    files = Files()
    found = [each for each in STATIC.rglob("*") if each.is_file()]
    names = {each.relative_to(STATIC).as_posix() for each in found} - {
        *("vendor/lit-html/LICENSE", "vendor/lit-html/VERSION", "vendor/noble-hashes.LICENSE")
    }
    served = {f"/console/{files.version}/{name}" for name in names - {"index.html"}}
    assert files.paths == served | {"/"}
    page = files.answer("GET", "/", {}).body.decode()
    named = re.findall('(?:href|src)="([^"#]+)"', page)
    assert {f"/{each}" for each in named} <= files.paths
