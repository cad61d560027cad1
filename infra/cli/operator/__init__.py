"""Commands for operators, which access the stores directly."""
