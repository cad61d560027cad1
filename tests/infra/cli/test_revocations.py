"""`rescind revoke`, `check`, `revocations` and `signing-keys`, against a server."""

import json

import pytest

from tests.infra.cli.conftest import Shell

_WHY = ("--reason", "mistake")


def test_exit_code_3_means_revoked(admin: Shell) -> None:
    """F417c: `check` exits with 3 if one of its warrants is revoked, else with 0."""
    done = admin.run("revoke", "svc_wrt_cli-1", "svc_wrt_cli-2", "--reason", "stolen")
    assert (done.code, done.out.count("svc_rev_")) == (0, 2)
    checked = admin.run("check", "svc_wrt_cli-1", "svc_wrt_cli-3")
    assert checked.code == 3
    assert [line.split()[1] for line in checked.out.splitlines()[1:]] == ["revoked", "not"]
    assert admin.run("check", "svc_wrt_cli-1").code == 3
    assert admin.run("check", "svc_wrt_cli-3").code == 0
    records = {each["warrant_id"]: each["id"] for each in _revocations(admin)}
    assert admin.run("unrevoke", *_WHY, records["svc_wrt_cli-1"]).code == 0
    assert admin.run("check", "svc_wrt_cli-1").code == 0
    assert admin.json("revocations", "show", records["svc_wrt_cli-2"])["reason"] == "stolen"


def test_tokens_of_others_are_checked(admin: Shell) -> None:
    """F2604a, TOKEN-2: `check` takes tokens, sessions and subjects, as the API does."""
    issuer, why = "https://as.example", ("--reason", "left")
    time = "2026-11-27T12:00:00Z"
    admin.json("revoke", "--subject", issuer, "cli-ann", "--issued-before", time, *why)
    admin.json("revoke", "--session", issuer, "cli-s", "--token", "jwt", issuer, "cli-1", *why)
    ann = ("--subject", issuer, "cli-ann", "--issued-at")
    for code, arguments in (
        (3, (*ann[:3],)),
        (3, (*ann, time)),
        (0, (*ann, "2026-11-27T12:00:01Z")),
        (0, ("--subject", issuer, "cli-bob")),
        (3, ("--session", issuer, "cli-s")),
        (0, ("--session", issuer, "cli-t")),
        (3, ("--token", "jwt", issuer, "cli-1")),
        (3, ("svc_wrt_none", "--session", issuer, "cli-s")),
    ):
        assert admin.run("check", *arguments).code == code, arguments
    found = admin.run("check", *ann, time, "--session", issuer, "cli-t", "-o", "json")
    assert [each["revoked"] for each in json.loads(found.out)["results"]] == [False, True]
    wrong: dict[str, tuple[str, ...]] = {
        "name at least one": (),
        "requires --subject": ("svc_wrt_a", "--issued-at", time),
        "--subject: issuer and value": ("--subject", issuer, ""),
    }
    for words, given in wrong.items():
        refused = admin.run("check", *given)
        assert (refused.code, words in refused.err) == (2, True), refused.err


def test_what_was_done_before_a_failure_is_shown(admin: Shell) -> None:
    """F417d: If one of several changes fails, the command prints those that are done, and fails."""
    done = admin.run("revoke", "svc_wrt_cli-4", "--reason", "stolen")
    assert done.code == 0
    revocation = done.out.splitlines()[1].split()[1]
    ended = admin.run("unrevoke", *_WHY, revocation, "svc_rev_01jd8x6d5v0000000000000000")
    assert ended.code == 1
    assert "1 not revoked, 1 unrevoked" in ended.err


def test_nothing_is_cut(admin: Shell) -> None:
    """F422a: A table that is too wide for the terminal is printed as blocks, and nothing is cut."""
    reason = "the laptop was left on a train"
    assert admin.run("revoke", "svc_wrt_cli-5", "--reason", reason).code == 0
    wide = admin.run("revocations", "list", "-n", "1", columns=200).out.splitlines()
    assert len(wide) == 2
    narrow = admin.run("revocations", "list", "-n", "1", columns=60).out
    assert max(map(len, narrow.splitlines())) <= 60
    for each in wide[1].split():
        assert each in narrow.split()


def test_all_pages_are_read_on_demand(admin: Shell) -> None:
    """F423a: A list says if it has more than it shows, and shows all with `--limit 0`."""
    warrants = [f"svc_wrt_page-{number}" for number in range(3)]
    assert admin.run("revoke", *warrants, "--reason", "stolen").code == 0
    some = admin.run("revocations", "list", "-n", "2")
    assert (some.code, some.out.count("svc_rev_")) == (0, 2)
    assert "Showing the first 2 of " in some.err
    assert {each["warrant_id"] for each in _revocations(admin)} >= set(warrants)


def test_a_person_is_named_by_the_email(admin: Shell) -> None:
    """AUDIT-2, F2900b: `--created-by` with the identifier of a person says what it takes."""
    for words in (("revocations", "list"), ("unrevoke", "--reason", "r", "--since", "1h")):
        refused = admin.run(*words, "--created-by", "svc_usr_01kbm4xt3rfz8c5w7y2q9n6d1e")
        assert (refused.code, "the e-mail of a person" in refused.err) == (2, True)


def test_lists_name_people(admin: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """AUDIT-2, F567b: The command line shows a key by its name, and an account beside it."""
    account = admin.json("service-accounts", "create", "night-shift")["id"]
    made = [
        admin.json("api-keys", "create", "anna.lindqvist", "--scope", "admin", *more)
        for more in ((), ("--account", account))
    ]
    for number, key in enumerate(made):
        monkeypatch.setenv("RESCIND_API_KEY", key["key"])
        warrant = f"svc_wrt_named-{number}"
        assert admin.run("revoke", warrant, "--reason", "stolen").code == 0
        listed = admin.run("revocations", "list", "--warrant", warrant, columns=200).out
        assert listed.splitlines()[1].split()[3] == "anna.lindqvist"
        entries = admin.run("audit-log", "list", "--warrant", warrant, columns=300).out
        who = "anna.lindqvist (night-shift@local.svc)" if number else "anna.lindqvist  "
        assert who in entries.splitlines()[1]


def test_what_is_not_known_is_no_number(admin: Shell) -> None:
    """REVOKE-31: `counts` shows no number for a day without known numbers."""
    window = ("revocations", "counts", "--since", "2020-02-28", "--until", "2020-03-01")
    days = [line.split() for line in admin.run(*window).out.splitlines()[1:]]
    assert days == [[day, "-", "-"] for day in ("2020-02-28", "2020-02-29", "2020-03-01")]
    assert [each["created"] for each in admin.json(*window)["days"]] == [None] * 3
    assert len(admin.json("revocations", "counts")["days"]) == 14


def test_keys_are_shown_as_a_tree_and_revoked_with_care(admin: Shell) -> None:
    """F425a: Revoking a signing key needs a confirmation; --dry-run shows what it would revoke."""
    root = admin.json("signing-keys", "create", "root", "head-office")["id"]
    issuer = admin.json("signing-keys", "create", "issuer", "laptops [1]", "--parent", root)["id"]
    tree = admin.run("signing-keys", "tree", columns=120).out.splitlines()
    (below,) = [line for line in tree if issuer in line]
    assert below.endswith("issuer  active  laptops [1]")
    assert below.index(issuer) > tree[tree.index(below) - 1].index(root)
    typed = ("signing-keys", "revoke", root, "--reason", "leaked", "--cascade")
    assert admin.json(*typed, "--dry-run")["keys"] == 2
    refused = admin.run(*typed)
    assert (refused.code, admin.json("signing-keys", "show", issuer)["status"]) == (2, "active")
    assert admin.run(*typed, "-y").code == 0
    assert admin.json("signing-keys", "show", issuer)["status"] == "revoked"


def _revocations(admin: Shell) -> list[dict[str, str]]:
    found: list[dict[str, str]] = admin.json("revocations", "list", "--limit", "0")["revocations"]
    return found
