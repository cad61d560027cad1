"""`python -m infra.local_server` of releases before 0.3.0 says its new name."""

import sys

from infra import renamed

if __name__ == "__main__":
    sys.exit(renamed.program("infra.local_server"))
