"""The console over API Gateway."""

import importlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.console import handler as module
from functions.console.files import Files
from functions.tenant_settings import handler as tenant_settings
from shared.errors import InvalidSettings
from shared.web.strangers import AnonymousLimiter
from tests.kit.asgi import EVERY_RESPONSE
from tests.kit.lambda_events import Answer, Request, assert_error

_BROWSER = (("Accept", "text/html,application/xhtml+xml,*/*;q=0.8"),)

Below = Callable[[str], Any]


@pytest.fixture
def below(monkeypatch: pytest.MonkeyPatch) -> Iterator[Below]:
    """The handler of a function with this base path."""

    def load(base: str) -> Any:
        monkeypatch.setenv("RESCIND_BASE_PATH", base)
        return importlib.reload(module)

    yield load
    monkeypatch.undo()
    importlib.reload(module)


def _call(method: str, path: str, headers: Any = _BROWSER, stripped: str | None = None) -> Answer:
    event = Request(method, path, headers=headers).http_api()
    event["rawPath"] = stripped or path
    return Answer.of(module.handler(event, None))


def test_the_page_and_its_files_are_sent() -> None:
    """F447b: On AWS the answers are those of one machine, and allow browsers only https."""
    files = Files()
    gzip = {"accept-encoding": "gzip, deflate"}
    for path in (*files.paths, "/console/none"):
        for method in ("GET", "HEAD", "POST"):
            expected = files.answer(method, path, gzip)
            answer = _call(method, path)
            assert (answer.status, answer.body) == (expected.status, expected.body)
            headers = {name.lower(): value for name, value in expected.headers.items()}
            hsts = {"strict-transport-security": "max-age=31536000"}
            more = {name: answer.headers[name] for name in EVERY_RESPONSE}
            assert answer.headers == headers | hsts | more


def test_a_stranger_draws_on_the_bucket_of_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """AUTH-9, F560b: On AWS, files of the console take tokens of the source address as well."""
    frozen = datetime(2026, 11, 23, tzinfo=UTC)
    monkeypatch.setattr(module, "_ANONYMOUS", AnonymousLimiter(lambda: frozen))
    for left in range(2000, 0, -1):
        answer = _call("GET", "/")
        assert (answer.status, answer.headers["x-ratelimit-limit"]) == (200, "1000")
        assert answer.headers["x-ratelimit-remaining"] == str(min(left - 1, 1000))
    refused = _call("GET", "/console/none")
    assert_error(refused, 429, "rate_limited")
    assert refused.headers["retry-after"] == "1"


@pytest.mark.usefixtures("from_environment")
@pytest.mark.parametrize("key", [None, "svc_" + "a" * 43])
def test_a_program_gets_the_answer_of_the_api(key: str | None) -> None:
    """F449a: Without `text/html` in Accept, the answer at `/` is that of the API without a page."""
    headers: Any = (("Accept", "application/json"),)
    headers += (("Authorization", f"Bearer {key}"),) if key else ()
    answer = _call("GET", "/", headers=headers)
    # That of a caller whose key is right is 404; this function cannot read keys.
    assert_error(answer, 404 if key else 401, "not_found" if key else "unauthorized")
    if key is None:
        event = Request("GET", "/", headers=headers).http_api()
        of_api = Answer.of(tenant_settings.handler(event, None))
        assert (answer.status, answer.body) == (of_api.status, of_api.body)
        more = {"strict-transport-security"}
        assert set(answer.headers) == set(of_api.headers) - {"content-length"} | more


@pytest.mark.parametrize("base", ["auth", "team/auth", "console"])
def test_the_console_is_below_the_base_path(below: Below, base: str) -> None:
    """F449b: The console works below a base path, whether or not the event's path has it."""
    below(base)
    script = next(path for path in Files().paths if path != "/") if len(Files().paths) > 1 else "/"
    for path in ("/", script):
        whole = f"/{base}{path}"
        for stripped in (path, whole):
            assert _call("GET", whole, stripped=stripped).status == 200
        assert _call("GET", path).status == 200
    for stripped in ("/", f"/{base}"):
        answer = _call("GET", f"/{base}", stripped=stripped)
        assert (answer.status, answer.headers["location"]) == (308, f"/{base}/")


def test_a_base_path_that_is_not_valid_is_refused(below: Below) -> None:
    with pytest.raises(InvalidSettings):
        below("v1")


def test_header_names_may_have_any_case() -> None:
    """SAM local leaves the names of headers as they were sent; API Gateway has them lower."""
    event = Request("GET", "/").http_api()
    event["headers"] = {"Accept": "text/html", "Accept-Encoding": "gzip"}
    answer = Answer.of(module.handler(event, None))
    assert (answer.status, answer.headers["content-encoding"]) == (200, "gzip")


def test_an_answer_fits_into_an_event() -> None:
    """The largest file, in base64, is far below Lambda's limit of 6 MB."""
    sizes = [
        len(json.dumps(module.handler(Request("GET", path, headers=_BROWSER).http_api(), None)))
        for path in Files().paths
    ]
    assert max(sizes) < 1_000_000
