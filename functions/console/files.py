"""Serves the files of the console (docs/console.md).

All files are read once, so a path is looked up and never joined. `index.html` is at `/`. The other
files are below an address with a hash of all contents, so browsers may cache them permanently.
"""

import gzip
import hashlib
import re
from collections.abc import KeysView, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from shared.authorizer.formats import entity_tags
from shared.web import header_values

STATIC: Final = Path(__file__).parent / "static"

# Other file types are not served.
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
_INDEX: Final = "index.html"
_FOLDER: Final = "/console/"
_ALLOW: Final = {"Allow": "GET, HEAD"}
# Redirect address of identity providers; its query contains a code.
_SIGNED_IN: Final = re.compile("/console/signed-in/(svc_idp_[0-9a-z]{26})")
_QUERY: Final = re.compile("[!-~]{1,8192}")

# Forbids requests to other hosts, inline scripts and styles, and markup from text.
SECURITY: Final[Mapping[str, str]] = {
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

_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<h1>{title}</h1>
<p>{text}</p>
</html>
"""


class FileAnswer(NamedTuple):
    """A response. Header names are as in `SECURITY`, and the body may be compressed."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class File:
    """A file with its headers. Its entity tag is weak, because the compressed form shares it."""

    headers: Mapping[str, str]
    etag: str
    plain: bytes
    compressed: bytes

    @classmethod
    def of(cls, suffix: str, data: bytes, headers: Mapping[str, str]) -> "File":
        """Return a file. `headers` contains at least `Cache-Control` and `Vary`."""
        etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
        own = {"Content-Type": _TYPES[suffix], "ETag": f"W/{etag}"}
        return cls({**headers, **own}, etag, data, gzip.compress(data, mtime=0))

    def answer(self, asked: Mapping[str, str], *, with_body: bool) -> FileAnswer:
        """Return the response to GET or HEAD. Header names in `asked` are in lower case."""
        headers, body = {**SECURITY, **self.headers}, self.plain
        if entity_tags.is_held(asked.get("if-none-match", ""), self.etag):
            # Includes headers that override `SECURITY`, because a 304 renews cached headers.
            del headers["Content-Type"]
            return FileAnswer(304, headers, b"")
        if header_values.accepts_gzip(asked.get("accept-encoding", "")):
            headers["Content-Encoding"], body = "gzip", self.compressed
        headers["Content-Length"] = str(len(body))
        return FileAnswer(200, headers, body if with_body else b"")


class Files:
    """All files of the console, by path."""

    def __init__(self, folder: Path = STATIC) -> None:
        """Read all files in `folder`. Raises `OSError`, also if index.html is missing."""
        paths = sorted(path for path in folder.rglob("*") if path.suffix in _TYPES)
        contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        digest = hashlib.sha256()
        for name in sorted(contents):
            digest.update(f"{name}\n{hashlib.sha256(contents[name]).hexdigest()}\n".encode())
        self.version = digest.hexdigest()[:12]

        def version_link(match: re.Match[bytes]) -> bytes:
            """Return an attribute without a first slash, so that it works below a base path."""
            attribute, name = match[1], match[2].decode()
            address = f"{_FOLDER[1:]}{self.version}/{name}" if name in contents else name
            return b'%s="%s"' % (attribute, address.encode())

        index = (folder / _INDEX).read_bytes()
        index = re.sub(rb'\b(href|src)="([^"]*)"', version_link, index)
        headers = {"Cache-Control": "no-cache", "Vary": "Accept, Accept-Encoding"}
        self._files = {"/": File.of(".html", index, headers)}
        headers = {
            "Cache-Control": "public, max-age=31536000, immutable",
            "Vary": "Accept-Encoding",
        }
        for name in contents.keys() - {_INDEX}:
            file = File.of(Path(name).suffix, contents[name], headers)
            self._files[f"{_FOLDER}{self.version}/{name}"] = file

    @property
    def paths(self) -> KeysView[str]:
        """Paths of all files."""
        return self._files.keys()

    def answer(
        self, method: str, path: str, headers: Mapping[str, str], query: str = ""
    ) -> FileAnswer:
        """Return the response to a request. Header names in `headers` are in lower case."""
        if method not in {"GET", "HEAD"}:
            return _page(405, "Not allowed", "These pages can only be read.", _ALLOW)
        provider = _SIGNED_IN.fullmatch(path)
        if provider is not None and _QUERY.fullmatch(query):
            # A browser sends no fragment to a server, and the page removes it from its address.
            location = f"../../#signed-in={provider[1]}?{query}"
            own = {"Cache-Control": "no-store", "Content-Length": "0", "Location": location}
            return FileAnswer(303, {**SECURITY, **own}, b"")
        file = self._files.get(path)
        if file is None:
            text = "The console may have been renewed since you loaded it. Load it again."
            return _page(404, "There is no such page", text, with_body=method == "GET")
        return file.answer(headers, with_body=method == "GET")


def is_page(path: str, accept: str) -> bool:
    """Return whether a request is for a console file, or for `/` from a browser."""
    return path.startswith(_FOLDER) or (path == "/" and "text/html" in accept.lower())


def _page(
    status: int,
    title: str,
    text: str,
    headers: Mapping[str, str] | None = None,
    *,
    with_body: bool = True,
) -> FileAnswer:
    body = _PAGE.format(title=title, text=text).encode()
    own = {
        "Content-Type": _TYPES[".html"],
        "Cache-Control": "no-store",
        "Content-Length": str(len(body)),
    }
    return FileAnswer(status, {**SECURITY, **own, **(headers or {})}, body if with_body else b"")
