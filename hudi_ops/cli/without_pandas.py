"""Keep pandas out of the program.

Arrow imports it for the first Python value that it converts. That takes more than a second, and no command hands rows to pandas.
Only the process of the program is affected.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec

_CALLERS_OF_ARROW = frozenset({"hudi_ops", "pyarrow", "concurrent", "threading"})
"""Packages whose calls of Arrow import pandas; the last two call it in threads."""

_SKIPPED = frozenset({__name__, "importlib._bootstrap", "importlib._bootstrap_external"})
"""Modules whose frames lie between an import and the module that makes it."""


class _WithoutPandas(MetaPathFinder):
    """Tell Arrow that there is no pandas; other modules, such as pyspark, import it."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Refuse an import of pandas that Arrow's compiled code makes.

        Raises:
            ModuleNotFoundError: the import comes from Arrow, or from a call of Arrow in this package.
        """
        if fullname == "pandas" and _importer() in _CALLERS_OF_ARROW:
            raise ModuleNotFoundError("the program does without pandas", name=fullname)
        return None


def leave_pandas_out() -> None:
    """Do without pandas in this process, unless it is imported already."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _WithoutPandas())


def _importer() -> str:
    """Return the top package of the module that imports."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"] in _SKIPPED:
        frame = frame.f_back
    return str(frame.f_globals["__name__"]).partition(".")[0]
