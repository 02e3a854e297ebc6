"""Steps of a history of a table with a metadata table, and how one is done to table and model."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.tables import SCHEMA

Step = tuple[str, Any]
PARTITIONS = ("files", "column_stats", "partition_stats", "bloom_filters", "record_index")


def rows_of(batch, ts: int) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"id": f"k{key}", "part": f"p{key % 3}", "value": value, "ts": ts, "_hoodie_is_deleted": gone or None}
            for key, value, gone in batch
        ],
        schema=SCHEMA,
    )


def do(table, model: dict[str, int], step, ts: int) -> None:
    """One step, on the table and on a dict."""
    kind, what = step
    if kind in {"upsert", "insert_overwrite", "delete"}:
        gone = {f"k{key}" for key, _, is_gone in what if is_gone or kind == "delete"}
        if kind == "insert_overwrite":
            touched = {key % 3 for key, _, _ in what}
            for key in [key for key in model if int(key[1:]) % 3 in touched]:
                del model[key]
        for key, value, _ in what:
            model[f"k{key}"] = value
        for key in gone:
            model.pop(key, None)
        table.ingest(rows_of(what, ts), kind)
    elif kind == "build":
        table.indexing.run(partitions=what)
    elif kind == "drop":
        held = {one.name for one in table.metadata.describe().partitions}
        table.indexing.drop(None if what is None else [name for name in what if name in held])
    elif kind == "compact_metadata":
        table.metadata.compact()
    elif kind == "delete_partition" and any(int(key[1:]) % 3 == 0 for key in model):
        table.delete_partition(["part=p0"])
        for key in [key for key in model if int(key[1:]) % 3 == 0]:
            del model[key]
    elif kind == "compact" and table.config.table_type == "MERGE_ON_READ":
        table.compaction.run()
