"""Tables as Apache Hudi leaves them: ours without whatever only we write, with a metadata table where one is asked for.

What Apache Hudi itself makes is adopted in `tests/interop/test_foreign_tables.py`; here it must be cheap, as it is crashed often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hudi_ops.formats import properties
from hudi_ops.formats.avro import container as avro
from hudi_ops.formats.timeline.service_schemas import ROLLBACK_PLAN
from hudi_ops.formats.timeline.timeline_schemas import REQUESTED_REPLACE_METADATA
from hudi_ops.services.create.adoption import AdoptionOptions
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.protocol import Storage
from hudi_ops.table.table import Table
from hudi_ops.timeline.content.commit_metadata import CommitMetadata
from hudi_ops.timeline.content.ledger_chain import FOLDER as LEDGERS
from hudi_ops.timeline.log.commit_log import FOLDER as LOG
from hudi_ops.timeline.settings.properties_file import read_properties
from tests.tables import TIMELINE, table_of

PROPERTIES = ".hoodie/hoodie.properties"
METADATA = ".hoodie/metadata"
METADATA_FILES = tuple(
    f"{METADATA}/{name}" for name in (".hoodie/hoodie.properties", "column_stats/a", "files/b", "files/c")
)
TERMS = AdoptionOptions(buckets=2)


def make_foreign(storage: MemoryStorage, *, with_metadata_table: bool = False) -> MemoryStorage:
    """The same rows, files and instants; nobody has heard of a commit log."""
    found = storage.copy()
    for folder in (LOG, LEDGERS):
        for info in found.list(folder):
            found.delete(info.path)
    for info in found.list(TIMELINE):
        if info.name.endswith(".commit"):
            metadata = CommitMetadata.from_bytes(found.get(info.path), info.path)
            extra = {key: value for key, value in metadata.extra.items() if not key.startswith("hudi_ops.")}
            found.put(info.path, replace(metadata, extra=extra).to_bytes())
    if with_metadata_table:
        build_metadata_table(found)
    return found


def build_metadata_table(storage: Storage) -> None:
    """As a writer of Apache Hudi does it, with an index of a kind that we do not keep: the folder first, then the properties."""
    for path in METADATA_FILES:
        storage.put(path, b"")
    set_properties(
        storage,
        {
            "hoodie.table.metadata.partitions": "column_stats,files,expr_index_city",
            "hoodie.table.metadata.partitions.inflight": "",
        },
    )


def set_properties(storage: Storage, values: Mapping[str, str]) -> None:
    """Change `hoodie.properties` past the log."""
    storage.put(PROPERTIES, properties.dumps({**read_properties(storage), **values}, comment="Updated", now_ms=0))


def opened(storage: Storage, clock, actor: str, terms: AdoptionOptions = TERMS) -> Table:
    """The table in a simulated process."""
    return table_of(storage, clock, actor, terms)


def snapshot(storage: MemoryStorage) -> dict[str, bytes]:
    """Every byte of the table."""
    return {info.path: storage.get(info.path) for info in storage.list()}


def rollback_plan(target: str) -> bytes:
    plan = {"instantToRollback": {"commitTime": target, "action": "commit"}, "RollbackRequests": [], "version": 1}
    return avro.write_one(ROLLBACK_PLAN, plan)


def clustering_plan(partition: str, file_id: str) -> bytes:
    one = {"dataFilePath": "", "deltaFilePaths": [], "fileId": file_id, "partitionPath": partition, "version": 1}
    plan = {"inputGroups": [{"slices": [one], "metrics": {}, "numOutputFileGroups": 1, "version": 1}], "version": 1}
    return avro.write_one(
        REQUESTED_REPLACE_METADATA, {"operationType": "CLUSTER", "clusteringPlan": plan, "version": 1}
    )


def group_of(storage: MemoryStorage, partition: str) -> str:
    return next(i.name.partition("_")[0] for i in storage.list(partition) if i.name.endswith(".parquet"))
