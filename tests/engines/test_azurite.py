"""Blobs in a real Azurite: what the contract does not ask of every store."""

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from shared.adapters.azure.blobs import AzureBlobs
from shared.adapters.retries import RetryPolicy
from shared.errors import Unavailable
from tests.engines.clouds import container
from tests.engines.programs import azurite
from tests.kit.waiting import soon

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A container, with what leads to it in the environment."""
    with (
        azurite(tmp_path_factory.mktemp("azurite")) as settings,
        pytest.MonkeyPatch.context() as environment,
    ):
        for name, value in settings.items():
            environment.setenv(name, value)
        environment.setenv("AZURE_STORAGE_ENDPOINT", settings["RESCIND_TEST_AZURE_ENDPOINT"])
        with container() as made:
            yield made


def test_only_what_is_old_is_discarded(location: str) -> None:
    """F639a: Names before the bound go if they are old enough; others, and folders below, stay."""
    blobs = AzureBlobs(location)
    for name in ("f/01", "f/02", "f/03", "f/01/below", "g/01"):
        blobs.put(name, b"")
    blobs.discard("f", before="03", older_than_seconds=3600)
    assert list(blobs.names("f")) == ["f/01", "f/01/below", "f/02", "f/03"]
    blobs.discard("f", before="03", older_than_seconds=3600, any_age_before="02")
    assert list(blobs.names("f")) == ["f/01/below", "f/02", "f/03"]

    def is_discarded() -> bool:
        blobs.discard("f", before="03", older_than_seconds=1)
        return list(blobs.names("f")) == ["f/01/below", "f/03"]

    soon(is_discarded)
    blobs.discard("f", before="04")
    assert list(blobs.names("f")) == ["f/01/below"]
    assert list(blobs.names("g")) == ["g/01"]


def test_a_missing_container_is_not_one_without_blobs(location: str) -> None:
    """F637: Without the container nothing is absent, empty or removed."""
    blobs = AzureBlobs(f"{location}-2")
    calls: list[Callable[[], object]] = [
        lambda: blobs.get("a"),
        lambda: blobs.put("a", b""),
        lambda: list(blobs.names("a")),
        lambda: blobs.remove("a"),
        lambda: blobs.discard("a", before="b"),
    ]
    for call in calls:
        with pytest.raises(Unavailable, match="ContainerNotFound") as caught:
            call()
        assert str(caught.value.__cause__) == "there is no such container; create it"


def test_a_sas_is_enough(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """F638c: A SAS opens what it is for, signs no address, and is not told in errors."""
    blobs = AzureBlobs(location)
    for name in ("sas/1", "sas/2"):
        blobs.put(name, name.encode())
    sas = urlsplit(blobs.url("sas/1", ttl_seconds=60)).query
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", sas)
    with_sas = AzureBlobs(location, patience=RetryPolicy(deadline_seconds=0))
    assert with_sas.get("sas/1") == b"sas/1"
    for call in (lambda: with_sas.get("sas/2"), lambda: with_sas.url("sas/1", ttl_seconds=60)):
        with pytest.raises(Unavailable) as caught:
            call()
        assert sas.rpartition("sig=")[2] not in f"{caught.value} {caught.value.__cause__}"
