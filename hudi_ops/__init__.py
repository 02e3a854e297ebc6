"""Write, read and service Apache Hudi tables: `from hudi_ops import Table`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hudi_ops.errors import (
    Busy,
    Cancelled,
    Conflict,
    Corrupt,
    HudiOpsError,
    InvalidRequest,
    NotFound,
    Unavailable,
    Unsupported,
)

if TYPE_CHECKING:
    from hudi_ops.read.changes import Changes
    from hudi_ops.read.scan import Explanation, Scan
    from hudi_ops.services.base.result import PlanResult
    from hudi_ops.services.compaction.result import CompactResult
    from hudi_ops.services.indexing.drop import DropResult
    from hudi_ops.services.indexing.result import IndexResult
    from hudi_ops.services.recovery.attempts import RecoverResult, RollbackResult
    from hudi_ops.services.write.ingest import IngestResult
    from hudi_ops.services.write.remove import RemovalResult
    from hudi_ops.table.table import Table

    __version__: str

# DAG files import this package for its settings; pyarrow comes with the first use of a table only.
_LATER = {
    "Changes": "hudi_ops.read.changes",
    "CompactResult": "hudi_ops.services.compaction.result",
    "DropResult": "hudi_ops.services.indexing.drop",
    "Explanation": "hudi_ops.read.scan",
    "IndexResult": "hudi_ops.services.indexing.result",
    "IngestResult": "hudi_ops.services.write.ingest",
    "PlanResult": "hudi_ops.services.base.result",
    "RecoverResult": "hudi_ops.services.recovery.attempts",
    "RemovalResult": "hudi_ops.services.write.remove",
    "RollbackResult": "hudi_ops.services.recovery.attempts",
    "Scan": "hudi_ops.read.scan",
    "Table": "hudi_ops.table.table",
}

__all__ = [
    "Busy",
    "Cancelled",
    "Changes",
    "CompactResult",
    "Conflict",
    "Corrupt",
    "DropResult",
    "Explanation",
    "HudiOpsError",
    "IndexResult",
    "IngestResult",
    "InvalidRequest",
    "NotFound",
    "PlanResult",
    "RecoverResult",
    "RemovalResult",
    "RollbackResult",
    "Scan",
    "Table",
    "Unavailable",
    "Unsupported",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    if name == "__version__":
        return _version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hudi-ops")
    except PackageNotFoundError:  # sent to executors as a zip, which has no metadata
        return "unknown"
