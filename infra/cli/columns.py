"""Columns of tables and of CSV."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column: its title, the field of a record that it shows, and whether its text may wrap."""

    title: str
    key: str
    wraps: bool = False
