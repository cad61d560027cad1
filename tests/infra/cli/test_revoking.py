"""`rescind revoke` and `unrevoke` of many, against a server."""

import csv
import io
import json
import re
import time
from collections import Counter
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from infra.cli import profiles, revoking
from infra.cli.client import ApiClient
from infra.cli.errors import BadResponse
from shared.model.identifiers import token_id
from tests.infra.cli.conftest import Shell
from tests.kit.issuers import encoded
from tests.kit.processes import LocalServer

BATCH = "svc_bat_01kbm4xt3rfz8c5w7y2q9n6d1e"

_WHY = ("--reason", "mistake")


def _file(folder: Path, *lines: str) -> Path:
    path = folder / "lost.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    return path


def test_a_file_is_revoked_and_the_batch_unrevoked(admin: Shell, tmp_path: Path) -> None:
    """F357a: A file of warrants is revoked as one batch, and that batch is taken back as one."""
    warrants = [f"svc_wrt_file-{number}" for number in range(150)]
    lost = _file(tmp_path, "owner,warrant_id", *(f"me,{each}" for each in warrants), "")
    rehearsed = admin.json("revoke", "--file", lost, "--reason", "lost", "--dry-run")
    assert rehearsed["counts"] == {"revoked": 150}
    assert admin.run("check", *warrants[:2]).code == 0
    refused = admin.run("revoke", "--file", lost, "--reason", "lost")
    assert (refused.code, "Revoke 150 warrant(s)? " in refused.err) == (2, True)
    assert admin.run("check", *warrants[:2]).code == 0
    ended = admin.run("revoke", "--file", lost, "--reason", "lost", "--yes")
    # A long table has failures only.
    assert (ended.code, ended.out) == (0, "")
    assert "150 revoked. Batch svc_bat_" in ended.err
    batch = ended.err.split()[-1]
    assert admin.run("check", warrants[149]).code == 3
    found = admin.json("revocations", "list", "--batch", batch, "--limit", "0")["revocations"]
    assert sorted(each["warrant_id"] for each in found) == sorted(warrants)
    would = admin.run("unrevoke", *_WHY, "--batch", batch, "--dry-run")
    assert all(each in would.out for each in warrants)
    refused = admin.run("unrevoke", *_WHY, "--batch", batch)
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert "150 unrevoked" in admin.run("unrevoke", *_WHY, "--batch", batch, "-y").err
    assert admin.run("check", *warrants).code == 0
    again = admin.run("unrevoke", *_WHY, "--batch", batch, "-y")
    assert (again.code, "No changes" in again.err) == (0, True)


def test_what_one_key_revoked_is_unrevoked(
    admin: Shell, service: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F357b: Revocations of one API key since a time are taken back, and no others."""
    with ApiClient(profiles.load(profiles.DEFAULT)) as api:
        made = api.post("/v1/api-keys", {"name": "thief", "scopes": ["revoker"]})
    assert admin.run("revoke", "svc_wrt_mine", "--reason", "r").code == 0
    monkeypatch.setenv("RESCIND_API_KEY", made["key"])
    assert admin.run("revoke", "svc_wrt_his-1", "svc_wrt_his-2", "--reason", "r").code == 0
    monkeypatch.setenv("RESCIND_API_KEY", service.admin_key)
    of_thief = ("unrevoke", *_WHY, "--created-by", made["id"])
    ended = admin.run(*of_thief, "--since", made["created_at"], "-y")
    assert (ended.code, "2 unrevoked" in ended.err) == (0, True)
    assert admin.run("check", "svc_wrt_his-1", "svc_wrt_his-2").code == 0
    assert admin.run("check", "svc_wrt_mine").code == 3
    assert "No changes" in admin.run(*of_thief, "--since", "2099-01-01T00:00:00Z", "-y").err
    assert admin.run(*of_thief).code == 2


def test_what_a_key_signed_is_cut_off(admin: Shell) -> None:
    """F357c: Warrants that a key signed before a time are revoked, and no later ones."""
    key = admin.json("signing-keys", "create", "root", "cut-off")["id"]
    with ApiClient(profiles.load(profiles.DEFAULT)) as api:
        signed = [
            api.post(f"/v1/keys/{key}/sign", {"payload": "cGF5"})["warrant_id"] for _ in range(3)
        ]
    reason = ("--reason", "leaked")
    early = ("--before", "2020-01-01T00:00:00Z")
    assert "No changes" in admin.run("revoke", "--signed-by", key, *early, *reason).err
    late = ("--signed-by", key, "--before", "2099-01-01T00:00:00Z")
    assert admin.run("revoke", *late, *reason).code == 2
    assert admin.run("check", *signed).code == 0
    assert admin.run("revoke", *late, *reason, "--yes").code == 0
    checked = admin.run("check", *signed, "-o", "json")
    assert [each["revoked"] for each in json.loads(checked.out)["results"]] == [True] * 3
    assert admin.run("revoke", "--signed-by", key, *reason).code == 2


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["svc_wrt_a", "laptop"], "line 2"),
        (["owner,warrant_id", "me,svc_wrt_a", "svc_wrt_b"], "line 3"),
    ],
)
def test_a_file_with_a_mistake_changes_nothing(
    admin: Shell, tmp_path: Path, lines: list[str], said: str
) -> None:
    """F357d: If a line of a file is no identifier, its number is printed and nothing is sent."""
    ended = admin.run("revoke", "--file", _file(tmp_path, *lines), "--reason", "r")
    assert ended.code == 2
    assert said in " ".join(ended.err.split())
    assert admin.run("check", "svc_wrt_a").code == 0


def test_standard_input_is_a_file(admin: Shell) -> None:
    """F357e: Warrants, and revocations to take back, can be read from standard input."""
    given = "svc_wrt_in-1\nsvc_wrt_in-2\n"
    assert admin.run("revoke", "--file", "-", "--reason", "r", stdin=given).code == 0
    assert admin.run("check", "svc_wrt_in-2").code == 3
    assert admin.run("unrevoke", *_WHY, "--file", "-", stdin=given).code == 0
    assert admin.run("check", "svc_wrt_in-2").code == 0
    assert admin.run("revoke", "--file", "/nowhere", "--reason", "r").code == 2
    assert admin.run("revoke", "--reason", "r").code == 2
    assert admin.run("unrevoke").code == 2


def test_a_batch_that_stopped_goes_on(
    admin: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F357f: A batch that was stopped prints how it continues, and then does only the rest."""
    monkeypatch.setattr(revoking, "_MOST", 10)
    lost = _file(tmp_path, *(f"svc_wrt_stop-{number}" for number in range(30)))
    post, calls = ApiClient.post, list[Any]()

    def failing(self: ApiClient, path: str, body: object = None) -> Any:
        calls.append(path)
        if len(calls) == 2:
            # The change is made, and its answer is lost: the call is repeated.
            post(self, path, body)
            raise BadResponse("lost")
        if len(calls) > 3:
            raise BadResponse("down")
        return post(self, path, body)

    monkeypatch.setattr(ApiClient, "post", failing)
    ended = admin.run("revoke", "--file", lost, "--reason", "r", "--resume-batch", BATCH)
    assert ended.code == 1
    assert f"To continue, run the same command with --resume-batch {BATCH}." in " ".join(
        ended.err.split()
    )
    assert "20 revoked" in ended.err
    monkeypatch.setattr(ApiClient, "post", post)
    ended = admin.run("revoke", "--file", lost, "--reason", "r", "--resume-batch", BATCH)
    assert (ended.code, "30 revoked" in ended.err) == (0, True)
    assert len(admin.json("audit-log", "list", "--limit", "0")["audit_logs"]) > 3


@pytest.mark.parametrize("form", ["table", "csv"])
def test_a_rehearsal_shows_nothing_as_done(admin: Shell, form: str) -> None:
    """F1822a: With `--dry-run`, results that would be changes are printed as such."""
    warrants = [f"svc_wrt_rehearsed-{form}-{each}" for each in (1, 2)]
    revoke = ("revoke", *warrants, "--reason", "r", "-o", form)
    assert admin.run("revoke", warrants[0], "--reason", "r").code == 0
    ended = admin.run(*revoke, "--dry-run", columns=200)
    assert len(re.findall(r"(?<!be |dy[ _])revoked", ended.out)) == 0
    assert ended.out.count("would be revoked") == 1
    assert re.search("already[ _]revoked", ended.out)
    assert "Nothing was changed" in ended.err
    unrevoke = ("unrevoke", *_WHY, *warrants, "-o", form, "--dry-run")
    ended = admin.run(*unrevoke, columns=200)
    assert "would be unrevoked" in ended.out
    assert admin.run("check", warrants[0]).code == 3
    assert admin.json(*revoke[:-2], "--dry-run")["dry_run"] is True
    assert admin.json(*revoke[:-2])["dry_run"] is False


def test_a_rehearsal_shows_what_changed_since(admin: Shell) -> None:
    """F2840c: A dry run of `unrevoke` has the outcome `not_revoked` where nothing is to be undone.

    So it is for a warrant that is not revoked, and for a member of a manifest that was unrevoked
    since. The exit code is 1, as without `--dry-run`.
    """
    warrants = [f"svc_wrt_since-{number}" for number in (1, 2)]
    made = admin.json("revoke", *warrants, "--reason", "r")["results"]
    gone, left = (each["revocation_id"] for each in made)

    def rehearse(*named: str) -> dict[str, str]:
        ended = admin.run("unrevoke", *_WHY, *named, "--dry-run", "-o", "json")
        document = json.loads(ended.out)
        found = {each["id"]: each["outcome"] for each in document["results"]}
        assert document["counts"] == Counter(found.values())
        assert ended.code == int("not_revoked" in found.values())
        return found

    with ApiClient(profiles.load(profiles.DEFAULT)) as api:
        body = {"revocation_ids": [gone, left]}
        manifest = api.post("/v1/unrevoke-manifests", body, is_protected=False)["id"]
    assert {*rehearse("--manifest", manifest).values()} == {"unrevoked"}
    assert admin.run("unrevoke", *_WHY, gone).code == 0
    found = rehearse("--manifest", manifest)
    assert found == {gone: "not_revoked", left: "unrevoked"}
    assert rehearse(*warrants) == {warrants[0]: "not_revoked", left: "unrevoked"}
    said = admin.run("unrevoke", *_WHY, "--manifest", manifest, "--dry-run", columns=200).out
    assert re.search(rf"{gone} +not_revoked", said)
    assert admin.run("check", *warrants).code == 3


def test_a_failure_has_an_exit_code(admin: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """F357g: If the service fails for some of the warrants, they are shown, and the code is 1."""
    results = [
        {"id": "svc_wrt_x", "outcome": "revoked", "revocation_id": "svc_rev_x"},
        {"id": "svc_wrt_y", "outcome": "failed", "code": "unavailable", "message": "not now"},
    ]
    monkeypatch.setattr(ApiClient, "post", lambda *_: {"results": results})
    ended = admin.run("revoke", "svc_wrt_x", "svc_wrt_y", "--reason", "r", columns=150)
    assert ended.code == 1
    assert "1 revoked, 1 failed" in ended.err
    assert "not now" in ended.out


def test_a_maker_is_shown_as_it_is_searched(admin: Shell) -> None:
    """F2890b: A list shows the maker whom a search finds; a search that finds nothing says so."""
    admin.run("revoke", "svc_wrt_of-a-maker", "--reason", "r")
    listed = admin.run("revocations", "list", "--warrant", "svc_wrt_of-a-maker", "-o", "csv")
    (shown,) = csv.DictReader(io.StringIO(listed.out))
    maker = re.fullmatch(r"admin \((.*)\)", shown["by"])
    assert maker is not None
    found = admin.json("revocations", "list", "--created-by", maker[1], "--limit", "0")
    assert "svc_wrt_of-a-maker" in {each["warrant_id"] for each in found["revocations"]}
    nobody = admin.run("unrevoke", *_WHY, "--created-by", "nobody", "--since", "1h", "--yes")
    assert "No revocation matches" in nobody.err


def test_an_unset_variable_is_no_filter_that_finds_nothing(admin: Shell) -> None:
    """F543a: A command with an empty identifier is refused, and shows no empty result."""
    since = "2026-11-22T08:00:00Z"
    for typed in (
        ("audit-log", "list", "--key", ""),
        ("revocations", "list", "--created-by", "", "--since", since),
        ("unrevoke", *_WHY, "--created-by", "", "--since", since, "--yes"),
        ("api-keys", "revoke", "", "--yes"),
    ):
        ended = admin.run(*typed)
        assert (ended.code, ended.out) == (2, ""), typed
        assert "an argument is empty" in ended.err


def test_what_is_typed_wrongly_is_named(admin: Shell, tmp_path: Path) -> None:
    """F543b: A wrong time or heading is refused with its option or line; nothing is sent."""
    ended = admin.run("unrevoke", *_WHY, "--created-by", "admin@local.svc", "--since", "2026-11-22")
    assert (ended.code, "--since" in ended.err) == (2, True)
    ended = admin.run("revoke", "--file", _file(tmp_path, "name,owner"), "--reason", "lost")
    assert ended.code == 2
    assert (
        "0 columns have its heading; accepted headings, separated by commas: warrant_id, "
        in ended.err
    )
    ended = admin.run("revoke", "--file", tmp_path / "none.csv", "--reason", "lost")
    assert ended.err.endswith("none.csv: No such file or directory.\n")


def test_tokens_of_others_are_revoked(admin: Shell, tmp_path: Path) -> None:
    """F1392a, F2875a: JWTs in a file, and tokens that are named, are revoked by identifiers.

    A message about a JWT without an identifier says what else revokes it.
    """
    claims = encoded({"iss": "https://as.example", "jti": "bad-1"})
    jwts = _file(tmp_path, f"{encoded('{}')}.{claims}.AAAA")
    named = ("--token", "other", "acme", "badge-1")
    done = admin.json("revoke", "--jwt", jwts, *named, "--reason", "stolen")
    assert [each["id"] for each in done["results"]] == [
        "svc_wrt_jwt-Z591NNxgO_rGCEeX0rJ88TyihObU_zJQgZph8tqu5Io",
        "svc_wrt_other-EisEGuC5kz_rDhprNJnXHx6Ait9WRzkPWB4gIVLb_Ok",
    ]
    assert done["counts"] == {"revoked": 2}
    refused = admin.run("revoke", "--jwt", _file(tmp_path, "a.b.c"), "--reason", "stolen")
    assert (refused.code, "line 1: the token is not a signed JWT" in refused.err) == (2, True)
    nameless = _file(tmp_path, f"a.{encoded({'iss': 'me'})}.c")
    refused = admin.run("revoke", "--jwt", nameless, "--reason", "stolen")
    message = "the token has no iss or no jti: revoke its subject (--subject) or its session"
    assert f"line 1: {message}" in refused.err
    refused = admin.run("revoke", "--token", "x509", "a", "b", "--reason", "stolen")
    assert (refused.code, "--token: issuer and value" in refused.err) == (2, True)


def test_tokens_of_a_subject_are_revoked(admin: Shell) -> None:
    """F2402a: All tokens of a subject, or of a session, are revoked by their identifiers."""
    why, who = ("--reason", "left"), ("https://as.example", "ann")
    done = admin.json("revoke", "--subject", *who, "--issued-before", "2026-11-27T12:00:00Z", *why)
    assert done["warrant_id"] == token_id("jwt-subject", *who, 1_795_780_800)
    # A part of a second rounds up, as for the iat of tokens (TOKEN-11).
    before = ceil(time.time())
    found = admin.json("revoke", "--subject", *who, *why)["warrant_id"]
    assert before <= int(found[-12:]) <= ceil(time.time())
    done = admin.json("revoke", "--session", "https://as.example", "s-1", *why)
    named = token_id("jwt-session", "https://as.example", "s-1")
    assert [each["id"] for each in done["results"]] == [named]
    wrong = {
        "requires --subject": ("--session", *who, "--issued-before", "2026-11-27T12:00:00Z"),
        "combined with other warrants": ("--subject", *who, "svc_wrt_a"),
        "--resume-batch or --dry-run": ("--subject", *who, "--dry-run"),
        "--session: issuer and value": ("--session", "https://as.example", ""),
    }
    for words, arguments in wrong.items():
        refused = admin.run("revoke", *arguments, *why)
        assert (refused.code, words in refused.err) == (2, True), refused.err
    refused = admin.run(
        "revoke", "--subject", *who, "--issued-before", "2126-11-27T12:00:00Z", *why
    )
    assert (refused.code, refused.out) == (1, "")
    assert "issued_before: must be at most a day from now" in " ".join(refused.err.split())


@pytest.mark.parametrize("form", ["json", "yaml", "csv", "name"])
def test_programs_get_all_results(admin: Shell, tmp_path: Path, form: str) -> None:
    """F1956a: Programs get each result of a large batch."""
    warrants = [f"svc_wrt_{form}-{number:03}" for number in range(101)]
    lost = _file(tmp_path, *warrants)
    ended = admin.run("revoke", "--file", lost, "--reason", "lost", "--yes", "-o", form)
    assert ended.code == 0
    assert re.findall(rf"svc_wrt_{form}-\d+", ended.out)[-101:] == warrants
    batch = ended.err.split()[-1]
    assert admin.run("unrevoke", *_WHY, "--batch", batch, "--yes", "-o", form).code == 0
    none = admin.run("unrevoke", *_WHY, "--batch", batch, "--yes", "-o", "csv")
    assert (none.code, none.out) == (0, "warrant_id,revocation_id,outcome,message\n")


def test_a_long_table_has_what_was_not_done(admin: Shell, tmp_path: Path) -> None:
    """F1956b: A table of more than 100 results has those that were not done, and the others not."""
    lost = _file(tmp_path, *(f"svc_wrt_not-revoked-{number:03}" for number in range(101)))
    assert admin.run("revoke", "svc_wrt_not-revoked-007", "--reason", "r").code == 0
    ended = admin.run("unrevoke", *_WHY, "--file", lost, "--yes", columns=200)
    assert (ended.code, "100 not revoked" in ended.err) == (1, True)
    assert len(re.findall(r"svc_wrt_not-revoked-\d+", ended.out)) == 100
    assert "svc_wrt_not-revoked-007" not in ended.out
