"""Requests that a proxy may read in another way than a server behind it (RFC 9112).

`POST` is replaced by the start of a request whose body the server reads.
"""

from typing import Final

_GET: Final = "GET / HTTP/1.1\r\n"
_FIELD: Final = "X-a: 1\r\n"
_CODED: Final = "Transfer-Encoding: chunked\r\n"
_CHUNKED: Final = f"POST{_CODED}\r\n"

REFUSED: Final = {
    "two lengths": "POSTContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths, one is 0": "POSTTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
    "two different lengths": "POSTContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
    "two lengths in one field": "POSTContent-Length: 4, 5\r\n\r\nabcd",
    "a signed length": "POSTContent-Length: +4\r\n\r\nabcd",
    "chunked twice": f"POST{_CODED}{_CODED}\r\n0\r\n\r\n",
    "chunked twice in one field": "POSTTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "another coding": "POSTTransfer-Encoding: gzip\r\n\r\n",
    "chunked before another coding": "POSTTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": f"{_GET}Host : x\r\n\r\n",
    "a space before the first field": f"{_GET} Host: x\r\n\r\n",
    "obs-fold": f"{_GET}Host: x\r\nX-a: 1\r\n 2\r\n\r\n",
    "obs-fold by tab": f"{_GET}Host: x\r\nX-a: 1\r\n\t2\r\n\r\n",
    "bare LF in the first line": "GET / HTTP/1.1\nHost: x\r\n\r\n",
    "bare LF in a header": f"{_GET}Host: x\nX-a: 1\r\n\r\n",
    "bare LF at the end": f"{_GET}Host: x\n\n",
    "bare LF at the very end": f"{_GET}Host: x\r\n\n",
    "bare CR in a header": f"{_GET}Host: x\r\nX-a: 1\rX-b: 2\r\n\r\n",
    "NUL in a header": f"{_GET}Host: x\r\nX-a: 1\x002\r\n\r\n",
    "NUL in the path": "GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a long header": f"{_GET}X-a: {'a' * 20_000}\r\n\r\n",
    "many headers": f"{_GET}Host: x\r\n{_FIELD * 2_500}\r\n",
    "a long path": f"GET /{'a' * 20_000} HTTP/1.1\r\nHost: x\r\n\r\n",
    "no host": f"{_GET}\r\n",
    "two hosts": f"{_GET}Host: x\r\nHost: y\r\n\r\n",
    "no request": "\r\nnonsense\r\n\r\n",
    "HTTP/2.0": "GET / HTTP/2.0\r\nHost: x\r\n\r\n",
    "HTTP/2 itself": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": "GET /\r\n\r\n",
    "absolute form": "GET http://other.example/healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "authority form": "CONNECT other.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a chunk without a size": f"{_CHUNKED}zz\r\n",
    "a chunk of negative size": f"{_CHUNKED}-1\r\n",
    "a chunk with 0x": f"{_CHUNKED}0x1\r\na\r\n0\r\n\r\n",
    "a chunk with a huge size": f"{_CHUNKED}{'f' * 40}\r\n",
    "a chunk line that ends with LF": f"{_CHUNKED}1\na\r\n0\r\n\r\n",
    "a chunk line with CR": f"{_CHUNKED}1;\rb\r\na\r\n0\r\n\r\n",
    "a second chunk line with CR": f"{_CHUNKED}1\r\na\r\n1;\rb\r\na\r\n0\r\n\r\n",
    "a last chunk line with CR": f"{_CHUNKED}0;\rb\r\n\r\n",
    "a chunk that does not end": f"{_CHUNKED}1\r\nabc\r\n0\r\n\r\n",
    "a last chunk that ends with LF": f"{_CHUNKED}0\r\n\n",
    "trailers": f"{_CHUNKED}0\r\nX-a: 1\r\n\r\n",
}

SECOND: Final = b"GET /second HTTP/1.1\r\nHost: x\r\n\r\n"


def sent(request: str, post: str) -> bytes:
    """The bytes of a request, with a second one behind it that nobody may see."""
    is_whole = request.startswith("POST ")
    text = request if is_whole else request.replace("POST", post, 1)
    return text.encode() + SECOND
