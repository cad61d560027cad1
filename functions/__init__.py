"""Endpoint groups and capabilities, one per folder. They translate HTTP or events to operations."""

import os
import platform
from pathlib import Path

from shared import artefact

# Before any handler imports libraries that are built for one architecture.
artefact.check(Path(__file__).parent.parent, platform.machine(), os.environ)

# Before any handler or command runs, in every process that imports one.
from functions.authorizers.capability import Authorizers  # noqa: E402
from functions.batches.capability import Batches  # noqa: E402
from functions.changes.capability import Changes  # noqa: E402
from functions.search.capability import Search  # noqa: E402
from functions.status_lists.capability import StatusLists  # noqa: E402
from functions.stock_authorizers.capability import StockAuthorizers  # noqa: E402
from functions.transparency_log.capability import TransparencyLog  # noqa: E402
from functions.trust.capability import Trust  # noqa: E402
from functions.webhooks.capability import Webhooks  # noqa: E402
from shared.capabilities import INSTALLED  # noqa: E402

INSTALLED.install(
    Authorizers(),
    Batches(),
    Changes(),
    Search(),
    StockAuthorizers(),
    StatusLists(),
    # In a recovery, a trust document names the audit signer of the log.
    TransparencyLog(),
    Trust(),
    Webhooks(),
)
