"""Each clause of docs/spec, chapter of docs/security.md and case has a test that claims it."""

import re
from collections import Counter
from itertools import groupby
from string import ascii_lowercase

from tests import assurance

# F46 was about data of releases before 0.3.0; F141 was never given. VERIFY-5 says how often a
# verifier should ask, which is up to its owner.
_NOT_GIVEN, _UP_TO_OTHERS = [46, 136, 137, 140, 141], {"VERIFY-5"}
# From this number on, numbers are given in blocks, which need not be used up.
_IN_BLOCKS = 159


def test_the_claims_of_an_identifier() -> None:
    """An identifier has its own claims, and a case those of all its letters, but of no other."""
    of_the_case = assurance.of("F06")
    assert all(any(each.startswith("F06") for each in claim.ids) for claim in of_the_case)
    assert 0 < len(assurance.of("F06b")) < len(of_the_case)
    assert assurance.of("API-1")
    assert all("API-1" in claim.ids for claim in assurance.of("API-1"))
    assert assurance.of("NONE-1") == []


def test_each_clause_and_chapter_has_a_claim() -> None:
    """No claim cites what is not there, and only what others must do has no claim."""
    cited = {
        each for claim in assurance.claims() for each in claim.ids if not assurance.is_case(each)
    }
    assert cited == {*assurance.headings()} - _UP_TO_OTHERS


def test_the_cases_are_numbered_without_gaps() -> None:
    """Each case has a claim, lettered from `a` on, and no letter is given twice.

    There are gaps between blocks of numbers only.
    """
    lettered = sorted(
        (int(each[1:-1]), each[-1])
        for claim in assurance.claims()
        for each in claim.ids
        if re.fullmatch(r"F\d+[a-z]", each)
    )
    letters = {
        number: "".join(letter for _, letter in group)
        for number, group in groupby(lettered, key=lambda pair: pair[0])
    }
    assert [n for n in range(1, _IN_BLOCKS) if n not in letters] == _NOT_GIVEN
    assert [n for n, given in letters.items() if not ascii_lowercase.startswith(given)] == []
    texts = assurance.docstrings().values()
    referred = {int(each) for text in texts for each in re.findall(r"\bF(\d+)\b", text)}
    assert referred <= {*letters}


def test_each_claim_is_one_sentence_of_its_own() -> None:
    """A claim can be read without its test, and no two say the same."""
    sentences = Counter(claim.sentence for claim in assurance.claims())
    assert [each for each, count in sentences.items() if count > 1] == []
    assert [each for each in sentences if not re.fullmatch(r"[A-Z0-9`$].*[.]", each)] == []


def test_the_tests_that_pages_name_are_there() -> None:
    """No page of docs/ names a test that is not there."""
    pages = [page.read_text(encoding="utf-8") for page in assurance.DOCS.rglob("*.md")]
    named = {each for text in pages for each in re.findall(r"`([\w/]+\.py)::(\w+)`", text)}
    assert sorted(named - {*assurance.docstrings()}) == []
