"""Commands for operators, which access the stores directly."""

# Installs the capabilities: a recovery without their steps would lose data.
import functions as functions
