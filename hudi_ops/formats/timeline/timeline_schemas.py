"""Avro schemas of every record on the timeline, as Apache Hudi 1.1 writes them.

Apache Hudi resolves files into its generated classes by full name, so names, field order and union order are part of the format.
Two irregularities are kept: `version` has int as the first branch of its union, and a few nullable fields have no default.

Source: docs/format §3.1, §3.2; the `avro.schema` headers of tables written by Apache Hudi.
"""

from __future__ import annotations

from typing import Final

from hudi_ops.formats.timeline.schema_parts import (
    EXTRA_METADATA,
    STRING,
    STRING_MAP,
    STRINGS,
    STRINGS_MAP,
    VERSION,
    array,
    field,
    mapping,
    nullable,
    optional,
    record,
    root,
)
from hudi_ops.formats.timeline.service_schemas import (
    CLEAN_METADATA,
    CLEANER_PLAN,
    INDEX_COMMIT_METADATA,
    INDEX_PLAN,
    RESTORE_METADATA,
    RESTORE_PLAN,
    ROLLBACK_METADATA,
    ROLLBACK_PLAN,
    SAVEPOINT_METADATA,
)

__all__ = [
    "CLEANER_PLAN",
    "CLEAN_METADATA",
    "COMMIT_METADATA",
    "COMPACTION_PLAN",
    "INDEX_COMMIT_METADATA",
    "INDEX_PLAN",
    "LSM_INSTANT",
    "REPLACE_COMMIT_METADATA",
    "REQUESTED_REPLACE_METADATA",
    "RESTORE_METADATA",
    "RESTORE_PLAN",
    "ROLLBACK_METADATA",
    "ROLLBACK_PLAN",
    "SAVEPOINT_METADATA",
]

# Commits

_RUNTIME_STATS: Final = record(
    "HoodieRuntimeStats",
    *optional((("totalScanTime", "long"), ("totalCreateTime", "long"), ("totalUpsertTime", "long"))),
)

_WRITE_STAT: Final = record(
    "HoodieWriteStat",
    *optional((
        ("fileId", STRING),
        ("path", STRING),
        ("prevCommit", STRING),
        ("numWrites", "long"),
        ("numDeletes", "long"),
        ("numUpdateWrites", "long"),
        ("totalWriteBytes", "long"),
        ("totalWriteErrors", "long"),
        ("partitionPath", STRING),
        ("totalLogRecords", "long"),
        ("totalLogFiles", "long"),
        ("totalUpdatedRecordsCompacted", "long"),
        ("numInserts", "long"),
        ("totalLogBlocks", "long"),
        ("totalCorruptLogBlock", "long"),
        ("totalRollbackBlocks", "long"),
        ("fileSizeInBytes", "long"),
        ("logVersion", "int"),
        ("logOffset", "long"),
        ("baseFile", STRING),
        ("logFiles", STRINGS),
        ("cdcStats", mapping("long")),
        ("prevBaseFile", STRING),
        ("minEventTime", "long"),
        ("maxEventTime", "long"),
        ("runtimeStats", _RUNTIME_STATS),
        ("totalLogFilesCompacted", "long"),
        ("totalLogReadTimeMs", "long"),
        ("totalLogSizeCompacted", "long"),
        ("tempPath", STRING),
        ("numUpdates", "long"),
    )),
)

_COMMIT_FIELDS: Final = (
    nullable("partitionToWriteStats", mapping(array(_WRITE_STAT))),
    nullable("compacted", "boolean"),
    EXTRA_METADATA,
    VERSION,
    nullable("operationType", STRING),
)

COMMIT_METADATA: Final = root(record("HoodieCommitMetadata", *_COMMIT_FIELDS))
"""Completed and inflight commit and deltacommit; inflight replacecommit of an overwrite."""

REPLACE_COMMIT_METADATA: Final = root(
    record("HoodieReplaceCommitMetadata", *_COMMIT_FIELDS, nullable("partitionToReplaceFileIds", STRINGS_MAP))
)
"""Completed replacecommit: overwrites, deleted partitions, clustering."""

# Compaction

_COMPACTION_OPERATION: Final = record(
    "HoodieCompactionOperation",
    field("baseInstantTime", ["null", STRING]),
    *optional((("deltaFilePaths", STRINGS), ("dataFilePath", STRING))),
    field("fileId", ["null", STRING]),
    *optional((("partitionPath", STRING), ("metrics", mapping("double")), ("bootstrapFilePath", STRING))),
)

_COMPACTION_STRATEGY: Final = record(
    "HoodieCompactionStrategy",
    *optional((("compactorClassName", STRING), ("strategyParams", STRING_MAP))),
    VERSION,
)

COMPACTION_PLAN: Final = root(
    record(
        "HoodieCompactionPlan",
        nullable("operations", array(_COMPACTION_OPERATION)),
        EXTRA_METADATA,
        VERSION,
        nullable("strategy", _COMPACTION_STRATEGY),
        field("preserveHoodieMetadata", ["boolean", "null"], False),
        nullable("missingSchedulePartitions", STRINGS),
    )
)
"""Requested compaction and log compaction."""

# Clustering and other replacing actions

_SLICE_INFO: Final = record(
    "HoodieSliceInfo",
    *optional((("dataFilePath", STRING), ("deltaFilePaths", STRINGS))),
    field("fileId", ["null", STRING]),
    *optional((("partitionPath", STRING), ("bootstrapFilePath", STRING))),
    VERSION,
)

_CLUSTERING_GROUP: Final = record(
    "HoodieClusteringGroup",
    *optional((("slices", array(_SLICE_INFO)), ("metrics", mapping("double")))),
    field("numOutputFileGroups", ["int", "null"], 1),
    EXTRA_METADATA,
    VERSION,
)

_CLUSTERING_STRATEGY: Final = record(
    "HoodieClusteringStrategy",
    *optional((("strategyClassName", STRING), ("strategyParams", STRING_MAP))),
    VERSION,
)

_CLUSTERING_PLAN: Final = record(
    "HoodieClusteringPlan",
    *optional((("inputGroups", array(_CLUSTERING_GROUP)), ("strategy", _CLUSTERING_STRATEGY))),
    EXTRA_METADATA,
    VERSION,
    *optional((("preserveHoodieMetadata", "boolean"), ("missingSchedulePartitions", STRINGS))),
)

REQUESTED_REPLACE_METADATA: Final = root(
    record(
        "HoodieRequestedReplaceMetadata",
        *optional((("operationType", STRING), ("clusteringPlan", _CLUSTERING_PLAN))),
        EXTRA_METADATA,
        VERSION,
    )
)
"""Requested clustering (with a plan) and replacecommit (without)."""

# Archive

LSM_INSTANT: Final = root(
    record(
        "HoodieLSMTimelineInstant",
        *optional((
            ("instantTime", STRING),
            ("completionTime", STRING),
            ("action", STRING),
            ("metadata", "bytes"),
            ("plan", "bytes"),
        )),
        field("version", "int", 1),
    )
)
"""One row of the archived timeline; its `version` is not nullable."""
