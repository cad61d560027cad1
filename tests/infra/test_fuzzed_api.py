"""The API answers as its document says, whatever a fuzzer sends.

`make test` does not even collect this module: to read the document, and to think of requests,
takes seconds in each process.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    negative_data_rejection,
    positive_data_acceptance,
    unsupported_method,
)

from infra import data_folder
from infra.server import app
from shared import wiring
from shared.operations.lists import publication
from shared.operations.operator import onboarding
from tests.infra.folders import chosen


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The admin key of a tenant behind the local application."""
    folder = tmp_path_factory.mktemp("data")
    data_folder.prepare(folder)
    with pytest.MonkeyPatch.context() as environment:
        # A request for news is answered at once, as on Lambda.
        environment.setattr(app._work, "max_wait_seconds", 0)
        app._ports.cache_clear()
        with chosen(data_folder.environment(folder), environment) as ports:
            yield onboarding.create_tenant(ports, handle="fuzzed")[1].secret
        app._ports.cache_clear()


# Left out: positive_data_acceptance. A schema cannot say that a cursor is ours, that a time lies
# ahead or that a parent exists.

# GET and DELETE of one of these are for a revocation or an authorizer that is not there: no 405.
LIKE_AN_IDENTIFIER: Final = {
    *(f"/v1/revocations/{name}" for name in ("batch", "check", "check-batch", "counts")),
    *(f"/v1/revocations/{name}" for name in ("feed", "srl")),
    *(f"/v1/authorizers/{name}" for name in ("native-signer", "register", "reports", "summary")),
}

_PROVIDERS: Final = "/v1/tenant/identity-providers"


async def _never_stopped(scope: Any, receive: Any, send: Any) -> None:
    """The local application. The fuzzer starts and stops it with each request, a server once."""
    if scope["type"] != "lifespan":
        await app.app(scope, receive, send)
        return
    for _ in ("startup", "shutdown"):
        message = await receive()
        await send({"type": f"{message['type']}.complete"})


# What refuses a request that the document does not allow; the default list lacks 413.
_REFUSALS: Final = ["400", "401", "403", "404", "405", "409", "413", "415", "429", "5xx"]
_CONFIG: Final = SchemathesisConfig.from_dict(
    {"checks": {"negative_data_rejection": {"expected-statuses": _REFUSALS}}}
)
schema = schemathesis.openapi.from_asgi("/openapi.json", _never_stopped, config=_CONFIG)


@pytest.mark.slow
@schema.parametrize()
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
def test_the_api_is_as_documented(case: Any, secret: str) -> None:
    """Whatever is sent, the answer is one that the document has for it."""
    values = case.body.values() if isinstance(case.body, dict) else ()
    is_padded = any(isinstance(each, str) and each != each.strip() for each in values)
    unknown = "x-schemathesis-unknown-property"
    excluded = [
        positive_data_acceptance,
        *([unsupported_method] if case.path in LIKE_AN_IDENTIFIER else []),
        # Its issuer is asked, which does not exist.
        *([not_a_server_error] if case.path.startswith(_PROVIDERS) else []),
        # What is trimmed may be longer than the document says, and other headers may be sent.
        *([negative_data_rejection] if is_padded or unknown in (case.headers or {}) else []),
    ]
    publication.publish_due(wiring.from_environment())  # Nobody else does; it is due in a minute.
    case.call_and_validate(headers={"Authorization": f"Bearer {secret}"}, excluded_checks=excluded)
