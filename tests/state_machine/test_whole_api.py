"""The whole API under faults, crashes and wrong clocks: nothing is lost, nothing is half done."""

import os
import random
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import initialize, run_state_machine_as_test

from tests.kit.faults import Kind
from tests.state_machine.audit_log import AuditLogRules
from tests.state_machine.authorizers import AuthorizerRules
from tests.state_machine.machine import RULES
from tests.state_machine.revocation_batches import BatchRules
from tests.state_machine.revocations import RevocationRules
from tests.state_machine.service import How, Tally
from tests.state_machine.service_accounts import ServiceAccountRules
from tests.state_machine.srl_signers import SignerRules
from tests.state_machine.strategies import HANDLES
from tests.state_machine.tenants import TenantRules
from tests.state_machine.warrants import WarrantRules
from tests.state_machine.webhooks import WebhookRules

# Rules depend on what others made, so that few draws do much at first.
_UNHURRIED = settings(
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


class WholeApi(
    ServiceAccountRules,
    WarrantRules,
    RevocationRules,
    BatchRules,
    SignerRules,
    AuthorizerRules,
    WebhookRules,
    AuditLogRules,
    TenantRules,
):
    """All rules; what they do is counted in the tally of the class."""

    tally: ClassVar[Tally]

    @initialize()
    def furnish(self) -> None:
        """Something of everything, for the rules to begin with; that is not counted."""
        calm: dict[str, Any] = {"how": How(), "pick": 0}
        for handle in HANDLES:
            self.create_account(handle=handle, how=How(), name="ci")
            self.create_api_key(handle=handle, how=How(), scopes=["admin"], minutes=60, owner=0)
            self.register_authorizer(handle=handle, how=How())
            self.create_webhook(handle=handle, how=How())
            self.create_root(handle=handle, how=How(), minutes=None)
            self.create_child(handle=handle, type_="issuer", **calm)
            self.sign(handle=handle, warrant_id=None, minutes=5, **calm)
            self.revoke_warrant(
                handle=handle, how=How(), warrant_id="svc_wrt_a", signed=None, minutes=None
            )
        self.service.tally = self.tally


def whole_api() -> type[WholeApi]:
    """The machine, with a tally of its own."""
    return type("WholeApi", (WholeApi,), {"tally": Tally()})


def test_nothing_is_lost() -> None:
    """F31b, F22, F25: Random operations, faults, crashes and clocks lose no acknowledged change."""
    runs = settings(_UNHURRIED, max_examples=3, stateful_step_count=25)
    run_state_machine_as_test(whole_api(), settings=runs)


# One run may leave a rare rule without a success. Ten in turn do not.
_MOST_RUNS = 10


@pytest.mark.slow
def test_nothing_is_lost_in_the_long_run() -> None:
    """F22, F25, F31: In many runs, every rule and every fault had its effect.

    STATE_MACHINE_SEED names the first run, STATE_MACHINE_EXAMPLES makes it longer or shorter.
    """
    any_seed = 0 if settings().derandomize else random.SystemRandom().getrandbits(32)
    number = int(os.environ.get("STATE_MACHINE_SEED", any_seed))
    examples = int(os.environ.get("STATE_MACHINE_EXAMPLES", "20"))
    whole = whole_api()
    runs = settings(_UNHURRIED, max_examples=examples, stateful_step_count=80)
    for each in range(number, number + _MOST_RUNS):
        print(f"STATE_MACHINE_SEED={each}")
        run_state_machine_as_test(seed(each)(whole), settings=runs)
        if not _without_effect(whole.tally):
            break
    print(whole.tally)
    assert _without_effect(whole.tally) == set()


def _without_effect(tally: Tally) -> set[str]:
    """The rules that never succeeded, and the kinds of faults that never struck."""
    struck = {kind for kind, _ in tally.struck}
    rules = {name for name in RULES if not tally.succeeded[name]}
    return rules | {str(kind) for kind in Kind if kind not in struck}
