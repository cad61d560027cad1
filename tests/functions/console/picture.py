"""Makes the picture of the console in the README: `python -m tests.functions.console.picture FILE`.

`make pictures` runs it.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.functions.console import plans, seeds
from tests.functions.console.served import serving
from tests.functions.console.watched import Console
from tests.kit import browsers


def main(file: str) -> None:
    """Write what an administrator sees first."""
    path = browsers.executable()
    if path is None:
        sys.exit("There is no Chromium here; CHROMIUM can name one.")
    with TemporaryDirectory() as folder, browsers.launched(path) as browser:
        seed = seeds.found(plans.plain, Path(folder))
        with serving(seed, Path(folder) / "world") as world:
            console = Console.visit(browser, world)
            console.sign_in()
            console.check()
            console.photograph(Path(file))


if __name__ == "__main__":
    main(*sys.argv[1:])
