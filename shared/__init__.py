"""Code shared by the functions and the programs."""

__version__ = "0.4.0.dev0"
