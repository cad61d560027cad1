"""Verify a Signed Revocation List offline: the response of the SRL endpoint, saved to a file.

Exit codes: 0 valid, 1 not valid, 2 wrong usage.
"""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from shared.errors import InvalidSrl
from shared.model import srl_verification, times


def main() -> int:
    """Verify one file and return the exit code."""
    arguments = _arguments()
    try:
        body = _read(arguments.file)
    except OSError as error:
        print(f"{arguments.file}: {error.strerror}", file=sys.stderr)
        return 2
    try:
        payload = srl_verification.verify(
            body,
            public_key=arguments.key,
            now=datetime.now(UTC),
            min_version=arguments.min_version,
        )
    except InvalidSrl as error:
        print(f"not valid ({error.reason}): {error}")
        return 1
    print(
        f"valid: version {payload.version}, issued {times.text(payload.issued_at)}, "
        f"expires {times.text(payload.expires_at)}, {len(payload.revoked_ids)} revoked"
    )
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m infra.verify_srl",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="- for stdin")
    parser.add_argument(
        "--key", type=_public_key, required=True, metavar="BASE64", help="public key of the signer"
    )
    parser.add_argument(
        "--min-version", type=int, default=1, metavar="N", help="refuse versions below N"
    )
    return parser.parse_args()


def _read(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()


def _public_key(value: str) -> bytes:
    try:
        return srl_verification.public_key_bytes(value)
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
