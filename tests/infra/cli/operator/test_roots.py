"""`rescind trust new-root` and `sign`: what the holders of roots do, without the service."""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infra.cli.drafts import Draft, merge
from infra.cli.errors import UsageError
from shared.adapters.local.file_root import FileRoot
from shared.adapters.pkcs11.root import Pkcs11Root
from shared.adapters.pkcs11.uri import Pkcs11Uri
from shared.authorizer.formats import documents
from shared.authorizer.formats.documents import SignedDocument, signed_part
from shared.authorizer.formats.following import TrustState, follow
from shared.authorizer.formats.members import to_base64
from shared.authorizer.formats.trust import DocumentSigner, RootSet, TrustDocument
from shared.authorizer.formats.wire import FeedPosition
from shared.ports.outside import RootSigner
from tests.infra.cli.conftest import Shell
from tests.kit.hsm import needs_softhsm, softhsm

NOW = datetime.now(UTC).replace(microsecond=0)
TENANT = "svc_tnt_01jd0000000000000000000000"
SIGNER, STANDBY = b"S" * 32, b"T" * 32
PASSPHRASE = "a long passphrase"


def _roots(*signers: RootSigner, threshold: int) -> RootSet:
    return RootSet(tuple(sorted(each.public_key for each in signers)), threshold)


def _document(
    roots: RootSet, version: int, *signers: bytes, issued_at: datetime = NOW, days: int = 180
) -> TrustDocument:
    named = tuple(DocumentSigner(each, ("lists",)) for each in sorted(signers))
    expires_at = issued_at + timedelta(days=days)
    start = FeedPosition(0, bytes(32))
    return TrustDocument(TENANT, version, issued_at, expires_at, roots, named, start)


def _opened(document: TrustDocument, *signing: RootSigner) -> SignedDocument:
    payload = document.encode()
    part = signed_part(payload)
    return SignedDocument.decode(payload, {each.public_key: each.sign(part) for each in signing})


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[FileRoot]]:
    """Three roots in files, the first of them with a passphrase."""
    folder, secret = tmp_path_factory.mktemp("roots"), PASSPHRASE.encode()
    first = FileRoot.create(folder / "0.key", passphrase=secret)
    return folder, [first, *(FileRoot.create(folder / f"{n}.key") for n in (1, 2))]


@pytest.fixture
def holders(roots: tuple[Path, list[FileRoot]], tmp_path: Path) -> list[FileRoot]:
    """Those roots, whose files are in the folder of the test."""
    folder, found = roots
    for file in folder.iterdir():
        shutil.copy(file, tmp_path)
    return found


@pytest.fixture
def passphrase(tmp_path: Path) -> Path:
    file = tmp_path / "passphrase"
    file.write_text(f"{PASSPHRASE}\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def draft(tmp_path: Path, holders: list[FileRoot]) -> Path:
    """A draft of two of three, which replaces one of two signers."""
    roots = _roots(*holders, threshold=2)
    before = _opened(_document(roots, 6, SIGNER, b"O" * 32), *holders[:2])
    Draft(before, _opened(_document(roots, 8, SIGNER, STANDBY))).write(tmp_path / "draft.json")
    return tmp_path / "draft.json"


def _sign(shell: Shell, draft: Path, number: int, passphrase: Path) -> tuple[int, str, str]:
    key = draft.with_name(f"{number}.key")
    ended = shell.run(
        "trust", "sign", draft, "--key", key, "--passphrase-file", passphrase, "--yes", columns=400
    )
    return ended.code, ended.out, ended.err


@pytest.mark.slow
def test_two_of_three_sign_one_after_the_other(
    shell: Shell, draft: Path, holders: list[FileRoot], passphrase: Path
) -> None:
    """F710a: A client accepts a document that two of three roots signed, each by `trust sign`."""
    before = documents.documents(draft.read_bytes())[0]
    state = follow(TrustState(TENANT, before.document.roots.pin), [before], NOW)
    code, _, said = _sign(shell, draft, 2, passphrase)
    assert (code, "1 signature(s) are missing" in said) == (0, True)
    with pytest.raises(documents.NotTrusted, match="root"):
        follow(state, documents.documents(draft.read_bytes()), NOW)
    code, _, said = _sign(shell, draft, 0, passphrase)
    assert (code, "rescind trust publish" in said) == (0, True)
    held = follow(state, documents.documents(draft.read_bytes()), NOW).held
    assert held is not None
    assert held.document.version == 8


@pytest.mark.slow
def test_copies_with_a_signature_each_are_joined(
    shell: Shell, draft: Path, holders: list[FileRoot], passphrase: Path
) -> None:
    """F710b: Roots may sign copies of a draft at the same time; the copies are joined."""
    other = draft.with_name("other.json")
    other.write_bytes(draft.read_bytes())
    assert _sign(shell, draft, 0, passphrase)[0] == 0
    assert _sign(shell, other, 1, passphrase)[0] == 0
    both = [Draft.load(draft), Draft.load(other)]
    assert [each.missing() for each in [*both, merge(both)]] == [1, 1, 0]
    changed = replace(both[1].next.document, version=9)
    with pytest.raises(UsageError, match="different drafts"):
        merge([both[0], Draft(both[1].before, _opened(changed))])


def test_a_holder_sees_what_the_document_changes(
    shell: Shell, draft: Path, holders: list[FileRoot], passphrase: Path
) -> None:
    """F710c: Before a root signs, its holder sees tenant, versions, signers, roots and the end."""
    _, shown, _ = _sign(shell, draft, 1, passphrase)
    lines = {line.split("  ")[0]: line for line in shown.splitlines()}
    assert TENANT in lines["tenant"]
    assert "8, after 6" in lines["version"]
    assert f"{to_base64(STANDBY)} (lists)" in lines["adds"]
    assert to_base64(b"O" * 32) in lines["removes"]
    assert to_base64(SIGNER) in lines["keeps"]
    assert "(180 days)" in lines["valid"]
    assert "2 of 3: " in lines["roots"]
    assert "CHANGE" not in lines["roots"]
    assert "0 of 2 of the roots of the draft" in lines["signed by"]


def test_new_roots_are_shown_as_a_change(
    shell: Shell, tmp_path: Path, holders: list[FileRoot], passphrase: Path
) -> None:
    """F710d: A draft with other roots says so, and needs the present roots and its own."""
    present, own = _roots(holders[0], threshold=1), _roots(*holders[1:], threshold=2)
    before = _opened(_document(present, 1, SIGNER), holders[0])
    file = tmp_path / "draft.json"
    Draft(before, _opened(_document(own, 2, SIGNER))).write(file)
    for number, missing in ((1, 1), (2, 1), (0, 0)):
        code, shown, _ = _sign(shell, file, number, passphrase)
        assert (code, "CHANGE from 1 of 1" in shown) == (0, True)
        assert Draft.load(file).missing() == missing
    state = TrustState(TENANT, present.pin)
    held = follow(state, documents.documents(file.read_bytes()), NOW).held
    assert held is not None
    assert held.document.roots == own


def _first(roots: RootSet, *, days: int = 180, issued_at: datetime = NOW) -> Draft:
    return Draft(None, _opened(_document(roots, 1, SIGNER, days=days, issued_at=issued_at)))


@pytest.mark.parametrize(
    ("days", "ago", "problem"), [(401, 0, "more than 400 days"), (2, 3, "has expired")]
)
def test_a_draft_that_clients_refuse_is_not_signed(
    shell: Shell, draft: Path, passphrase: Path, days: int, ago: int, problem: str
) -> None:
    """F711a: A draft that is valid for too long, or not any more, is not signed."""
    (roots,) = Draft.load(draft).roots
    _first(roots, days=days, issued_at=NOW - timedelta(days=ago)).write(draft)
    code, _, said = _sign(shell, draft, 1, passphrase)
    assert (code, problem in said) == (2, True)
    assert Draft.load(draft).next.signatures == {}


def test_a_key_that_is_no_root_of_it_does_not_sign(
    shell: Shell, draft: Path, passphrase: Path, tmp_path: Path
) -> None:
    """F711b: A key that is not among the roots signs nothing, and its holder sees which it is."""
    other = FileRoot.create(tmp_path / "9.key")
    code, shown, said = _sign(shell, draft, 9, passphrase)
    assert (code, shown) == (2, "")
    assert f"{to_base64(other.public_key)} is not a root" in said
    assert Draft.load(draft).next.signatures == {}


def test_a_forged_present_document_is_refused(
    shell: Shell, draft: Path, holders: list[FileRoot], passphrase: Path
) -> None:
    """F711c: What a draft changes is shown against a document that the roots have signed."""
    found = Draft.load(draft)
    assert found.before is not None
    hidden = replace(found.before.document, signers=found.next.document.signers)
    other = replace(found.before.document, tenant_id="svc_tnt_01jd0000000000000000000001")
    older = replace(found.before.document, version=8)
    for before, problem in (
        (_opened(hidden, holders[0]), "lacks signatures"),
        (_opened(other, *holders[:2]), "two tenants"),
        (_opened(older, *holders[:2]), "older than the current"),
    ):
        Draft(before, found.next).write(draft)
        code, shown, said = _sign(shell, draft, 0, passphrase)
        assert (code, shown, problem in said) == (2, "", True)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"documents": []}', b'{"documents": [{}]}'])
def test_another_file_is_no_draft(
    shell: Shell, tmp_path: Path, holders: list[FileRoot], passphrase: Path, content: bytes
) -> None:
    """F711d: A file that is no draft, or is missing, is refused with the way to get one."""
    file = tmp_path / "draft.json"
    code, _, said = _sign(shell, file, 0, passphrase)
    assert (code, "No such file" in said) == (2, True)
    file.write_bytes(content)
    code, _, said = _sign(shell, file, 0, passphrase)
    assert (code, "create another: rescind trust draft" in said) == (2, True)
    assert file.read_bytes() == content


def test_nobody_signs_without_an_answer(shell: Shell, draft: Path, passphrase: Path) -> None:
    """F711e: Without a terminal and without `--yes`, nothing is signed."""
    before = draft.read_bytes()
    key = draft.with_name("0.key")
    ended = shell.run("trust", "sign", draft, "--key", key, "--passphrase-file", passphrase)
    assert (ended.code, "add --yes" in ended.err) == (2, True)
    ended = shell.run("trust", "sign", draft, "--key", key, "--yes")
    assert (ended.code, "add --passphrase-file" in ended.err) == (2, True)
    assert draft.read_bytes() == before


def test_a_wrong_passphrase_signs_nothing(shell: Shell, draft: Path, passphrase: Path) -> None:
    """F711f: A wrong passphrase is said, and signs nothing."""
    passphrase.write_text("another passphrase\n")
    code, _, said = _sign(shell, draft, 0, passphrase)
    assert (code, "cannot be decrypted with this passphrase" in said) == (2, True)


@needs_softhsm
def test_a_root_in_an_hsm_signs_a_draft(shell: Shell, tmp_path: Path) -> None:
    """F710e: A root in an HSM signs a draft; while the HSM is away, nothing is signed."""
    with softhsm(tmp_path / "hsm") as hsm:
        address = hsm.add("root")
        root = Pkcs11Root(Pkcs11Uri.parse(address.removeprefix("pkcs11:")))
        file, roots = tmp_path / "draft.json", _roots(root, threshold=1)
        _first(roots).write(file)
        hsm.tokens.rename(hsm.folder / "away")
        sign = ("trust", "sign", file, "--key", address, "--yes")
        ended = shell.run(*sign)
        assert (ended.code, "Connect it" in ended.err) == (1, True)
        (hsm.folder / "away").rename(hsm.tokens)
        ended = shell.run(*sign)
        assert (ended.code, "THIS IS THE FIRST DOCUMENT" in ended.out) == (0, True)
    (signed,) = documents.documents(file.read_bytes())
    assert follow(TrustState(TENANT, roots.pin), [signed], NOW).held == signed


@pytest.mark.slow
def test_a_new_root_is_encrypted_and_says_its_pin(
    shell: Shell, tmp_path: Path, passphrase: Path
) -> None:
    """F712a: `new-root` makes an encrypted file that is its owner's, and shows key and pin."""
    file = tmp_path / "root.key"
    made = shell.json("trust", "new-root", "--out", file, "--passphrase-file", passphrase)
    key = FileRoot(file, passphrase=PASSPHRASE.encode()).public_key
    assert made["public_key"] == to_base64(key)
    assert made["pin"] == RootSet((key,), 1).pin
    assert file.stat().st_mode & 0o777 == 0o600
    assert FileRoot.is_encrypted(file)
    again = shell.run("trust", "new-root", "--out", file, "--passphrase-file", passphrase)
    assert (again.code, "never replaced" in again.err) == (2, True)


def test_a_new_root_has_a_passphrase_unless_it_is_to_have_none(
    shell: Shell, tmp_path: Path, passphrase: Path
) -> None:
    """F712b: Without a passphrase, or with a short one, no root is made unless that is said."""
    file = tmp_path / "root.key"
    ended = shell.run("trust", "new-root", "--out", file)
    assert (ended.code, "add --passphrase-file" in ended.err) == (2, True)
    passphrase.write_text("too short\n")
    ended = shell.run("trust", "new-root", "--out", file, "--passphrase-file", passphrase)
    assert (ended.code, "12 characters" in ended.err) == (2, True)
    assert not file.exists()
    assert shell.run("trust", "new-root", "--out", file, "--no-passphrase").code == 0
    assert not FileRoot.is_encrypted(file)


def test_a_draft_is_json_of_the_api(draft: Path) -> None:
    """TRUST-18: The file of a draft has the form of an answer: newest document, then draft."""
    found = json.loads(draft.read_bytes())
    assert [sorted(each) for each in found["documents"]] == 2 * [["Payload", "Signatures"]]
    assert [len(each["Signatures"]) for each in found["documents"]] == [2, 0]
