"""How the processes of one machine hear of what others have written (docs/adr/11)."""

import logging

from shared.ports import Ports
from shared.ports.one_machine import Audible, Listener, News

_log = logging.getLogger("rescind")


def listener(ports: Ports, news: News) -> Listener | None:
    """Return what hears of such news, or None if looks now and then have to do."""
    if not isinstance(ports.store, Audible):
        return None
    try:
        return ports.store.listen(news)
    except OSError as error:
        _log.warning("no news of the %s: %s; it is looked at now and then", news, error.strerror)
        return None
