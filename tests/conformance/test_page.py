"""docs/spec/feed.md, which clients are written from, says what the code does."""

import re

from shared.authorizer import answers, state
from shared.authorizer.formats import members, wire
from shared.authorizer.formats.documents import RootReason
from shared.authorizer.policy import RejectionReason
from tests.authorizer.feeds import ENTRY
from tests.conformance.vectors import vectors
from tests.kit.processes import ROOT

_PAGE = (ROOT / "docs" / "spec" / "feed.md").read_text(encoding="utf-8")


def _section(title: str) -> str:
    return _PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_page_lists_each_refusal() -> None:
    """F173a: The page has a row and a check for each name of a refusal, in the same order."""
    section = _section("Checks, in this order")
    names = [each.value for each in RejectionReason]
    others = [each.value for each in RootReason if each.value not in names]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == names + others
    checks = section.split("| Refusal |")[0]
    assert {*re.findall(r"\(`(\w+)`\)", checks)} == {*names, "trust_expired", "behind"}


def test_the_page_states_the_limits_of_the_code() -> None:
    """F173b: The limits on the page are those that the code has."""
    rows = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", _section("Limits"), re.MULTILINE))
    assert rows["an answer"] == f"{answers.ANSWER_BYTES_MAX // 2**20} MiB"
    assert f" {wire.BASE_BYTES_EACH} bytes" in rows["a base, unpacked"]
    assert rows["an identifier"] == f"{wire.ID_BYTES_MAX} bytes"
    assert rows["sequence, version, count"] == "2^53"
    assert wire.NUMBER_MAX == 2**53
    assert rows["maps and lists around a value"] == str(members.NESTING_MAX)
    assert rows["lifetime of a feed head"] == f"{state.LIFETIME_MAX.days} days"
    assert rows["step with a base"] == "2^32"
    assert state.FAST_FORWARD_MAX == 2**32
    bounds = answers.POLL_SECONDS_MAX, answers.WAIT_SECONDS_MAX
    assert {int(rows["`poll_seconds`, `max_wait_seconds`"])} == {*map(int, bounds)}
    assert f"at most {wire.FUTURE_MAX.seconds} seconds after now" in _PAGE


def test_the_bytes_on_the_page_are_those_of_the_code() -> None:
    """F173c: The page shows the bytes of an entry and a break, and the prefixes that are signed."""
    for entry in (ENTRY, wire.FeedEntry(8)):
        assert f"\n{entry.encode().hex()}\n" in _PAGE
    prefixes = wire.signed_part(b""), b"rescind-feed-v1\n"
    for prefix in prefixes:
        assert f"`{prefix.decode()}`".replace("\n", "\\n") in _PAGE


def test_the_page_describes_the_requests_of_the_suite() -> None:
    """F173d: The page names each member of the requests and answers of the conformance suite."""
    section = _section("Conformance")
    steps = [step for case in vectors() for step in case["steps"]]
    requests = [each["request"] for each in steps]
    members = {(name, *sorted(given)) for each in requests for name, given in each.items()}
    assert len(members) == 9
    names = {name for each in members for name in each}
    names |= {name for each in steps for name in each["expected"]}
    assert [each for each in sorted(names) if f'"{each}":' not in section] == []
    verdicts = {each["expected"].get("verdict", "clear") for each in steps}
    assert all(re.search(rf'["`]{each}["`]', section) for each in verdicts)
