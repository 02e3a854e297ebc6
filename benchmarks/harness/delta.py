"""delta-rs with its writer tuned: zstd level 1, dictionaries off on columns of many values."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import ColumnProperties, DeltaTable, WriterProperties, write_deltalake
from deltalake.table import TableMerger

from benchmarks.harness.rows import ORDERING, PARTITION, PLAIN_COLUMNS, RECORD_KEY

TUNED = WriterProperties(
    compression="ZSTD",
    compression_level=1,
    column_properties={name: ColumnProperties(dictionary_enabled=False) for name in PLAIN_COLUMNS},
)


class DeltaBase:
    """A process of delta-rs."""

    def versions(self) -> dict[str, str]:
        """Of delta-rs."""
        return {"delta_rs": deltalake.__version__}

    def close(self) -> None:
        """Nothing was started."""


def append(table: str, rows: pa.Table, *, partitioned: bool) -> None:
    """Rows into a table, which is made where there is none."""
    write_deltalake(
        table, rows, mode="append", partition_by=[PARTITION] if partitioned else None, writer_properties=TUNED
    )


def merge_by_key(table: str, rows: pa.Table, *, partitioned: bool) -> TableMerger:
    """A MERGE of the rows `s` into the table `t` by key, whose clauses are yet to be said."""
    same = [f"t.{name} = s.{name}" for name in ([PARTITION] if partitioned else []) + [RECORD_KEY]]
    return DeltaTable(table).merge(
        rows, " and ".join(same), source_alias="s", target_alias="t", writer_properties=TUNED
    )


def read(table: str, columns: list[str] | None = None) -> pa.Table:
    """The table as it is now; columns of its files, so not those that name the partitions."""
    files = DeltaTable(table).file_uris()
    return pa.concat_tables([pq.ParquetFile(file.removeprefix("file://")).read(columns) for file in files])


def ordering_of(table: str) -> pa.ChunkedArray:
    """The ordering column of the table as it is now."""
    return read(table, [ORDERING])[ORDERING]
