"""Code that the functions and the programs share."""

__version__ = "0.4.0.dev0"
