"""Write `rescind` into an environment: `python -m infra.cli.operator.install FOLDER`.

The wheel has its own. This one runs the code of the checkout in whose folder the environment is, so
that checkouts can share an environment by a link.
"""

import sys
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[3]

# With what Python has loaded anyway: runpy and pathlib would double its time to begin.
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
    """Write the program into the environment `folder`."""
    bin_ = folder.absolute() / "bin"
    program = bin_ / "rescind"
    program.write_text(_PROGRAM.format(python=bin_ / "python", root=str(_ROOT)), encoding="utf-8")
    program.chmod(0o755)


if __name__ == "__main__":
    install(Path(sys.argv[1]))
