"""The CDDL of docs/spec/feed.md, as a checker reads it that knows nothing of the codec."""

import base64
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import cbor2
import pytest

from shared.authorizer.formats import wire
from shared.authorizer.formats.members import parse_json
from tests.authorizer.feeds import Feed
from tests.conformance.vectors import vectors
from tests.kit.peers import is_of_type
from tests.kit.processes import ROOT

_PAGE = ROOT / "docs" / "spec" / "feed.md"
_CODEC: dict[str, Callable[[bytes], object]] = {
    "head": wire.SignedHead.decode,
    "entry": wire.FeedEntry.decode,
}

Item = tuple[str, bytes]

# What the checker does not do as RFC 8610 says: it counts the characters of a text and not its
# bytes, and it wants the members of a map in the order of the CDDL, others last.
_ASIDE = (b"\xc3\xa4", b"cWhy", b"dNote", b"a?")


def _valid(items: Iterable[Item]) -> list[bool]:
    """What the checker says of each item."""
    (cddl,) = re.findall(
        r"^```cddl\n(.*?)^```", _PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return is_of_type(cddl, items)


def _is_decoded(name: str, data: bytes) -> bool:
    try:
        _CODEC[name](data)
    except wire.MalformedBytes:
        return False
    return True


def _published() -> list[Item]:
    """The heads and entries of all cases that the codec reads."""
    items = set[Item]()
    for step in (step for case in vectors() for step in case["steps"]):
        try:
            answer = parse_json(step["request"]["poll"]["answer"].encode())
            items.add(("head", base64.b64decode(answer["head"]["Payload"])))
            items |= {("entry", base64.b64decode(each)) for each in answer["entries"]}
        except (KeyError, TypeError, ValueError):
            continue
    return sorted(
        item for item in items if _is_decoded(*item) and not any(each in item[1] for each in _ASIDE)
    )


def _altered() -> list[Item]:
    """A head and an entry with each member left out, or of another type or size."""
    feed = Feed()
    feed.publish("svc_wrt_a", removed=("svc_wrt_b",))
    keys, trust = wire.HashReference(b"k" * 32, 900), wire.HashReference(b"t" * 32, 7)
    head = cbor2.loads(replace(feed.head(), trust=trust, keys=keys).encode())
    entry = cbor2.loads(feed.entries[1])
    others: list[Any] = [None, -1, 2**53 + 1, "text", b"bytes", [], {}, [1], ["x" * 73], b"c" * 31]
    items = []
    for name, members in (("head", head), ("entry", entry)):
        for member in members:
            left = {key: each for key, each in members.items() if key != member}
            items.append((name, cbor2.dumps(left, canonical=True)))
            items += [
                (name, cbor2.dumps({**members, member: each}, canonical=True)) for each in others
            ]
    for name in ("Base", "Keys", "Trust"):
        for member in head[name]:
            for other in others:
                changed = {**head, name: {**head[name], member: other}}
                items.append(("head", cbor2.dumps(changed, canonical=True)))
    return items


@pytest.mark.slow
def test_the_grammar_of_the_page_is_that_of_the_codec() -> None:
    """F173e: The CDDL on the page admits what the codec reads, and refuses what it refuses."""
    published, altered = _published(), _altered()
    assert len(published) > 50
    assert [
        item for item, valid in zip(published, _valid(published), strict=True) if not valid
    ] == []
    differ = []
    for item, valid in zip(altered, _valid(altered), strict=True):
        if valid != _is_decoded(*item):
            differ.append((item[0], valid, cbor2.loads(item[1])))
    assert differ == []
