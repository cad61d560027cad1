"""Install a `rescind` script into an environment: `python -m infra.cli.operator.install FOLDER`.

The wheel has its own script. This one runs the code of the checkout that contains the environment,
so checkouts can share one environment by a symbolic link.
"""

import sys
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[3]

# Uses only modules that Python has already loaded, because runpy and pathlib double the startup
# time.
_PROGRAM: Final = """\
#!{python}
import sys
from os.path import abspath, dirname, isdir

beside = dirname(dirname(dirname(abspath(sys.argv[0]))))
sys.path.insert(0, beside if isdir(beside + "/infra/cli") else {root!r})

# Workers of the server import this file.
if __name__ == "__main__":
    from infra.cli.__main__ import main

    sys.exit(main())
"""


def install(folder: Path) -> None:
    """Write the script into the environment `folder`."""
    bin_ = folder.absolute() / "bin"
    program = bin_ / "rescind"
    program.write_text(_PROGRAM.format(python=bin_ / "python", root=str(_ROOT)), encoding="utf-8")
    program.chmod(0o755)


if __name__ == "__main__":
    install(Path(sys.argv[1]))
