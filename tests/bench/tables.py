"""Just so much of DynamoDB and S3 as a first request asks, over loopback.

The tables and the bucket have what ports on one machine have.

It answers at once: what is left of a cold start is the function's own.
"""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from shared.adapters.aws.dynamodb_items import encode_address, encode_item
from shared.model.items import Address, Item, Partition, Table
from shared.ports import Ports
from shared.ports.store import Store
from tests.kit.processes import HOST

PREFIX: Final = "bench-"


@contextmanager
def serving(ports: Ports) -> Iterator[dict[str, str]]:
    """The tables, whose names begin with `PREFIX`; the environment that leads there."""
    server = ThreadingHTTPServer((HOST, 0), partial(_Handler, ports))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield {
            "AWS_ENDPOINT_URL": f"http://{HOST}:{server.server_port}",
            "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "pretended",
            "AWS_REGION": "eu-west-1",
            "AWS_DEFAULT_REGION": "eu-west-1",
        }
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, ports: Ports, *arguments: Any) -> None:
        self._store, self._blobs = ports.store, ports.blobs
        super().__init__(*arguments)

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = self.headers["X-Amz-Target"].rpartition(".")[2]
        body = json.dumps(_answer(self._store, name, request), default=_base64).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        folder = parse_qs(url.query).get("prefix", [""])[0].rstrip("/")
        if folder:
            names = [
                f"<Contents><Key>{each}</Key></Contents>" for each in self._blobs.names(folder)
            ]
            found = f"<KeyCount>{len(names)}</KeyCount>{''.join(names)}"
            self._say(f"<ListBucketResult>{found}</ListBucketResult>".encode())
        else:
            self._say(self._blobs.get(url.path.partition("/bench-blobs/")[2]) or b"")

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._say(b"")

    def _say(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def _answer(store: Store, name: str, request: dict[str, Any]) -> dict[str, Any]:
    match name:
        case "GetItem":
            key = _key(request["TableName"], request["Key"])
            found = store.get_many([key])
            return {"Item": _sent(key, found[key])} if found else {}
        case "BatchGetItem":
            return _batch(store, request["RequestItems"])
        case "Query":
            return _query(store, request)
        case "UpdateItem":
            return _update(request["ExpressionAttributeValues"])
    raise ValueError(name)


def _update(values: dict[str, Any]) -> dict[str, Any]:
    """The rate limit, as if it were in use and full by now; or the usage of a key, not stored."""
    return {"Attributes": {"full_at": values[":now"]}} if ":now" in values else {}


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _batch(store: Store, asked: dict[str, Any]) -> dict[str, Any]:
    responses = {}
    for table, its in asked.items():
        found = store.get_many([_key(table, each) for each in its["Keys"]])
        responses[table] = [_sent(key, item) for key, item in found.items()]
    return {"Responses": responses, "UnprocessedKeys": {}}


def _query(store: Store, request: dict[str, Any]) -> dict[str, Any]:
    values = {name: value["S"] for name, value in request["ExpressionAttributeValues"].items()}
    partition = Partition(_table(request["TableName"]), values[":pk"])
    entries = store.query(
        partition,
        after=values.get(":after"),
        before=values.get(":before"),
        newest_first=not request.get("ScanIndexForward", True),
        limit=request.get("Limit"),
    )
    items = [_sent(partition.address(entry.sk), entry.item) for entry in entries]
    return {"Items": items, "Count": len(items)}


def _key(table: str, attributes: dict[str, Any]) -> Address:
    return Address(_table(table), attributes["pk"]["S"], attributes["sk"]["S"])


def _table(name: str) -> Table:
    return Table(name.removeprefix(PREFIX))


def _sent(address: Address, item: Item) -> dict[str, Any]:
    return encode_address(address) | encode_item(item)
