"""What the machine needs of pytest."""

import logging

import pytest

pytest.register_assert_rewrite(
    *(
        f"tests.state_machine.{name}"
        for name in (
            "api_keys",
            "attempts",
            "audit_log",
            "machine",
            "recount",
            "revocations",
            "service",
            "service_accounts",
            "signing_keys",
            "srl",
            "tenants",
            "warrants",
        )
    )
)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """That faults are logged is no news here."""
    caplog.set_level(logging.CRITICAL)
