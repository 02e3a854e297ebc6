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
    from hudi_ops.commit.ledger import Offer as Offer
    from hudi_ops.commit.recover.rollback import RolledBackWrite as RolledBackWrite
    from hudi_ops.concurrency.lock.locks import LockProvider as LockProvider
    from hudi_ops.concurrency.lock.zookeeper import ZooKeeperLock as ZooKeeperLock
    from hudi_ops.config.conflict_settings import ConflictSettings as ConflictSettings
    from hudi_ops.config.definition import (
        Alteration as Alteration,
        DefinitionFields as DefinitionFields,
        OpenOptions as OpenOptions,
        TableDefinition as TableDefinition,
        WriterFields as WriterFields,
        WriterOptions as WriterOptions,
    )
    from hudi_ops.config.doors import Door as Door
    from hudi_ops.config.key_generators import TimePartition as TimePartition
    from hudi_ops.config.logged_settings import Difference as Difference
    from hudi_ops.config.requests.cancel import CancelSettings as CancelSettings
    from hudi_ops.config.requests.clustering import ClusteringRequest as ClusteringRequest
    from hudi_ops.config.requests.compaction import CompactionRequest as CompactionRequest
    from hudi_ops.config.requests.indexing import IndexRequest as IndexRequest
    from hudi_ops.config.requests.request import Request as Request
    from hudi_ops.config.requests.resize import ResizeRequest as ResizeRequest
    from hudi_ops.config.requests.schedule import Schedule as Schedule
    from hudi_ops.config.requests.services import (
        ArchiveRequest as ArchiveRequest,
        CancelRequest as CancelRequest,
        CleanRequest as CleanRequest,
        IngestRequest as IngestRequest,
        RecoverRequest as RecoverRequest,
        VerifyRequest as VerifyRequest,
    )
    from hudi_ops.config.requests.targets import (
        BucketsTargets as BucketsTargets,
        CleanLagTargets as CleanLagTargets,
        FilesKeptTargets as FilesKeptTargets,
        HealthTargets as HealthTargets,
        IndexesTargets as IndexesTargets,
        IngestionTargets as IngestionTargets,
        MetadataTableTargets as MetadataTableTargets,
        PlansTargets as PlansTargets,
        ReadCostTargets as ReadCostTargets,
        SmallFilesTargets as SmallFilesTargets,
        TimelineTargets as TimelineTargets,
        WritersTargets as WritersTargets,
    )
    from hudi_ops.config.table import TableConfig as TableConfig
    from hudi_ops.config.tables_file import (
        TableDeclaration as TableDeclaration,
        TableLocation as TableLocation,
    )
    from hudi_ops.config.upkeep_settings import (
        ArchiveSettings as ArchiveSettings,
        CleanSettings as CleanSettings,
        UpkeepSettings as UpkeepSettings,
    )
    from hudi_ops.config.write_settings import (
        FileSizes as FileSizes,
        ViewServer as ViewServer,
        ViewSettings as ViewSettings,
    )
    from hudi_ops.context import (
        Owner as Owner,
        TableContext as TableContext,
    )
    from hudi_ops.engine.local import LocalEngine as LocalEngine
    from hudi_ops.engine.protocol import Engine as Engine
    from hudi_ops.engine.spark import SparkEngine as SparkEngine
    from hudi_ops.files.slice.file_scan import FileTask as FileTask
    from hudi_ops.files.slice.slice_scan import SliceTask as SliceTask
    from hudi_ops.health.many import health_of_tables as health_of_tables
    from hudi_ops.health.seen import Seen as Seen
    from hudi_ops.health.verdict import (
        CheckVerdict as CheckVerdict,
        EvidenceSaid as EvidenceSaid,
        HealthReport as HealthReport,
        HealthVerdict as HealthVerdict,
        MeasureSaid as MeasureSaid,
    )
    from hudi_ops.read.changes import (
        Changes as Changes,
        CoveredInstant as CoveredInstant,
    )
    from hudi_ops.read.scan import (
        Explanation as Explanation,
        Scan as Scan,
    )
    from hudi_ops.services.base.choice import Verdict as Verdict
    from hudi_ops.services.base.cost import (
        Cost as Cost,
        CostError as CostError,
    )
    from hudi_ops.services.base.result import (
        EndedPlans as EndedPlans,
        PlanResult as PlanResult,
        Result as Result,
        ServiceResult as ServiceResult,
    )
    from hudi_ops.services.cancel.abort import CancelResult as CancelResult
    from hudi_ops.services.cancel.executed import Stopped as Stopped
    from hudi_ops.services.cancel.overdue import OverdueResult as OverdueResult
    from hudi_ops.services.cancel.plans import PlanRow as PlanRow
    from hudi_ops.services.clean.result import CleanOutcome as CleanOutcome
    from hudi_ops.services.clustering.service import ClusterResult as ClusterResult
    from hudi_ops.services.compaction.service import CompactResult as CompactResult
    from hudi_ops.services.create.adopt import AdoptionResult as AdoptionResult
    from hudi_ops.services.indexing.drop import DropResult as DropResult
    from hudi_ops.services.indexing.service import IndexResult as IndexResult
    from hudi_ops.services.inspect.rings import (
        ChildView as ChildView,
        NodeView as NodeView,
        RingView as RingView,
    )
    from hudi_ops.services.recovery.alter import (
        AlteredSetting as AlteredSetting,
        AlterResult as AlterResult,
    )
    from hudi_ops.services.recovery.attempts import (
        Left as Left,
        RecoverResult as RecoverResult,
        RollbackResult as RollbackResult,
    )
    from hudi_ops.services.recovery.properties import PropertiesRepair as PropertiesRepair
    from hudi_ops.services.repair.repair import (
        Repair as Repair,
        RepairResult as RepairResult,
    )
    from hudi_ops.services.resize.service import ResizeResult as ResizeResult
    from hudi_ops.services.rewrite.result import RewriteResult as RewriteResult
    from hudi_ops.services.write.ingest import IngestResult as IngestResult
    from hudi_ops.services.write.remove import RemovalResult as RemovalResult
    from hudi_ops.services.write.replace import HeldPartition as HeldPartition
    from hudi_ops.table.health import HealthApi as HealthApi
    from hudi_ops.table.ingestion import IngestApi as IngestApi
    from hudi_ops.table.plans import PlansApi as PlansApi
    from hudi_ops.table.reading import ReadApi as ReadApi
    from hudi_ops.table.repairs import RepairsApi as RepairsApi
    from hudi_ops.table.table import Table as Table
    from hudi_ops.verify.report import (
        Finding as Finding,
        Report as Report,
    )

    __version__: str

_PLACES = {
    "commit.ledger": "Offer",
    "commit.recover.rollback": "RolledBackWrite",
    "concurrency.lock.locks": "LockProvider",
    "concurrency.lock.zookeeper": "ZooKeeperLock",
    "config.conflict_settings": "ConflictSettings",
    "config.definition": "Alteration DefinitionFields OpenOptions TableDefinition WriterFields WriterOptions",
    "config.doors": "Door",
    "config.key_generators": "TimePartition",
    "config.logged_settings": "Difference",
    "config.requests.cancel": "CancelSettings",
    "config.requests.clustering": "ClusteringRequest",
    "config.requests.compaction": "CompactionRequest",
    "config.requests.indexing": "IndexRequest",
    "config.requests.request": "Request",
    "config.requests.resize": "ResizeRequest",
    "config.requests.schedule": "Schedule",
    "config.requests.services": "ArchiveRequest CancelRequest CleanRequest IngestRequest RecoverRequest VerifyRequest",
    "config.requests.targets": "BucketsTargets CleanLagTargets FilesKeptTargets HealthTargets IndexesTargets IngestionTargets "
    "MetadataTableTargets PlansTargets ReadCostTargets SmallFilesTargets TimelineTargets WritersTargets",
    "config.table": "TableConfig",
    "config.tables_file": "TableDeclaration TableLocation",
    "config.upkeep_settings": "ArchiveSettings CleanSettings UpkeepSettings",
    "config.write_settings": "FileSizes ViewServer ViewSettings",
    "context": "Owner TableContext",
    "engine.local": "LocalEngine",
    "engine.protocol": "Engine",
    "engine.spark": "SparkEngine",
    "files.slice.file_scan": "FileTask",
    "files.slice.slice_scan": "SliceTask",
    "health.seen": "Seen",
    "health.many": "health_of_tables",
    "health.verdict": "CheckVerdict EvidenceSaid HealthReport HealthVerdict MeasureSaid",
    "read.changes": "Changes CoveredInstant",
    "read.scan": "Explanation Scan",
    "services.base.choice": "Verdict",
    "services.base.cost": "Cost CostError",
    "services.base.result": "EndedPlans PlanResult Result ServiceResult",
    "services.rewrite.result": "RewriteResult",
    "services.cancel.abort": "CancelResult",
    "services.cancel.executed": "Stopped",
    "services.cancel.overdue": "OverdueResult",
    "services.cancel.plans": "PlanRow",
    "services.clean.result": "CleanOutcome",
    "services.clustering.service": "ClusterResult",
    "services.compaction.service": "CompactResult",
    "services.create.adopt": "AdoptionResult",
    "services.indexing.drop": "DropResult",
    "services.indexing.service": "IndexResult",
    "services.inspect.rings": "ChildView NodeView RingView",
    "services.recovery.alter": "AlterResult AlteredSetting",
    "services.recovery.attempts": "Left RecoverResult RollbackResult",
    "services.recovery.properties": "PropertiesRepair",
    "services.repair.repair": "Repair RepairResult",
    "services.resize.service": "ResizeResult",
    "services.write.ingest": "IngestResult",
    "services.write.remove": "RemovalResult",
    "services.write.replace": "HeldPartition",
    "table.health": "HealthApi",
    "table.ingestion": "IngestApi",
    "table.plans": "PlansApi",
    "table.reading": "ReadApi",
    "table.repairs": "RepairsApi",
    "table.table": "Table",
    "verify.report": "Finding Report",
}
"""Module -> names that come from it. DAG files import this package for its settings; pyarrow comes with a table."""

_LATER = {name: f"hudi_ops.{module}" for module, names in _PLACES.items() for name in names.split()}

__all__ = [
    "Busy",
    "Cancelled",
    "Conflict",
    "Corrupt",
    "HudiOpsError",
    "InvalidRequest",
    "NotFound",
    "Unavailable",
    "Unsupported",
    "__version__",
    *_LATER,
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
