"""What a step is drawn from."""

from typing import Final

from hypothesis import strategies as st

from tests.kit.faults import Fault, Kind
from tests.state_machine.service import INSTANCES, How

# No part of any key or signature, and no part of each other.
HANDLES: Final = ("acme-limited", "globex-limited")

# How many calls of a verb a request may come to; where it makes fewer, nothing breaks.
_MANY: Final = {"write": 2, "get": 5, "get_many": 3, "query": 2, "column": 16}
_SINGLE: Final = ("put", "get_blob", "seal", "unseal", "lease")
# Every request reads, and what a write leaves behind matters most.
_VERB: Final = st.sampled_from(
    ["write"] * 5 + ["get", "get_many"] * 2 + ["query", "column", *_SINGLE]
)


def _fault(verb: str) -> st.SearchStrategy[Fault]:
    number = st.just(0) | st.integers(0, _MANY.get(verb, 1) - 1)
    return st.builds(Fault, st.sampled_from(Kind), st.just(verb), number)


FAULTS: Final = st.just(()) | st.lists(_VERB.flatmap(_fault), min_size=1, max_size=2).map(tuple)

HANDLE: Final = st.sampled_from(HANDLES)
PICK: Final = st.integers(0, 999)
# Of the callers' own making: both tenants use these, which lie in as many shards.
WARRANT: Final = st.sampled_from([f"svc_wrt_{name}" for name in "acdefgiklmop"])
# How long what a rule makes is valid.
MINUTES: Final = st.none() | st.sampled_from([5, 20, 60, 600])
HOW: Final = st.builds(
    How,
    instance=st.integers(0, INSTANCES - 1),
    caller=PICK,
    faults=FAULTS,
)
