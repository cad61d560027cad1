"""Locate the package: in a checkout the service's folder, otherwise in this folder."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_HERE = Path(__file__).parent
_NAME = "rescind_authorizer"
# In a source distribution. Under its own name, Hatch would include the package twice.
_PACKED = "package"
_CHECKOUT = _HERE.parents[2] / "shared"
_IS_CHECKOUT = (_CHECKOUT / "authorizer").is_dir()


def version() -> str:
    """Return the version of the service, or of the source distribution."""
    file = _CHECKOUT / "__init__.py" if _IS_CHECKOUT else _HERE / "PKG-INFO"
    lines = file.read_text(encoding="utf-8").splitlines()
    marks = ("__version__ = ", "Version: ")
    return next(line.split()[-1].strip('"') for line in lines if line.startswith(marks))


class PackageHook(BuildHookInterface[Any]):  # type: ignore[misc]
    """Adds the package and the license to the wheel and to the source distribution."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        """Map the source paths to their paths in the distribution."""
        place = _PACKED if self.target_name == "sdist" else _NAME
        package = _CHECKOUT / "authorizer" if _IS_CHECKOUT else _HERE / _PACKED
        build_data["force_include"][str(package)] = place
        if _IS_CHECKOUT:
            build_data["force_include"][str(_CHECKOUT.parent / "LICENSE")] = f"{place}/LICENSE"
