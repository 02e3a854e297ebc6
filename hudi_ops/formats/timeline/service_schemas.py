"""Avro schemas of cleaning, rollback, restore, savepoint and index builds.

`timeline_schemas` exports these and all others.

Source: docs/format §3.2; the `avro.schema` headers of tables written by Apache Hudi.
"""

from __future__ import annotations

from typing import Final

from hudi_ops.formats.timeline.schema_parts import (
    EXTRA_METADATA,
    STRING,
    STRINGS,
    STRINGS_MAP,
    VERSION,
    array,
    field,
    mapping,
    nullable,
    optional,
    record,
    required,
    root,
)

# Cleaning

_ACTION_INSTANT: Final = record(
    "HoodieActionInstant", *required((("timestamp", STRING), ("action", STRING), ("state", STRING)))
)

_CLEAN_FILE_INFO: Final = record(
    "HoodieCleanFileInfo", *optional((("filePath", STRING), ("isBootstrapBaseFile", "boolean")))
)

CLEANER_PLAN: Final = root(
    record(
        "HoodieCleanerPlan",
        nullable("earliestInstantToRetain", _ACTION_INSTANT),
        field("lastCompletedCommitTimestamp", STRING, ""),
        field("policy", STRING),
        nullable("filesToBeDeletedPerPartition", STRINGS_MAP),
        VERSION,
        nullable("filePathsToBeDeletedPerPartition", mapping(array(_CLEAN_FILE_INFO))),
        nullable("partitionsToBeDeleted", STRINGS),
        EXTRA_METADATA,
    )
)
"""Requested clean."""

_CLEAN_PARTITION_METADATA: Final = record(
    "HoodieCleanPartitionMetadata",
    *required((
        ("partitionPath", STRING),
        ("policy", STRING),
        ("deletePathPatterns", STRINGS),
        ("successDeleteFiles", STRINGS),
        ("failedDeleteFiles", STRINGS),
    )),
    nullable("isPartitionDeleted", "boolean"),
)

CLEAN_METADATA: Final = root(
    record(
        "HoodieCleanMetadata",
        *required((
            ("startCleanTime", STRING),
            ("timeTakenInMillis", "long"),
            ("totalFilesDeleted", "int"),
            ("earliestCommitToRetain", STRING),
        )),
        field("lastCompletedCommitTimestamp", STRING, ""),
        field("partitionMetadata", mapping(_CLEAN_PARTITION_METADATA)),
        VERSION,
        nullable("bootstrapPartitionMetadata", mapping(_CLEAN_PARTITION_METADATA)),
        EXTRA_METADATA,
    )
)
"""Completed clean."""

# Rollback, restore, savepoint

_INSTANT_INFO: Final = record("HoodieInstantInfo", *required((("commitTime", STRING), ("action", STRING))))

_ROLLBACK_REQUEST: Final = record(
    "HoodieRollbackRequest",
    field("partitionPath", STRING),
    *optional((("fileId", STRING), ("latestBaseInstant", STRING))),
    field("filesToBeDeleted", STRINGS, []),
    nullable("logBlocksToBeDeleted", mapping("long")),
)

ROLLBACK_PLAN: Final = root(
    record(
        "HoodieRollbackPlan",
        *optional((("instantToRollback", _INSTANT_INFO), ("RollbackRequests", array(_ROLLBACK_REQUEST)))),
        VERSION,
    )
)
"""Requested rollback; the capital R is the format's."""

_ROLLBACK_PARTITION_METADATA: Final = record(
    "HoodieRollbackPartitionMetadata",
    *required((("partitionPath", STRING), ("successDeleteFiles", STRINGS), ("failedDeleteFiles", STRINGS))),
    *optional((("rollbackLogFiles", mapping("long")), ("logFilesFromFailedCommit", mapping("long")))),
)

_ROLLBACK_METADATA: Final = record(
    "HoodieRollbackMetadata",
    *required((
        ("startRollbackTime", STRING),
        ("timeTakenInMillis", "long"),
        ("totalFilesDeleted", "int"),
        ("commitsRollback", STRINGS),
        ("partitionMetadata", mapping(_ROLLBACK_PARTITION_METADATA)),
    )),
    VERSION,
    field("instantsRollback", array(_INSTANT_INFO), []),
)

ROLLBACK_METADATA: Final = root(_ROLLBACK_METADATA)
"""Completed rollback."""

RESTORE_PLAN: Final = root(
    record(
        "HoodieRestorePlan",
        field("instantsToRollback", array(_INSTANT_INFO), []),
        field("version", ["int", "null"], 2),
        nullable("savepointToRestoreTimestamp", STRING),
    )
)
"""Requested restore; the only plan whose version is 2 by default."""

RESTORE_METADATA: Final = root(
    record(
        "HoodieRestoreMetadata",
        *required((
            ("startRestoreTime", STRING),
            ("timeTakenInMillis", "long"),
            ("instantsToRollback", STRINGS),
            ("hoodieRestoreMetadata", mapping(array(["null", _ROLLBACK_METADATA]))),
        )),
        VERSION,
        field("restoreInstantInfo", array(_INSTANT_INFO), []),
    )
)
"""Completed restore."""

_SAVEPOINT_PARTITION_METADATA: Final = record(
    "HoodieSavepointPartitionMetadata", *required((("partitionPath", STRING), ("savepointDataFile", STRINGS)))
)

SAVEPOINT_METADATA: Final = root(
    record(
        "HoodieSavepointMetadata",
        *required((
            ("savepointedBy", STRING),
            ("savepointedAt", "long"),
            ("comments", STRING),
            ("partitionMetadata", mapping(_SAVEPOINT_PARTITION_METADATA)),
        )),
        VERSION,
    )
)
"""Completed savepoint."""

# Index builds

_INDEX_PARTITIONS: Final = nullable(
    "indexPartitionInfos",
    array(
        record(
            "HoodieIndexPartitionInfo",
            VERSION,
            *optional((("metadataPartitionPath", STRING), ("indexUptoInstant", STRING))),
            EXTRA_METADATA,
        )
    ),
)

INDEX_PLAN: Final = root(record("HoodieIndexPlan", VERSION, _INDEX_PARTITIONS))
"""Requested indexing."""

INDEX_COMMIT_METADATA: Final = root(
    record("HoodieIndexCommitMetadata", VERSION, nullable("operationType", STRING), _INDEX_PARTITIONS)
)
"""Completed indexing."""
