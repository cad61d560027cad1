"""Blobs in S3, where S3 fails."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.exceptions import ReadTimeoutError

from shared.adapters.aws.s3 import S3Blobs
from shared.errors import BlobExists, DataCorrupt, Unavailable
from tests.adapters import outages
from tests.adapters.answers import Answer, Answers, FakeTime, Given, Step
from tests.kit.aws import REGION

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

NAME = "srl/t1/1.json"
STORED = Answer(b"")
LOST = ReadTimeoutError(endpoint_url=outages.URL)


def refusal(code: str, status: int) -> Answer:
    body = f"<Error><Code>{code}</Code><Message>said by a test</Message></Error>"
    return Answer(body.encode(), status)


def page(*names: str, then: str = "") -> Answer:
    """A page of names, and with what to ask for the next one, where there is one."""
    contents = "".join(f"<Contents><Key>{name}</Key></Contents>" for name in names)
    following = f"<NextContinuationToken>{then}</NextContinuationToken>" if then else ""
    truncated = f"<IsTruncated>{str(bool(then)).lower()}</IsTruncated>"
    counted = f"<KeyCount>{len(names)}</KeyCount>{truncated}{following}{contents}"
    return Answer(f"<ListBucketResult>{counted}</ListBucketResult>".encode())


TAKEN = refusal("PreconditionFailed", 412)
CONTENDED = refusal("ConditionalRequestConflict", 409)
PASSING: dict[str, Step] = outages.NETWORK | {
    "slow down": refusal("SlowDown", 503),
    "broken": refusal("InternalError", 500),
    "no words": Answer(b"", 500),
    "too slow for it": refusal("RequestTimeout", 400),
}
OUTAGES: dict[str, Step] = PASSING | {
    "denied": refusal("AccessDenied", 403),
    "no bucket": refusal("NoSuchBucket", 404),
    "no credentials": outages.NO_CREDENTIALS,
    "not found by a proxy": Answer(b"", 404),
}


@pytest.fixture
def given(s3_client: S3Client) -> Given:
    """What S3 answers."""
    return partial(Answers, s3_client)


@pytest.fixture
def blobs(s3_client: S3Client, fake_time: FakeTime) -> S3Blobs:
    return S3Blobs(lambda: s3_client, bucket="a-bucket", patience=fake_time.patience())


@pytest.mark.parametrize("outage", OUTAGES)
def test_an_outage_is_unavailable(given: Given, blobs: S3Blobs, outage: str) -> None:
    """F26: whatever is no answer is `Unavailable`; being refused does not mean being absent."""
    given(OUTAGES[outage])
    calls: list[Callable[[], object]] = [
        lambda: blobs.get(NAME),
        lambda: blobs.put(NAME, b"data"),
        lambda: list(blobs.names("srl/t1")),
    ]
    for call in calls:
        with pytest.raises(Unavailable) as caught:
            call()
        assert "a-bucket" not in str(caught.value)


def test_only_a_missing_object_is_none(given: Given, blobs: S3Blobs) -> None:
    """S3's own word for a missing object is the one thing that means absent."""
    given(refusal("NoSuchKey", 404))
    assert blobs.get(NAME) is None


def test_a_put_says_that_it_creates(given: Given, blobs: S3Blobs) -> None:
    """The request carries the condition, and a checksum that S3 compares with what arrived."""
    answers = given(STORED)
    blobs.put(NAME, b"data")
    headers: Any = answers.requests[0].headers
    assert headers["If-None-Match"] == b"*"
    assert headers["x-amz-sdk-checksum-algorithm"] == b"SHA256"


@pytest.mark.parametrize("end", [STORED, TAKEN])
def test_a_contended_put_is_tried_again(
    given: Given, blobs: S3Blobs, fake_time: FakeTime, end: Answer
) -> None:
    """F24: two writers at one name are told apart once one of them has won."""
    answers = given(CONTENDED, CONTENDED, end)
    if end is STORED:
        blobs.put(NAME, b"data")
    else:
        with pytest.raises(BlobExists):
            blobs.put(NAME, b"data")
    assert len(answers.requests) == 3
    assert len(fake_time.slept) == 2


def test_lasting_contention_is_unavailable(
    given: Given, blobs: S3Blobs, fake_time: FakeTime
) -> None:
    """F24: at the deadline contention becomes `Unavailable`; it is never `BlobExists`."""
    given(CONTENDED)
    with pytest.raises(Unavailable):
        blobs.put(NAME, b"data")
    assert 2 < sum(fake_time.slept) < 4


def test_a_put_whose_answer_was_lost_succeeds(given: Given, blobs: S3Blobs) -> None:
    """F22: a put repeated after a lost answer is not in conflict with itself."""
    given(LOST, TAKEN, Answer(b"data"))
    blobs.put(NAME, b"data")


def test_a_put_whose_answer_was_lost_still_finds_anothers_blob(
    given: Given, blobs: S3Blobs
) -> None:
    """F22: a repeated put does not take another writer's blob for its own."""
    given(LOST, TAKEN, Answer(b"of another"))
    with pytest.raises(BlobExists):
        blobs.put(NAME, b"data")


def test_a_blob_that_was_cut_short_is_unavailable(given: Given, blobs: S3Blobs) -> None:
    """F26: part of a blob is never taken for the whole."""
    given(Answer(b"da", headers={"content-length": "4"}))
    with pytest.raises(Unavailable):
        blobs.get(NAME)


def test_a_blob_that_was_altered_is_corrupt(given: Given, blobs: S3Blobs) -> None:
    """F10: bytes that do not match the checksum they were stored with are not handed out."""
    checksum = base64.b64encode(hashlib.sha256(b"data").digest()).decode()
    headers = {"x-amz-checksum-sha256": checksum}
    given(Answer(b"data", headers=headers), Answer(b"date", headers=headers))
    assert blobs.get(NAME) == b"data"
    with pytest.raises(DataCorrupt):
        blobs.get(NAME)


@pytest.mark.parametrize("body", [b"", b"<ListBucketResult><Contents><Key>srl/t1/1.js", b"{}"])
def test_names_that_were_cut_short_are_unavailable(
    given: Given, blobs: S3Blobs, body: bytes
) -> None:
    """F23: an answer that is not whole never reads as a folder without blobs."""
    given(Answer(body))
    with pytest.raises(Unavailable):
        list(blobs.names("srl/t1"))


def test_an_empty_page_is_not_the_end(given: Given, blobs: S3Blobs) -> None:
    """F23: the names end with the page that says so, not with one that is empty."""
    pages = [page(then="a"), page("srl/t1/1.json", then="b"), page(then="c")]
    answers = given(*pages, page("srl/t1/2.json"))
    assert list(blobs.names("srl/t1")) == ["srl/t1/1.json", "srl/t1/2.json"]
    asked = [parse_qs(urlsplit(request.url).query) for request in answers.requests]
    assert [each.get("continuation-token") for each in asked] == [None, ["a"], ["b"], ["c"]]


def test_pages_that_lead_nowhere_are_unavailable(given: Given, blobs: S3Blobs) -> None:
    """F23: a page that asks for itself again is neither followed for ever nor taken for the end."""
    given(page("srl/t1/1.json", then="a"))
    with pytest.raises(Unavailable):
        list(blobs.names("srl/t1"))


def test_an_address_names_region_and_expiry(blobs: S3Blobs) -> None:
    """A signed address leads to the bucket's own region, since a redirect breaks the signature."""
    parts = urlsplit(blobs.url(NAME, ttl_seconds=90))
    query = parse_qs(parts.query)
    assert parts.netloc == f"a-bucket.s3.{REGION}.amazonaws.com"
    assert query["X-Amz-Expires"] == ["90"]
    assert query["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
