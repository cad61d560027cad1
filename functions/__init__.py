"""Lambda functions, one per folder. They translate HTTP or events to operations."""

import os
import platform
from pathlib import Path

from shared import artefact

# Before any handler imports libraries that are built for one architecture.
artefact.check(Path(__file__).parent.parent, platform.machine(), os.environ)
