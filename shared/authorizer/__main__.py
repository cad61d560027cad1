"""Inspect a feed, serve Envoy, run a relay, or run the conformance suite.

The API key is read from the environment variable RESCIND_API_KEY.
"""

import argparse
import os
import sys
import time
from argparse import BooleanOptionalAction
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from . import conformance, ext_authz
from .client import AuthorizerClient, NotReady
from .events import Event, PollSucceeded
from .guard import Guard
from .policy import PollPolicy
from .saved_state import FileStateStore, MemoryStateStore, SavedStateCorrupt, StateStore

_API_KEY_VARIABLE = "RESCIND_API_KEY"


def main(arguments: list[str] | None = None) -> int:
    """Run one command, and return the exit code.

    The code is 0, or 1 with a message on standard error.
    """
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (NotReady, SavedStateCorrupt, ValueError, OSError) as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


def _status(options: argparse.Namespace) -> int:
    """Print the current status of a client."""
    with _client(options) as client:
        for name, value in asdict(client.status).items():
            print(f"{name}: {value}")
    return 0


def _watch(options: argparse.Namespace) -> int:
    """Print the events of a client until Ctrl-C."""
    with _client(options, is_shown=True):
        while True:
            time.sleep(1)


def _ext_authz(options: argparse.Namespace) -> int:
    """Serve authorization decisions to Envoy until Ctrl-C (docs/authorizers.md)."""
    host, _, port = options.listen.rpartition(":")
    client = _client(options)
    guard = Guard(client)
    with suppress(NotReady):
        client.start()
    with client, ext_authz.server(guard, host, int(port)) as server:
        print(f"listening on {options.listen}", flush=True)
        server.serve_forever()
    return 0


def _relay(options: argparse.Namespace) -> int:
    """Poll the feed once for many clients in a private network (docs/relay.md)."""
    try:
        from .relay import command  # noqa: PLC0415 (only the extra `relay` installs what it needs)
    except ModuleNotFoundError as error:
        raise ValueError(f"{error}; install rescind-authorizer[relay]") from None
    return command.run(options, _api_key())


def _conformance(_: argparse.Namespace) -> int:
    """Run the requests of the conformance suite from standard input."""
    conformance.main()
    return 0


def _client(options: argparse.Namespace, *, is_shown: bool = False) -> AuthorizerClient:
    state: StateStore = (
        FileStateStore(options.state_dir) if options.state_dir else MemoryStateStore()
    )
    return AuthorizerClient(
        options.url,
        api_key=_api_key(),
        tenant=options.tenant,
        trust_pin=options.trust_pin,
        state=state,
        policy=PollPolicy(allow_http=options.allow_http),
        on_event=_print_event if is_shown else None,
        name=options.name,
        report=options.report,
    )


def _api_key() -> str:
    key = os.environ.get(_API_KEY_VARIABLE)
    if not key:
        raise ValueError(f"set {_API_KEY_VARIABLE} to an API key with the scope authorizer")
    return key


def _print_event(event: Event) -> None:
    if not isinstance(event, PollSucceeded) or event.changed:
        print(time.strftime("%H:%M:%S"), event, flush=True)


class _StoreOnce(argparse.Action):
    """Stores the value of an argument, and rejects a second value."""

    def __call__(self, parser: argparse.ArgumentParser, *given: Any) -> None:
        options, value, _ = given
        if getattr(options, self.dest) is not self.default:
            parser.error(f"{self.option_strings[0]} was given twice; write it once.")
        setattr(options, self.dest, value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rescind_authorizer", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, run in (
        ("status", _status),
        ("watch", _watch),
        ("ext-authz", _ext_authz),
        ("relay", _relay),
    ):
        command = commands.add_parser(name, help=run.__doc__)
        command.set_defaults(run=run)
        command.register("action", None, _StoreOnce)
        add = command.add_argument
        add("url", metavar="URL", help="address of the service")
        add("--tenant", required=True, metavar="ID", help="the tenant's identifier, svc_tnt_…")
        add(
            "--trust-pin",
            required=True,
            metavar="PIN",
            help="pin of the trust root, as printed by `rescind trust show`",
        )
        add("--allow-http", action="store_true", help="send the API key without TLS")
        add("--name", help="name in reports (default: the host name)")
        if run is _relay:
            _add_relay(command)
            continue
        add("--state-dir", metavar="FOLDER", help="folder of the saved state")
        add(
            "--report",
            action=BooleanOptionalAction,
            # `status` and `watch` enforce no decisions.
            default=name == "ext-authz",
            help="report the current feed entry to the service (default: %(default)s)",
        )
    commands.choices["ext-authz"].add_argument(
        "--listen",
        default="127.0.0.1:9191",
        metavar="HOST:PORT",
        help="address for requests of Envoy (default: %(default)s)",
    )
    suite = commands.add_parser("conformance", help=_conformance.__doc__)
    suite.set_defaults(run=_conformance)
    return parser


def _add_relay(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--state", required=True, metavar="FOLDER", help="folder of the saved state")
    add(
        "--listen",
        default="127.0.0.1:8181",
        metavar="ADDRESS:PORT",
        help="address for requests of clients (default: %(default)s)",
    )
    add("--tokens", metavar="FILE", help="tokens of the clients, one per line")
    add("--certificate", metavar="FILE", help="certificate chain for TLS")
    add("--key", metavar="FILE", help="private key of the certificate")
    add("--allow-http-clients", action="store_true", help="serve other machines without TLS")


if __name__ == "__main__":
    sys.exit(main())
