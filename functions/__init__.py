"""What is deployed: each folder is one Lambda function, and speaks HTTP only."""

import os
import platform
from pathlib import Path

from shared import artefact

# Before any handler loads a library that another processor cannot run.
artefact.check(Path(__file__).parent.parent, platform.machine(), os.environ)
