"""The tests, and the programs that they run.

Each installs the capabilities, as each process of the product does that needs them.
"""

import functions as _functions  # noqa: F401
