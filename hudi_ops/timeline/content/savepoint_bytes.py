"""Encode savepoints: the reverse of `timeline.content.plans` (docs/format.md §3.2)."""

from __future__ import annotations

from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.timeline_schemas import SAVEPOINT_METADATA
from hudi_ops.timeline.content.plans import Savepoint

SAVEPOINT_VERSION = 1


def encode_savepoint(savepoint: Savepoint) -> bytes:
    """Encode the completed file of a savepoint; equal savepoints give equal bytes."""
    return avro.write_one(
        SAVEPOINT_METADATA,
        {
            "savepointedBy": savepoint.made_by,
            "savepointedAt": savepoint.at_ms,
            "comments": savepoint.comments,
            "partitionMetadata": {
                path: {"partitionPath": path, "savepointDataFile": list(names)}
                for path, names in sorted(savepoint.files.items())
            },
            "version": SAVEPOINT_VERSION,
        },
    )
