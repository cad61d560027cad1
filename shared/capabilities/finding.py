"""Problems that the doctor finds, and their remedies."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from shared.model.lists.head import SrlHead
from shared.model.tenants import DirectoryEntry
from shared.ports import Ports


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and its remedy.

    `subject` is a setting, a part of the deployment, or a tenant's handle. `problem` and `remedy`
    are sentences without full stops. A remark does not count as a problem: it does not endanger or
    distort data, or it is unknown whether it does.
    """

    subject: str
    problem: str
    remedy: str
    is_remark: bool = False


DoctorCheck: TypeAlias = Callable[[Ports, DirectoryEntry, SrlHead], Iterator[Finding]]
# Prints a line for the operator.
Report: TypeAlias = Callable[[str], object]
LongDoctorCheck: TypeAlias = Callable[[Ports, DirectoryEntry, Report], Iterator[Finding]]
