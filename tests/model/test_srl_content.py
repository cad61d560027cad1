"""What a list is made of, compared with what another was made of."""

from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from shared.model.srl import content as srl_content
from shared.model.srl.content import Content

_NAMES = st.lists(st.sampled_from([f"svc_wrt_{number:02}" for number in range(40)]))


@given(ours=_NAMES, theirs=_NAMES, run=st.integers(1, 9))
def test_what_is_missing(ours: list[str], theirs: list[str], run: int) -> None:
    """Those of any list that are not revoked here, wherever its runs end and however it is sorted.

    A damaged list may be in any order.
    """
    content = Content.of(set(ours), {}, signers=())
    with mock.patch.object(srl_content, "_RUN", run):
        for previous in (theirs, sorted(theirs)):
            assert content.missing(previous) == set(theirs) - set(ours)
