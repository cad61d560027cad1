"""Two clients pass the conformance suite, and no client passes that leaves a check out."""

import importlib
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from shared.authorizer import conformance
from shared.authorizer.formats.documents import RootReason
from shared.authorizer.policy import Reason
from tests.conformance import runner
from tests.conformance.__main__ import main
from tests.conformance.vectors import vectors
from tests.kit import typescript
from tests.kit.processes import ROOT

_CASES = vectors()
_PYTHON = [sys.executable, "-m", "shared.authorizer", "conformance"]

# For each check: what a client that lacks it has in the place of a line of ours.
_LEFT_OUT = {
    "the size of an answer": ("answers", "len(data) > ANSWER_BYTES_MAX", "False"),
    "the form of base64": ("formats/members", "to_base64(data) != value", "False"),
    "the form of an answer": ("answers", "type(entries) is not list", "False"),
    "hints that are no numbers": ("answers", "isinstance(number, bool) or ", ""),
    "the signature": (
        "formats/ed25519",
        "        return False\n    return True",
        "        pass\n    return True",
    ),
    "the prefix of the signature": ("formats/wire", "HEAD_PREFIX + payload", "payload"),
    "the tenant": ("state", "head.tenant_id != tenant", "False"),
    "the longest lifetime": ("state", " <= LIFETIME_MAX", ""),
    "the order of times": ("state", "timedelta(0) < ", ""),
    "the future": ("state", "head.issued_at - now > wire.FUTURE_MAX", "False"),
    "the expiry": ("state", "now >= head.expires_at", "False"),
    "the expiry to the second": ("state", "now >= head.expires_at", "now > head.expires_at"),
    "the rollback": ("state", "any(head.sequence < sequence for sequence in passed)", "False"),
    "the equivocation": ("state", "passed.get(head.sequence, head.chain) != head.chain", "False"),
    "the replay": ("state", "head.issued_at < state.head.issued_at", "False"),
    "the floor": ("state", "(floor, state and state.position)", "(None, state and state.position)"),
    "what is held": ("state", "(floor, state and state.position)", "(floor, None)"),
    "the chain": ("state", "if chain != head.chain", "if False"),
    "the chain at the floor": ("state", "passed.get(sequence, chain) != chain", "False"),
    "the number of an entry": ("state", "entry.sequence != sequence", "False"),
    "the reach of an answer": ("state", "if reach < 0", "if False"),
    "breaks": ("state", "return bool(breaks)", "return False"),
    "breaks above the base": ("state", "sequence > base.sequence for", "False for"),
    "breaks after the base": ("state", "    _broken(entries, base)\n", ""),
    "the longest step": ("state", "head.sequence - max(passed) > FAST_FORWARD_MAX", "False"),
    "the size of a base": ("formats/wire", "len(data) > base_size_max(base)", "False"),
    "the hash of a base": ("formats/wire", "hashlib.sha256(data).digest() != base.sha256", "False"),
    "the version of a base": ("formats/wire", 'members.get("Version") != base.version', "False"),
    "the count of a base": ("formats/wire", " or len(ids) != base.count", ""),
    "nesting": ("formats/members", ", max_depth=NESTING_MAX)", ")"),
    "nesting of signing keys": ("formats/members", "max_depth=NESTING_MAX, ", ""),
    "texts of UTF-8": ("formats/members", "loads(data, ", "loads(data, str_errors='replace', "),
    "keys of small order": ("formats/ed25519", " and key not in _SMALL", ""),
    "the encoding": ("formats/members", "if again != data", "if False"),
    "the order of base and head": ("formats/wire", "base.sequence > head.sequence", "False"),
    "the range of numbers": ("formats/members", "not 0 <= value <= NUMBER_MAX", "False"),
    "the size of hashes": ("formats/members", "len(value) != HASH_BYTES", "False"),
    "the form of times": ("formats/members", "not _TIME.fullmatch(value)", "False"),
    "types": ("formats/members", "type(value) is not kind", "False"),
    "the order of identifiers": ("formats/members", "all(map(lt, found, found[1:]))", "True"),
    "repeated identifiers": ("formats/members", "import lt", "import le as lt"),
    "the size of identifiers": ("formats/wire", "len(each.encode()) > ID_BYTES_MAX", "False"),
    "identifiers that are texts": ("formats/members", "{*map(type, values)} <= {kind}", "True"),
    "empty members": ("formats/wire", "if not ids:", "if False:"),
    "contradictions": ("formats/wire", "not set(revoked).isdisjoint(removed)", "False"),
    "removed identifiers": ("formats/ids", "added.difference_update(entry.removed)", "pass"),
    "identifiers removed from a base": (
        "formats/ids",
        "removed.update(each for each in entry.removed if each in self.whole)",
        "pass",
    ),
    "revoked identifiers": ("formats/ids", "removed.difference_update(entry.revoked)", "pass"),
    "the tenant of a document": (
        "formats/following",
        "each.document.tenant_id != state.tenant_id",
        "False",
    ),
    "the pin": ("formats/following", "roots.pin == pin", "True"),
    "the roots before": (
        "formats/following",
        "    _signed(next_, held.document.roots)\n",
        "",
    ),
    "the roots of a document": (
        "formats/following",
        "next_ if roots == held.document.roots else _signed(next_, roots)",
        "next_",
    ),
    "two documents of one version": (
        "formats/following",
        "next_.document.version == version",
        "False",
    ),
    "an older document": (
        "formats/following",
        "documents[-1].document.version < held.document.version",
        "False",
    ),
    "the lifetime of a document": (
        "formats/following",
        "not timedelta(0) < expires_at - issued_at <= LIFETIME_MAX",
        "False",
    ),
    "a document of the future": ("formats/following", "issued_at > now + wire.FUTURE_MAX", "False"),
    "the end of a document": (
        "formats/following",
        "now >= state.held.document.expires_at",
        "False",
    ),
    "a hidden document": ("formats/following", "head.trust.number > state.version", "False"),
    "another document of the version": (
        "formats/following",
        "head.trust != state.held.reference",
        "False",
    ),
    "the use of a key": ("formats/trust", "if use in each.uses", "if each"),
    "the threshold": (
        "formats/documents",
        "left = signed_part(self.payload), roots.threshold",
        "left = signed_part(self.payload), 1",
    ),
    "the signature of a document": (
        "formats/documents",
        "signature is not None and ed25519",
        "signature is None or ed25519",
    ),
    "the sizes of documents": ("formats/documents", "len(payload) > DOCUMENT_BYTES_MAX", "False"),
    "the number of documents": ("formats/documents", "len(given) > DOCUMENTS_MAX", "False"),
    "the number of signatures": ("formats/documents", "len(signatures) > SIGNATURES_MAX", "False"),
    "the size of documents together": (
        "formats/documents",
        "len(body) > ANSWER_BYTES_MAX",
        "False",
    ),
    "a key that signed twice": ("formats/documents", "len(found) != len(forms)", "False"),
    "other members of roots": ("formats/trust", "len(members) != len(roots.members())", "False"),
    "roots that sign": (
        "formats/trust",
        "not {*document.roots.keys}.isdisjoint(each.key for each in document.signers)",
        "False",
    ),
    "the number of roots": (
        "formats/trust",
        "roots.threshold <= len(roots.keys) <= ROOTS_MAX",
        "roots.threshold <= len(roots.keys)",
    ),
    "the version of a document": ("formats/trust", "document.version < 1", "False"),
    "the quorum": ("formats/trust", "witnesses.quorum > len(witnesses.keys)", "False"),
    "who vouches for the first document": ("belief", "each.is_signed_by(by)", "True"),
    "the pin that was learned": (
        "belief",
        "self.state or TrustState(self.tenant, self._vouched(given))",
        "TrustState(self.tenant, self._vouched(given)) if self.vouching else self.state",
    ),
    "the position of a document": (
        "formats/following",
        "saved and signed_by in self.named(Use.LISTS)",
        "saved",
    ),
    "what a dropped signer signed": (
        "conformance",
        "self._signed_by not in self._belief.keys",
        "False",
    ),
    "the end of the document that is held": ("conformance", "now < held.expires_at", "True"),
    "the hash of signing keys": (
        "formats/signing_keys",
        "hashlib.sha256(blob).digest() != reference.sha256",
        "False",
    ),
    "the certificates of signing keys": ("conformance", "found.check(self._covered)", "pass"),
    "who may vouch for a key": ("formats/signing_keys", " and signer.type in _PARENTS", ""),
    "the number of signers": ("formats/trust", "len(named) > SIGNERS_MAX", "False"),
    "the size of signing keys": ("formats/signing_keys", "len(blob) > reference.number", "False"),
    "the tenant of signing keys": ("formats/signing_keys", "found.tenant_id != tenant_id", "False"),
    "members that come twice": ("formats/members", "allow_duplicate_keys=False, ", ""),
    "staleness": ("conformance", "state.is_expired(moment)", "False"),
    "the age of an answer": ("conformance", "max_staleness - age", "max_staleness"),
    "staleness without news": ("conformance", "moment >= self._end", "False"),
    "an older answer": ("conformance", "max(self._end, end)", "end"),
    "revoked although stale": ("state", "warrant_id in self.revoked", "False"),
}


def _failed(client: ModuleType) -> Iterator[str]:
    """The cases that a client fails; it runs in this process."""
    session = client.Session()

    def ask(request: runner.Request) -> Any:
        try:
            return session.answer(request)
        except Exception as error:  # noqa: BLE001
            return f"no answer: {error!r}"

    return (outcome.name for outcome in runner.run(ask, _CASES) if outcome.fault)


def test_our_client_passes_all_cases() -> None:
    """F172a: The client passes every case of the conformance suite."""
    assert list(_failed(conformance)) == []


def test_each_check_is_one_place_in_the_code() -> None:
    """F172: What the next test takes out is there: a change of the code must change it too."""
    for module, line, _ in _LEFT_OUT.values():
        text = (ROOT / "shared" / "authorizer" / f"{module}.py").read_text(encoding="utf-8")
        assert text.count(line) == 1, (module, line)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for packages that can be imported."""
    folder = tmp_path_factory.mktemp("packages")
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("check", _LEFT_OUT)
def test_a_client_that_leaves_a_check_out_fails(check: str, packages: Path) -> None:
    """F172b: For each check, a client that lacks it fails a case of the suite."""
    module, line, instead = _LEFT_OUT[check]
    name = "without_" + check.replace(" ", "_")
    shutil.copytree(ROOT / "shared" / "authorizer", packages / name)
    path = packages / name / f"{module}.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(line, instead), encoding="utf-8")
    client = importlib.import_module(f"{name}.conformance")
    assert next(_failed(client), None) is not None


def test_each_refusal_has_a_case() -> None:
    """F172c: The suite has an answer that is refused by each name."""
    expected = [step["expected"] for case in _CASES for step in case["steps"]]
    assert {each["refused"] for each in expected if "refused" in each} == {*Reason, *RootReason}
    names = [case["name"] for case in _CASES]
    assert len({*names}) == len(names)
    assert all(case["shows"].endswith(".") for case in _CASES)


@pytest.mark.slow
@pytest.mark.parametrize("command", [lambda: _PYTHON, typescript.command], ids=["python", "ts"])
def test_a_client_in_a_process_of_its_own_passes(
    command: Callable[[], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """F172d: Two clients in two languages, with two CBOR decoders, pass all cases.

    The one for TypeScript was packed, and installed offline.
    """
    assert main(["--", *command()]) == 0
    assert capsys.readouterr().out.endswith(f"{len(_CASES)} of {len(_CASES)} cases passed\n")


def test_the_runner_says_which_request_failed(capsys: pytest.CaptureFixture[str]) -> None:
    """F172: A client that answers wrongly, or ends, fails, and the output says at what."""
    assert (
        main(["--case", "an empty feed", "--", sys.executable, "-c", "input(); print('{}')"]) == 1
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1/1 an empty feed: FAILED: request 1 (init): {} and not {'ready'")
    assert lines[1] == "0 of 1 cases passed"
    assert main(["--case", "an empty feed", "--", sys.executable, "-c", ""]) == 1
    assert "no answer" in capsys.readouterr().out
    assert main(["--case", "an empty feed"]) == 0
    (case,) = json.loads(capsys.readouterr().out)
    assert case["name"] == "an empty feed"


def test_a_client_that_has_ended_is_no_fault_of_the_runner() -> None:
    """F172: Each request to a client that ended is answered by "no answer"."""
    with runner.started([sys.executable, "-c", ""]) as ask:
        for _ in range(3):
            assert ask({"init": {}}).startswith("no answer")


def test_our_client_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """F172: The command answers each line with a line."""
    steps = _CASES[0]["steps"]
    lines = "".join(json.dumps(step["request"]) + "\n" for step in steps)
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    conformance.main()
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert answers == [step["expected"] for step in steps]
