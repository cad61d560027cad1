"""What a verifier refuses because of what it accepted before."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.errors import InvalidSrl
from shared.model import seeds
from shared.model.lists import content as srl
from shared.model.lists.content import Payload
from shared.model.lists.signers import ServedSigners
from shared.model.lists.verification import MAX_STEP, LastAcceptedSrl, VerifierPolicy, verify_next

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SEED, OTHER = b"\x01" * 32, b"\x02" * 32


def public(seed: bytes) -> bytes:
    return base64.b64decode(seeds.public_key(seed))


POLICY = VerifierPolicy([public(SEED)])


def signed_list(version: int, *ids: str, seed: bytes = SEED) -> bytes:
    return srl.sign(Payload(version, NOW, NOW + timedelta(hours=1), list(ids)), seed=seed)


def accept(
    body: bytes, seen: LastAcceptedSrl | None = None, policy: VerifierPolicy = POLICY
) -> LastAcceptedSrl:
    payload, now_seen = verify_next(body, policy, last_accepted=seen, now=NOW)
    assert payload.version == now_seen.version
    return now_seen


def refused(reason: str, *arguments: Any) -> None:
    with pytest.raises(InvalidSrl) as caught:
        accept(*arguments)
    assert caught.value.reason == reason, caught.value


def test_the_next_list_is_accepted_and_the_same_one_again() -> None:
    """Whoever polls is mostly offered the list that he has."""
    seen = accept(signed_list(7, "svc_wrt_a"))
    assert (seen.version, seen.signer) == (7, public(SEED))
    assert accept(signed_list(7, "svc_wrt_a"), seen) == seen
    assert accept(signed_list(8), seen).version == 8


def test_an_older_list_is_refused() -> None:
    """F06: whatever `--min-version` says."""
    refused("rollback", signed_list(6), accept(signed_list(7)))
    refused("rollback", signed_list(6), None, replace(POLICY, min_version=7))


def test_another_list_of_the_same_version_is_refused() -> None:
    """VERIFY-1, F62a, S5: A verifier refuses another list of a version that it has accepted."""
    refused("equivocation", signed_list(7), accept(signed_list(7, "svc_wrt_a")))


def test_too_large_a_step_is_refused() -> None:
    """VERIFY-1, F62b, S5: A verifier refuses a list whose version is too far ahead."""
    seen = accept(signed_list(7))
    assert accept(signed_list(7 + MAX_STEP), seen).version == 7 + MAX_STEP
    refused("step", signed_list(8 + MAX_STEP), seen)
    refused("step", signed_list(10), seen, replace(POLICY, max_step=2))
    assert accept(signed_list(9), seen, replace(POLICY, max_step=2)).version == 9


def test_a_revoked_key_stays_revoked() -> None:
    """F63: also once the answer that told so is not given any more."""
    policy = VerifierPolicy([public(SEED), public(OTHER)])
    seen = accept(signed_list(7), None, policy)
    reported = ServedSigners(revoked=frozenset({public(SEED)}))
    refused("signature", signed_list(8), seen, replace(policy, reported=reported))
    seen = accept(signed_list(8, seed=OTHER), seen, replace(policy, reported=reported))
    refused("signature", signed_list(9), seen, policy)


def test_a_key_that_signed_nothing_is_not_revoked_for_ever() -> None:
    """VERIFY-4, F569a: A false status of a key counts only as long as it is reported."""
    policy = VerifierPolicy([public(SEED), public(OTHER)])
    reported = ServedSigners(revoked=frozenset({public(OTHER)}))
    seen = accept(signed_list(7), None, replace(policy, reported=reported))
    refused("signature", signed_list(8, seed=OTHER), seen, replace(policy, reported=reported))
    assert accept(signed_list(8, seed=OTHER), seen, policy).version == 8


@pytest.mark.parametrize(
    "answer",
    [
        *(None, [], {}, {"keys": None}, {"keys": [None]}, {"keys": [{}]}),
        {"keys": [{"statement": None, "status": "revoked", "public_key": "?"}]},
        {"keys": [{"statement": None, "status": "revoked", "public_key": None}]},
    ],
    ids=str,
)
def test_what_is_no_answer_about_keys(answer: Any) -> None:
    """It is refused whole, never read as one that tells nothing."""
    with pytest.raises(ValueError, match=r"response|base64"):
        ServedSigners.parse(json.dumps(answer).encode())
