"""The operator's command line, for the store that the environment names (see shared/settings.py).

A new key is printed on standard output; all messages are printed on standard error.
Exit codes: 0 done, 1 refused or failed, 2 wrong usage or settings, 3 recovered, but some changes
since the restored moment are unknown: review what the command lists.
"""

import argparse
import os
import re
import sys
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from infra import backup, canary, command_line, data_folder, os_user
from shared import wiring
from shared.errors import InvalidSettings, RescindError
from shared.model import tenants as model
from shared.model import times
from shared.model.callers import Caller
from shared.model.srl.verification import public_key_bytes
from shared.operations.api import api_keys
from shared.operations.api.api_keys import Created
from shared.operations.operator import doctor, migration, onboarding
from shared.operations.operator.recovery import recovery
from shared.operations.rules import tenants
from shared.operations.srl import in_force, worker
from shared.ports import Ports

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (not public)

_EXIT_UNKNOWN = 3
_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}

_ADMIN_KEY_AGE_MAX = timedelta(days=30)

_LEFT_OUT = """Left out, on purpose:
  the master key: with it, this copy would open every seed. Keep its copy somewhere else.
  admin.key: after a restore, mint another key (admin-key).
  blobs: a list that is older than one that verifiers have seen must never be put back."""


def main() -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args()
    try:
        settings = wiring.settings(data_folder.chosen(arguments.data, arguments.keys, os.environ))
        with closing(wiring.build(settings)) as ports:
            code = arguments.run(ports, arguments)
    except InvalidSettings as error:
        _report(f"{error}\nSet them in the environment, or name a data folder with --data.")
        return 2
    except RescindError as error:
        _report(_described(error))
        return 1
    return code or 0


def _parser() -> argparse.ArgumentParser:
    parser = command_line.parser("admin", __doc__)
    parser.add_argument("--data", type=Path, help="the data folder of `make run`, such as .data")
    parser.add_argument("--keys", type=Path, help="with --data: the master key, if kept elsewhere")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_tenant(commands)
    _add_admin_key(commands)
    _add_care(commands)
    return parser


def _add_tenant(commands: "_Commands") -> None:
    tenant = commands.add_parser("tenant", help="create a tenant, or list them all")
    actions = tenant.add_subparsers(required=True, metavar="ACTION")
    create = actions.add_parser("create", help="create a tenant; prints its first admin key once")
    create.add_argument("name", type=_handle, metavar="NAME")
    create.set_defaults(run=_create_tenant)
    actions.add_parser("list", help="list the tenants").set_defaults(run=_list_tenants)


def _add_admin_key(commands: "_Commands") -> None:
    mint = commands.add_parser(
        "admin-key", help="create an admin key for a tenant that is locked out"
    )
    mint.add_argument("name", type=_handle, metavar="NAME")
    mint.add_argument(
        "--expires-in",
        type=_duration,
        metavar="TIME",
        help="such as 30d, 12h or 45m (default: never)",
    )
    mint.set_defaults(run=_mint_admin_key)


def _add_care(commands: "_Commands") -> None:
    renew = commands.add_parser(
        "migrate", help="after an upgrade: convert data of earlier versions"
    )
    renew.add_argument("name", type=_handle, nargs="?", metavar="NAME", help="one tenant, not all")
    renew.set_defaults(run=_migrate)
    tick = commands.add_parser(
        "publish", help="publish every list that is due, as the schedule does"
    )
    tick.set_defaults(run=_publish)
    examine = commands.add_parser("doctor", help="print each problem and its remedy")
    examine.set_defaults(run=_examine)
    fly = commands.add_parser(
        "canary", help="measure how long a revocation takes to reach every authorizer"
    )
    fly.add_argument("name", type=_handle, metavar="NAME")
    fly.add_argument(
        "--seconds",
        type=int,
        default=canary.SECONDS_DEFAULT,
        metavar="N",
        help="how long to wait for the authorizers (default: %(default)s)",
    )
    fly.set_defaults(run=partial(canary.run, report=_report))
    copy = commands.add_parser("backup", help="copy the store of --data to a new file")
    copy.add_argument("destination", type=Path, metavar="FILE")
    copy.set_defaults(run=_backup)
    recover = commands.add_parser(
        "recover", help="after a restore: revoke again what the newest list has, and publish"
    )
    recover.add_argument("name", type=_handle, metavar="NAME")
    recover.add_argument(
        "--signer",
        type=command_line.checked(public_key_bytes),
        action="append",
        default=[],
        metavar="PUBLIC_KEY",
        help="public key, in base64, of a list signer that the restored tables do not have",
    )
    recover.set_defaults(run=_recover)


def _handle(value: str) -> str:
    try:
        return model.handle(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"a tenant's name {error}") from None


def _duration(value: str) -> timedelta:
    found = re.fullmatch(r"([1-9][0-9]{0,4})([dhm])", value)
    if found is None:
        raise argparse.ArgumentTypeError(
            "a time is a number of days, hours or minutes: 30d, 12h, 45m"
        )
    return int(found[1]) * _UNITS[found[2]]


def _create_tenant(ports: Ports, arguments: argparse.Namespace) -> None:
    settings, created = onboarding.create_tenant(ports, handle=arguments.name, user=os_user.name())
    _report(f"Created tenant {settings.handle} ({settings.tenant_id}).")
    _show(created)


def _list_tenants(ports: Ports, _arguments: argparse.Namespace) -> None:
    for each in tenants.directory(ports):
        print(each.handle, each.tenant_id, times.text(each.created_at))


def _mint_admin_key(ports: Ports, arguments: argparse.Namespace) -> None:
    lifetime = arguments.expires_in
    expires_at = None if lifetime is None else times.whole(ports.now() + lifetime)
    user = os_user.name()
    _show(onboarding.mint_admin_key(ports, handle=arguments.name, user=user, expires_at=expires_at))


def _backup(_ports: Ports, arguments: argparse.Namespace) -> None:
    if arguments.data is None:
        raise InvalidSettings("backup copies the store of a data folder.")
    backup.copy_store(arguments.data / "svc.db", arguments.destination)
    _report(f"Copied the store to {arguments.destination}.\n{_LEFT_OUT}")


def _examine(ports: Ports, arguments: argparse.Namespace) -> None:
    _warn_of_old_admin_key(ports, arguments.data)
    findings = 0
    for finding in doctor.examine(ports):
        findings += 1
        _report(f"{finding.subject}: {finding.problem}\n  → {finding.remedy}")
    if findings:
        raise Unhealthy(f"{findings} problem(s) found")
    _report("All is well.")


def _warn_of_old_admin_key(ports: Ports, folder: Path | None) -> None:
    """Print a warning if the file of the first admin key is old and its key is still accepted."""
    if folder is None or not (path := folder / "admin.key").exists():
        return
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    if ports.now() - written < _ADMIN_KEY_AGE_MAX:
        return
    with suppress(RescindError):
        api_keys.authenticate(ports, path.read_text(encoding="ascii", errors="replace").strip())
        _report(
            f"{path} is {(ports.now() - written).days} days old, but its key is still in force."
        )
        _report("  → create the keys that you need, revoke this one, and delete the file")


def _migrate(ports: Ports, arguments: argparse.Namespace) -> None:
    handles = [each.handle for each in tenants.directory(ports)]
    failed = 0
    for handle in [arguments.name] if arguments.name else handles:
        done = migration.migrate(ports, _operator(ports, handle))
        failed += len(done.failed)
        for key_id, reason in done.failed.items():
            _report(f"{handle}: the key {key_id} cannot be migrated: {reason}")
        listed = "no list was due" if done.published is None else f"list {done.published} published"
        _report(f"{handle}: {done.resealed} seeds sealed again, {done.dropped} removed, {listed}.")
    if failed:
        raise Unhealthy(f"{failed} key(s) could not be migrated")


def _publish(ports: Ports, _arguments: argparse.Namespace) -> None:
    handles = {each.tenant_id: each.handle for each in tenants.directory(ports)}
    tick = worker.publish_due(ports)
    for tenant_id in tick.published:
        head = in_force.head(ports, tenant_id)
        handle = handles.get(tenant_id, tenant_id)
        _report(f"{handle}: published version {head.version} with {head.count} warrants.")
    for tenant_id, error in tick.failed.items():
        _report(f"{handles.get(tenant_id, tenant_id)}: not published: {_described(error)}")
    if tick.failed:
        raise Unpublished(f"{len(tick.failed)} list(s) could not be published")
    _report(f"{len(tick.published)} list(s) published; no other was due.")


def _recover(ports: Ports, arguments: argparse.Namespace) -> int:
    operator = _operator(ports, arguments.name)
    recovered = recovery.recover(ports, operator, report=_report, trusted=arguments.signer)
    _report(f"Published version {recovered.head.version} with {recovered.head.count} warrants.")
    if recovered.locked_out:
        _report(f"No admin key is left; to create one, run: admin-key {arguments.name}")
    return _EXIT_UNKNOWN if recovered.unknown else 0


def _operator(ports: Ports, handle: str) -> Caller:
    return onboarding.operator(ports, handle=handle, user=os_user.name())


class Unhealthy(RescindError):
    """The doctor found a problem, or a key could not be migrated."""


class Unpublished(RescindError):
    """A list that is due could not be published."""


def _described(error: BaseException) -> str:
    """Return type and text of an error and of its causes, one per line."""
    lines = [f"{type(error).__name__}: {error}"]
    while error.__cause__ is not None:
        error = error.__cause__
        lines.append(f"  caused by {type(error).__name__}: {error}")
    return "\n".join(lines)


def _show(created: Created) -> None:
    _report(f"Admin key {created.api_key.id}; its secret is shown only once:")
    print(created.secret)


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    # All files of this process are private, also in a folder that is not.
    os.umask(0o077)
    sys.exit(main())
