"""Blobs in one container of an Azure storage account.

obstore reads the credentials from Azure's own variables: an account key, a client secret, a
federated token or a SAS. Without them, it uses the machine's managed identity. Its threads do not
survive a fork: if a process has called obstore, a call in its child never returns.
"""

import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, GenericError
from obstore.store import AzureStore

from shared.adapters.preconditions import check_blob_name
from shared.adapters.retries import PATIENCE, RetryPolicy
from shared.errors import BlobExists, InvalidSettings, Unavailable
from shared.model.lists.head import CACHE_CONTROL, content_encoding, media_type

R = TypeVar("R")

_LOCATION: Final = re.compile(
    r"(?P<account>[a-z0-9]{3,24})/(?P<container>(?=.{3,63}$)[a-z0-9]+(?:-[a-z0-9]+)*)"
)
_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_CONNECT_SECONDS: Final = 1
# Per attempt: the same as the read timeout of S3.
_ATTEMPT_SECONDS: Final = 10
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_TAKEN: Final = frozenset({"BlobAlreadyExists", "ConditionNotMet"})
_ROLE: Final = "the identity requires the role Storage Blob Data Contributor on the container"
_REFUSED: Final = "the account does not accept the credentials, or not from this network"
_WORDS: Final = {
    "ContainerNotFound": "there is no such container; create it",
    "AuthenticationFailed": _REFUSED,
    "InvalidAuthenticationInfo": _REFUSED,
    "NoAuthenticationInformation": _REFUSED,
    "AuthorizationFailure": _REFUSED,
    "AuthorizationPermissionMismatch": _ROLE,
}


class AzureError(Exception):
    """An explanation for the operator why Azure rejected a request."""


class AzureBlobs:
    """A `BlobStore` in the container `location`: `<account>/<container>`.

    `AZURE_STORAGE_ENDPOINT` is its endpoint outside the public cloud. Raises `InvalidSettings`.
    """

    def __init__(self, location: str, *, patience: RetryPolicy = PATIENCE) -> None:
        found = _LOCATION.fullmatch(location)
        if found is None:
            raise InvalidSettings(
                "RESCIND_BLOBS is not valid; set it to azure:<account>/<container>."
            )
        endpoint = urlsplit(os.environ.get("AZURE_STORAGE_ENDPOINT", "https://default"))
        # On this machine, TLS is not needed.
        is_plain = endpoint.scheme == "http" and endpoint.hostname in _LOCAL_HOSTS
        if not (is_plain or (endpoint.scheme == "https" and endpoint.hostname)):
            raise InvalidSettings(
                "AZURE_STORAGE_ENDPOINT is not valid; set it to an address such as"
                " https://<account>.blob.core.windows.net."
            )
        self._patience = patience
        try:
            self._store = AzureStore(
                found["container"],
                account_name=found["account"],
                client_options={
                    "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
                    "timeout": timedelta(seconds=_ATTEMPT_SECONDS),
                    "allow_http": is_plain,
                },
                retry_config={"max_retries": 0},
            )
        except BaseError as error:
            raise InvalidSettings(f"RESCIND_BLOBS: {_first_line(error)}") from error

    def put(self, name: str, data: bytes) -> None:
        """Store a new blob durably. Raises `BlobExists`, `Unavailable`."""
        check_blob_name(name)
        self._run(lambda attempt: self._create(name, data, is_first=attempt == 0))

    def _create(self, name: str, data: bytes, *, is_first: bool) -> None:
        # A signed URL cannot specify response headers, so the blob stores them.
        served = {"Content-Type": media_type(name), "Cache-Control": CACHE_CONTROL}
        if encoding := content_encoding(name):
            served["Content-Encoding"] = encoding
        try:
            obstore.put(self._store, name, data, mode="create", attributes={**served})
        except AlreadyExistsError as error:
            if _code(error) not in _TAKEN:
                raise
            # A retry may have found the blob of an earlier attempt.
            if is_first or self._read(name) != data:
                raise BlobExists from error

    def get(self, name: str) -> bytes | None:
        """Return the bytes of a blob, or None if it does not exist. Raises `Unavailable`."""
        check_blob_name(name)
        return self._run(lambda _: self._read(name))

    def _read(self, name: str) -> bytes | None:
        try:
            return bytes(obstore.get(self._store, name).bytes())
        except FileNotFoundError as error:
            if _code(error) != "BlobNotFound":
                raise  # The container is missing, or another server answered.
            return None

    def names(self, folder: str) -> Iterator[str]:
        """Yield the names of the blobs below `folder`, in order. Raises `Unavailable`."""
        check_blob_name(folder)
        yield from sorted(name for name, _ in self._run(lambda _: self._list(folder)))

    def _list(self, folder: str) -> list[tuple[str, datetime]]:
        pages = obstore.list(self._store, folder, chunk_size=1000)
        return [(each["path"], each["last_modified"]) for page in pages for each in page]

    def discard(
        self,
        folder: str,
        *,
        before: str,
        start: str = "",
        older_than_seconds: float | None = None,
        any_age_before: str = "",
    ) -> None:
        """Delete the blobs in `folder` named from `start` to before `before`.

        With `older_than_seconds`, delete only blobs that are older, or that sort before
        `any_age_before`. Raises `Unavailable`.
        """
        check_blob_name(folder)
        any_age = before if older_than_seconds is None else any_age_before
        oldest = datetime.now(UTC) - timedelta(seconds=older_than_seconds or 0)
        for path, stored_at in self._run(lambda _: self._list(folder)):
            name = path.removeprefix(f"{folder}/")
            is_old = name < any_age or stored_at < oldest
            if "/" not in name and start <= name < before and is_old:
                self.remove(path)

    def remove(self, name: str) -> None:
        """Delete a blob, if it exists. Raises `Unavailable`."""
        check_blob_name(name)
        self._run(lambda _: self._delete(name))

    def _delete(self, name: str) -> None:
        try:
            obstore.delete(self._store, name)
        except FileNotFoundError:
            # This error does not say whether the blob or the container is missing. A read does.
            if self._read(name) is not None:
                raise

    def url(self, name: str, *, ttl_seconds: int) -> str:
        """Return a signed URL. An identity obtains a signing key from Azure; a SAS cannot.

        Raises `Unavailable`. Only Lambda needs URLs, and it does not use Azure.
        """
        check_blob_name(name)
        ttl = timedelta(seconds=ttl_seconds)
        return self._run(lambda _: obstore.sign(self._store, "GET", name, ttl))

    def get_file(self, name: str, *, sha256: str) -> None:  # noqa: ARG002 (the port's)
        """Return None, because there are no files."""
        check_blob_name(name)

    def _run(self, call: Callable[[int], R]) -> R:
        """Return the result of `call`, which receives the number of the attempt.

        Raises `Unavailable`.
        """
        said = fault = ""
        for attempt in self._patience.attempts():
            try:
                return call(attempt)
            except (BaseError, FileNotFoundError) as error:
                said = _code(error) or type(error).__name__
                fault = _WORDS.get(said) or _first_line(error)
                # Retry without a response, or if the error may be temporary.
                if said in _WORDS or not isinstance(error, GenericError | AlreadyExistsError):
                    break
        raise Unavailable(f"{Unavailable.default_message} (Azure: {said})") from AzureError(fault)


def _code(error: BaseException) -> str:
    found = _CODE.search(str(error))
    return found[1] if found else ""


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
