"""The operator's command line, on whatever store the environment names (see shared/settings.py).

A new key is the only thing on standard output; all else goes to standard error.
Exit codes: 0 done, 1 refused or failed, 2 wrong usage or settings.
"""

import argparse
import os
import sys
from pathlib import Path

from infra import data_folder, os_user
from shared import wiring
from shared.errors import InvalidSettings, RescindError
from shared.model import tenants as model
from shared.model import times
from shared.operations import doctor, onboarding, recovery, tenants
from shared.operations.api_keys import Created
from shared.ports import Ports
from shared.settings import Settings


def main() -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args()
    try:
        ports = wiring.build(Settings.load(data_folder.chosen(arguments.data, os.environ)))
        arguments.run(ports, arguments)
    except InvalidSettings as error:
        _say(f"{error}\nSet them in the environment, or name a data folder with --data.")
        return 2
    except RescindError as error:
        _say(f"{type(error).__name__}: {error}")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m infra.admin",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, help="the data folder of `make run`, such as .data")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    tenant = commands.add_parser("tenant", help="create a tenant, or list them all")
    actions = tenant.add_subparsers(required=True, metavar="ACTION")
    create = actions.add_parser("create", help="create a tenant; prints its first admin key once")
    create.add_argument("name", type=_handle, metavar="NAME")
    create.set_defaults(run=_create_tenant)
    actions.add_parser("list", help="list the tenants").set_defaults(run=_list_tenants)
    mint = commands.add_parser("admin-key", help="mint an admin key for a tenant locked out")
    mint.add_argument("name", type=_handle, metavar="NAME")
    mint.set_defaults(run=_mint_admin_key)
    examine = commands.add_parser("doctor", help="say what is wrong, and what to do about it")
    examine.set_defaults(run=_examine)
    recover = commands.add_parser(
        "recover", help="after a restore: revoke again what is listed, and publish above it"
    )
    recover.add_argument("name", type=_handle, metavar="NAME")
    recover.set_defaults(run=_recover)
    return parser


def _handle(value: str) -> str:
    try:
        return model.handle(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"a tenant's name {error}") from None


def _create_tenant(ports: Ports, arguments: argparse.Namespace) -> None:
    settings, created = onboarding.create_tenant(ports, handle=arguments.name, user=os_user.name())
    _say(f"Created tenant {settings.handle} ({settings.tenant_id}).")
    _show(created)


def _list_tenants(ports: Ports, _arguments: argparse.Namespace) -> None:
    for listing in tenants.listing(ports):
        print(listing.handle, listing.tenant_id, times.text(listing.created_at))


def _mint_admin_key(ports: Ports, arguments: argparse.Namespace) -> None:
    _show(onboarding.mint_admin_key(ports, handle=arguments.name, user=os_user.name()))


def _examine(ports: Ports, _arguments: argparse.Namespace) -> None:
    findings = 0
    for finding in doctor.examine(ports):
        findings += 1
        _say(f"{finding.subject}: {finding.problem}\n  → {finding.remedy}")
    if findings:
        raise Unhealthy(f"{findings} problem(s) found")
    _say("All is well.")


def _recover(ports: Ports, arguments: argparse.Namespace) -> None:
    operator = onboarding.operator(ports, handle=arguments.name, user=os_user.name())
    recovered = recovery.recover(ports, operator)
    for warrant_id in recovered.revoked_again:
        _say(f"Revoked again: {warrant_id}")
    _say(f"Published version {recovered.head.version} with {recovered.head.count} warrants.")


class Unhealthy(RescindError):
    """The doctor found something."""


def _show(created: Created) -> None:
    _say(f"Admin key {created.api_key.id}; its secret is shown this once:")
    print(created.secret)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
