"""Write, read and service Apache Hudi tables: `from hudi_ops import Table`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hudi_ops.errors import HudiOpsError

if TYPE_CHECKING:
    from hudi_ops.table.table import Table

__all__ = ["HudiOpsError", "Table"]


def __getattr__(name: str) -> Any:
    # DAG files import this package for its settings; pyarrow comes with the first use of a table only.
    if name == "Table":
        from hudi_ops.table.table import Table

        return Table
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
