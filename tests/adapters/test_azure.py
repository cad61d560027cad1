"""Blobs in Azure, where Azure fails. The contract runs on Azurite (tests/engines)."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from shared.adapters.azure.blobs import AzureBlobs
from shared.errors import BlobExists, InvalidSettings, Unavailable
from tests.adapters.answers import FakeTime
from tests.kit.receivers import Receiver, Script, answer, plainly

NAME = "srl/t1/1.json.gz"
LOCATION = "anaccount/a-container"
STAMP = ("ETag: x", "Last-Modified: Thu, 26 Nov 2026 12:00:00 GMT")
STORED = answer(201, b"", *STAMP)

# What opens blobs at a receiver.
At = Callable[[Receiver], AzureBlobs]


def found(data: bytes) -> Script:
    return answer(200, data, *STAMP)


def refusal(code: str, status: int) -> Script:
    return answer(status, f"<Error><Code>{code}</Code><Message>said</Message></Error>".encode())


def page(*names: str, then: str = "") -> Script:
    """A page of names, and with what to ask for the next one, where there is one."""
    properties = "<Properties><Last-Modified>Thu, 26 Nov 2026 12:00:00 GMT</Last-Modified>"
    properties += "<Etag>x</Etag><Content-Length>1</Content-Length><Content-Type/></Properties>"
    blobs = "".join(f"<Blob><Name>{name}</Name>{properties}</Blob>" for name in names)
    body = f"<Blobs>{blobs}</Blobs><NextMarker>{then}</NextMarker>"
    return answer(200, f"<EnumerationResults>{body}</EnumerationResults>".encode())


TAKEN = refusal("BlobAlreadyExists", 409)
PASSING: dict[str, Script] = {
    "cut off": lambda _request, _connection: None,
    "busy": refusal("ServerBusy", 503),
    "broken": refusal("InternalError", 500),
    "no words": answer(500),
    "behind a proxy": answer(502, b"<html>Bad Gateway</html>"),
    "another conflict": refusal("ContainerBeingDeleted", 409),
}
LASTING: dict[str, Script] = {
    "denied": refusal("AuthorizationPermissionMismatch", 403),
    "another's key": refusal("AuthenticationFailed", 403),
    "no credentials": refusal("NoAuthenticationInformation", 401),
    "no container": refusal("ContainerNotFound", 404),
}
OUTAGES = PASSING | LASTING | {"not found by a proxy": answer(404)}


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, fake_time: FakeTime) -> At:
    key = base64.b64encode(bytes(32)).decode()
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", key)

    def made(receiver: Receiver) -> AzureBlobs:
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"http://127.0.0.1:{receiver.port}")
        return AzureBlobs(LOCATION, patience=fake_time.patience())

    return made


@contextmanager
def answering(at: At, *scripts: Script) -> Iterator[tuple[AzureBlobs, Receiver]]:
    with plainly(*scripts) as receiver:
        yield at(receiver), receiver


@pytest.mark.parametrize("outage", OUTAGES)
def test_an_outage_is_unavailable(at: At, outage: str) -> None:
    """F637a: Whatever is no answer is `Unavailable`; neither a refusal nor 404 means absent.

    What may pass is tried again, and what Azure says it lacks is not.
    """
    calls: list[Callable[[AzureBlobs], object]] = [
        lambda blobs: blobs.get(NAME),
        lambda blobs: blobs.put(NAME, b"data"),
        lambda blobs: list(blobs.names("srl/t1")),
        lambda blobs: blobs.discard("srl/t1", before="2"),
        lambda blobs: blobs.remove(NAME),
    ]
    for call in calls:
        with answering(at, OUTAGES[outage]) as (blobs, receiver):
            with pytest.raises(Unavailable) as caught:
                call(blobs)
            assert "a-container" not in str(caught.value)
            attempts = len(receiver.requests)
            assert attempts > 1 if outage in PASSING else attempts == 1 or outage not in LASTING


@pytest.mark.parametrize("outage", PASSING)
def test_a_short_outage_is_not_noticed(at: At, outage: str) -> None:
    """F637b: What succeeds at a further attempt is a success."""
    bad = PASSING[outage]
    with answering(at, bad, found(b"data"), bad, STORED, bad, page("srl/t1/1")) as (blobs, _):
        assert blobs.get(NAME) == b"data"
        blobs.put(NAME, b"data")
        assert list(blobs.names("srl/t1")) == ["srl/t1/1"]


def test_an_outage_says_what_to_do(at: At) -> None:
    """F637c: The error names Azure's code; its cause says in words what the operator has to do."""
    with answering(at, OUTAGES["denied"]) as (blobs, _), pytest.raises(Unavailable) as caught:
        blobs.get(NAME)
    assert "(Azure: AuthorizationPermissionMismatch)" in str(caught.value)
    assert "role Storage Blob Data Contributor" in str(caught.value.__cause__)


def test_only_a_missing_blob_is_none(at: At) -> None:
    """F637: Azure's own word for a missing blob is the one thing that means absent."""
    with answering(at, refusal("BlobNotFound", 404)) as (blobs, receiver):
        assert blobs.get(NAME) is None
        assert len(receiver.requests) == 1


def test_a_put_says_that_it_creates(at: At) -> None:
    """F637d: A put creates; the blob has what its address is to be served with."""
    with answering(at, STORED) as (blobs, receiver):
        blobs.put(NAME, b"data")
    headers = receiver.requests[0].headers
    assert headers["if-none-match"] == "*"
    assert headers["x-ms-blob-content-type"] == "application/json"
    assert headers["x-ms-blob-content-encoding"] == "gzip"
    assert headers["x-ms-blob-cache-control"] == "private, no-cache"


@pytest.mark.parametrize("stored", [b"data", b"of another"])
def test_a_put_whose_answer_was_lost(at: At, stored: bytes) -> None:
    """F22: A repeated put is not in conflict with itself, and takes no other blob for its own."""
    with answering(at, PASSING["cut off"], TAKEN, found(stored)) as (blobs, _):
        if stored == b"data":
            blobs.put(NAME, b"data")
        else:
            with pytest.raises(BlobExists):
                blobs.put(NAME, b"data")


def test_a_blob_that_was_cut_short_is_unavailable(at: At) -> None:
    """F26: Part of a blob is never taken for the whole."""
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nETag: x\r\n" + STAMP[1].encode() + b"\r\n\r\nda"
    with (
        answering(at, lambda _request, connection: connection.sendall(cut)) as (blobs, _),
        pytest.raises(Unavailable),
    ):
        blobs.get(NAME)


@pytest.mark.parametrize("body", [b"", b"<EnumerationResults><Blobs><Blob><Na", b"{}", b"<html/>"])
def test_names_that_were_cut_short_are_unavailable(at: At, body: bytes) -> None:
    """F23: An answer that is not whole never reads as a folder without blobs."""
    with answering(at, answer(200, body)) as (blobs, _), pytest.raises(Unavailable):
        list(blobs.names("srl/t1"))


def test_an_identity_signs_addresses(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    """F638a: Without a key, the machine's identity is used, also to sign addresses."""
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    token = {"access_token": "a-token", "expires_on": str(2**32)}
    fields = ("SignedOid", "SignedTid", "SignedStart", "SignedExpiry")
    said = "".join(f"<{name}>2026-11-26T12:00:00Z</{name}>" for name in fields)
    said += "<SignedService>b</SignedService><SignedVersion>2023-11-03</SignedVersion>"
    key = f"<UserDelegationKey>{said}<Value>a2V5</Value></UserDelegationKey>".encode()
    with plainly(answer(200, json.dumps(token).encode())) as identity:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://127.0.0.1:{identity.port}/token")
        monkeypatch.setenv("IDENTITY_HEADER", "a-secret")
        with answering(at, found(b"data"), answer(200, key)) as (blobs, receiver):
            assert blobs.get(NAME) == b"data"
            url = blobs.url(NAME, ttl_seconds=60)
    assert [each.headers["x-identity-header"] for each in identity.requests] == ["a-secret"]
    assert {each.headers["authorization"] for each in receiver.requests} == {"Bearer a-token"}
    assert urlsplit(url).path == f"/a-container/{NAME}"
    assert "sig=" in url
    assert "a-token" not in url


@pytest.mark.parametrize(
    ("location", "settings", "said"),
    [
        ("container", {}, "azure:<account>/<container>"),
        ("account/a--b", {}, "azure:<account>/<container>"),
        ("account/ab", {}, "azure:<account>/<container>"),
        ("Account/container", {}, "azure:<account>/<container>"),
        ("account/container/folder", {}, "azure:<account>/<container>"),
        (LOCATION, {"AZURE_STORAGE_ACCOUNT_KEY": "SECRET!"}, "Invalid Access Key"),
        (LOCATION, {"AZURE_STORAGE_ENDPOINT": "account"}, "AZURE_STORAGE_ENDPOINT is not valid"),
        (LOCATION, {"AZURE_STORAGE_ENDPOINT": "http://blobs"}, "AZURE_STORAGE_ENDPOINT is not"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    monkeypatch: pytest.MonkeyPatch, location: str, settings: dict[str, str], said: str
) -> None:
    """F638b: What is missing or not valid is named before anything is sent, and no secret is."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidSettings, match=said) as refused:
        AzureBlobs(location)
    assert "SECRET" not in str(refused.value)
