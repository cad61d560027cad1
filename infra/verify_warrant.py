"""`python -m infra.verify_warrant` of releases before 0.3.0 says its new name."""

import sys

from infra import renamed

if __name__ == "__main__":
    sys.exit(renamed.program("infra.verify_warrant"))
