"""What a verification found."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Report:
    """The result of a verification: the log is whole if there are no findings.

    `findings` name what was tampered with. `late` has the leaves whose entries are more than a
    minute older than one before them: they were sealed late, or were backdated. `pending` has the
    identifiers of entries that are too young to be sealed. `begun` says that the log began anew
    since a pin, by a recovery that the log names: only its owner knows whether there was one.
    `records` counts those compared, and `statements` the times between two statements that were.
    """

    origin: str = ""
    size: int = 0
    checked: int = 0
    expired: int = 0
    records: int = 0
    statements: int = 0
    findings: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether nothing was found."""
        return not self.findings
