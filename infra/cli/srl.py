"""`rescind srl`: the Signed Revocation List: fetch, verify, look up, compare, publish."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from infra.cli import srl_verification
from infra.cli.client import ApiClient, segment
from infra.cli.columns import Column
from infra.cli.commands import ApiSession, command, confirm, local_command, noun
from infra.cli.errors import SHOWN, ExitCode, Limit, UsageError, WarrantIds, Yes, argument, option
from infra.cli.inputs import read_document
from infra.cli.srl_verification import format_lines, summarize
from shared.authorizer import files
from shared.model import times
from shared.model.lists.content import Payload
from shared.model.lists.verification import public_key_bytes, verify_by_one_of

_PATH: Final = "/v1/revocations/srl"
# The prefix of each line of a difference.
_SIGNS: Final = {"added": "+", "removed": "-"}

_COLUMNS: Final = (
    Column("version", "version"),
    Column("issued", "issued_at"),
    Column("expires", "expires_at"),
    Column("revoked", "count"),
    Column("added", "added_count"),
    Column("removed", "removed_count"),
    Column("signer", "key_id"),
)

Source = Annotated[str, argument("LIST", "Saved SRL, or an SRL version.")]
Version = Annotated[
    int | None, option("--version", "SRL version (default: the current SRL).", min=1)
]
KeysFile = Annotated[
    Path | None, option("--keys", "Also save the keys of the SRL signers.", "FILE")
]

app = noun("Fetch, verify, compare and publish Signed Revocation Lists (SRLs).")

_SIGNERS: Final = "/v1/revocations/srl/keys"
_SIGNER_COLUMNS: Final = (
    Column("SRL signer", "key_id"),
    Column("status", "status"),
    Column("activates at", "activates_at"),
    Column("public key", "public_key"),
)

SignerId = Annotated[str, argument("SIGNER", "svc_key_…")]
Force = Annotated[bool, option("--force", "Activate the signer before its activation time.")]
Compromised = Annotated[
    bool, option("--compromised", "Also revoke the current signer, because it was stolen.")
]

signers = noun("Create, activate, rotate and revoke SRL signers.")


local_command(app, "verify", example=srl_verification.EXAMPLE)(srl_verification.verify)
app.add_typer(signers, name="signers")


@command(app, "fetch", example="rescind srl fetch srl.json --keys srl-keys.json")
def fetch(
    session: ApiSession,
    file: Annotated[Path, argument("FILE", "File for the SRL.")],
    version: Version = None,
    keys: KeysFile = None,
) -> None:
    """Save the current SRL, or an old version, as the service serves it.

    Nothing is verified: see `srl verify`.
    """
    body = _fetch(session, version)
    _save(file, body)
    if keys is not None:
        _save(keys, json.dumps(all_of(session.api)).encode())
    content = _readable(str(file), body)
    session.out.show(summarize(content), f"{file}: {format_lines(content)}; not verified")


@command(app, "check", example="rescind srl check svc_wrt_laptop-17")
def check(session: ApiSession, warrants: WarrantIds) -> int:
    """Check whether warrants are on the current SRL. Exits with 3 if any is.

    The SRL is verified with the signers that the service returns. `rescind check` also covers
    revocations that no SRL contains yet.
    """
    signers = [each for each in all_of(session.api)["keys"] if each["status"] != "revoked"]
    keys = [public_key_bytes(each["public_key"]) for each in signers]
    body = _fetch(session)
    content = verify_by_one_of(body, public_keys=keys, now=datetime.now(UTC)).payload
    revoked_ids = set(content.revoked_ids)
    listed = {each: each in revoked_ids for each in warrants}
    session.out.show({**summarize(content), "warrants": listed}, format_lines(content, listed))
    return ExitCode.REVOKED if any(listed.values()) else ExitCode.DONE


@command(app, "diff", example="rescind srl diff 41 srl.json")
def compare(session: ApiSession, old: Source, new: Source) -> None:
    """Show the warrants that only one of two SRLs contains. Signatures are not verified."""
    before, after = (_readable(each, _body(session, each)) for each in (old, new))
    changes = {
        "added": sorted(set(after.revoked_ids) - set(before.revoked_ids)),
        "removed": sorted(set(before.revoked_ids) - set(after.revoked_ids)),
    }
    lines = [f"{_SIGNS[what]} {each}" for what, ids in changes.items() for each in ids]
    document = {"old": summarize(before), "new": summarize(after), **changes}
    session.out.show(document, "\n".join(lines))
    counts = f"{len(changes['added'])} added, {len(changes['removed'])} removed."
    session.out.print_message(f"From version {before.version} to version {after.version}: {counts}")


@command(app, "status", example="rescind srl status --watch 5", watches=True)
def show_status(session: ApiSession) -> None:
    """Show the current SRL, the pending changes, and the time of the next update."""
    session.out.record(session.api.get(f"{_PATH}/status"))


@command(app, "versions", example="rescind srl versions -n 20", watches=True)
def list_versions(session: ApiSession, limit: Limit = SHOWN) -> None:
    """List SRLs published in the last 30 days, newest first."""
    page = session.api.list_records(f"{_PATH}/versions", "versions", most=limit)
    session.out.print_page(page, "versions", _COLUMNS)


@command(app, "publish", example="rescind srl publish")
def publish(session: ApiSession) -> None:
    """Publish the next SRL version now."""
    session.out.record(session.api.post(f"{_PATH}/regenerate"))


def _fetch(session: ApiSession, version: int | None = None) -> bytes:
    params = {"version": version}
    return session.api.send("GET", f"{_PATH}/signed", params=params, follow=True).body


def _body(session: ApiSession, source: str) -> bytes:
    """Return the SRL of a version if `source` is a number, otherwise from a file."""
    if source.isascii() and source.isdecimal():
        return _fetch(session, int(source))
    return read_document(source)


def _readable(source: str, body: bytes) -> Payload:
    """Return the content of an SRL without verifying it."""
    try:
        members = json.loads(body)["payload"]
        issued_at, expires_at = (times.parse(members[each]) for each in ("IssuedAt", "ExpiresAt"))
        return Payload(int(members["Version"]), issued_at, expires_at, list(members["RevokedIDs"]))
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError):
        raise UsageError(f"{source} is not an SRL.") from None


def _save(path: Path, data: bytes) -> None:
    try:
        files.replace(path, data)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


@command(signers, "list", example="rescind srl signers list")
def list_(session: ApiSession) -> None:
    """List SRL signers, starting with the signer of the current SRL."""
    document = all_of(session.api)
    session.out.print_table(document, document["keys"], _SIGNER_COLUMNS)


@command(signers, "create", example="rescind srl signers create")
def create(session: ApiSession) -> None:
    """Create the next SRL signer in advance, so authorizers can load its key."""
    session.out.record(session.api.post(_SIGNERS))


@command(
    signers, "activate", example="rescind srl signers activate svc_key_01J…", is_protected=True
)
def activate(session: ApiSession, signer: SignerId, force: Force = False) -> None:
    """Activate a pending SRL signer, and publish an SRL with its signature."""
    path = f"{_SIGNERS}/{segment(signer)}/activate"
    session.out.record(session.api.post(path, {"force": force}))


@command(
    signers,
    "rotate",
    example="rescind srl signers rotate --compromised --yes",
    is_protected=True,
)
def rotate(session: ApiSession, compromised: Compromised = False, yes: Yes = False) -> None:
    """Replace the SRL signer at once, and publish an SRL with the new signature.

    Authorizers that read SRLs refuse them until they have the new key. Use `create` and later
    `activate` to give them time.
    """
    confirm("Replace the SRL signer now?", yes=yes)
    session.out.record(session.api.post(f"{_SIGNERS}/rotate", {"compromised": compromised}))


@command(
    signers, "revoke", example="rescind srl signers revoke svc_key_01J… --yes", is_protected=True
)
def revoke(session: ApiSession, signer: SignerId, yes: Yes = False) -> None:
    """Revoke a stolen SRL signer. Another takes over at once. This cannot be undone."""
    confirm(f"Revoke the SRL signer {signer}?", yes=yes)
    session.out.record(session.api.post(f"{_SIGNERS}/{segment(signer)}/revoke"))


def all_of(api: ApiClient) -> dict[str, Any]:
    """Return all SRL signers as one page, starting with the signer of the current SRL."""
    keys: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = api.get(_SIGNERS, {"cursor": cursor})
        keys += page["keys"]
        cursor = page["cursor"]
        if cursor is None:
            return {"keys": keys, "cursor": None}
