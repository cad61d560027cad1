"""How the processes of one machine hear of what others have written (docs/adr/11)."""

import logging
from typing import Final

from shared.ports import Ports
from shared.ports.one_machine import Audible, Listener, News

# How often whoever listens looks by itself, because news may be lost.
LOOK_SECONDS: Final = 1.0

_log = logging.getLogger("rescind")


def listener(ports: Ports, news: News) -> Listener | None:
    """Return what hears of such news, or None if a look each second has to do."""
    if not isinstance(ports.store, Audible):
        return None
    try:
        return ports.store.listen(news)
    except OSError as error:
        _log.warning("no news of the %s: %s; it is looked at each second", news, error.strerror)
        return None
