"""Lambda functions, one in each folder. They translate HTTP or events into operations."""

import os
import platform
from pathlib import Path

from shared import artefact

# Runs before a handler imports libraries that are built for one architecture.
artefact.check(Path(__file__).parent.parent, platform.machine(), os.environ)
