"""Complete decision about a request: its warrants are genuine and not revoked."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from .client import AuthorizerClient
from .formats.warrants import InvalidWarrant
from .status import Verdict
from .trust import VerifiedWarrant
from .view import today

# No request needs more warrants. Each one costs two signature checks.
_CHAIN_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class GuardDecision:
    """Whether a request is allowed. `reason` is `clear`, or the reason of a refusal.

    Reasons are the values of `Verdict`, `TrustReason` and `WarrantReason`, `missing` without a
    warrant, and `unknown` until the signing keys are available (TRUST-5). `warrants` contains the
    warrants of an allowed request, root to leaf.
    """

    is_allowed: bool
    reason: str
    warrants: tuple[VerifiedWarrant, ...] = ()


class Guard:
    """Decides about chains of warrants of the format `cose`. Threads may share it.

    `client` supplies the revoked warrants and equally recent signing keys (TRUST-5). Create the
    guard before the client starts. The payload of a warrant defines the permissions. The caller
    must interpret it.
    """

    def __init__(self, client: AuthorizerClient) -> None:
        self._client, self._keys = client, client.follow_keys()

    def decide(self, chain: Iterable[bytes]) -> GuardDecision:
        """Return the decision about the warrants of a request, from the root to the leaf."""
        warrants = list(chain)
        if not 0 < len(warrants) <= _CHAIN_MAX:
            return GuardDecision(False, "missing" if not warrants else "malformed")
        keys = self._keys.keys
        if keys is None:
            return GuardDecision(False, "unknown")
        try:
            verified = keys.verify_chain(warrants, now=today())
        except InvalidWarrant as error:
            return GuardDecision(False, error.reason.value)
        verdict = self._client.check([each.id for each in verified])
        is_clear = verdict is Verdict.CLEAR
        return GuardDecision(is_clear, verdict.value, tuple(verified) if is_clear else ())

    def decide_header(self, value: str) -> GuardDecision:
        """Return the decision about a header: base64 of each warrant, separated by commas."""
        parts = [each.strip() for each in value.split(",") if each.strip()]
        try:
            chain = [base64.b64decode(each, validate=True) for each in parts]
        except ValueError:
            return GuardDecision(False, "malformed")
        return self.decide(chain)
