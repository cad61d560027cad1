"""Run `rescind` in a checkout: `python -m infra.cli`."""

import os
import sys

from infra.cli.app import main

if __name__ == "__main__":
    # Every file that a command makes is private, whatever the folder's mode.
    os.umask(0o077)
    sys.exit(main())
