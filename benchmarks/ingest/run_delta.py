"""Process of delta-rs with its writer tuned: zstd level 1, dictionaries off on columns of many values."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import ColumnProperties, DeltaTable, WriterProperties, write_deltalake

from benchmarks.ingest.data import ORDERING, PARTITION, PLAIN_COLUMNS, RECORD_KEY
from benchmarks.ingest.serve import Job, arguments, serve

TUNED = WriterProperties(
    compression="ZSTD",
    compression_level=1,
    column_properties={name: ColumnProperties(dictionary_enabled=False) for name in PLAIN_COLUMNS},
)


class DeltaRs:
    """MERGE by key; a bulk insert appends to a table that is made by it."""

    def versions(self) -> dict[str, str]:
        """Of delta-rs."""
        return {"delta_rs": deltalake.__version__}

    def prepare(self, job: Job) -> None:
        """The base rows into a new table."""
        if job.source is not None:
            _append(job)

    def write(self, job: Job) -> None:
        """One folder of source files: an insert adds rows of new keys only, as ours does."""
        if job.operation == "bulk_insert":
            _append(job)
            return
        same = [f"t.{name} = s.{name}" for name in ([PARTITION] if job.partitioned else []) + [RECORD_KEY]]
        merge = DeltaTable(job.table).merge(
            _rows(job),
            " and ".join(same),
            source_alias="s",
            target_alias="t",
            writer_properties=TUNED,
        )
        if job.operation == "upsert":
            merge = merge.when_matched_update_all()
        merge.when_not_matched_insert_all().execute()

    def close(self) -> None:
        """Nothing was started."""


def _append(job: Job) -> None:
    partitions = [PARTITION] if job.partitioned else None
    write_deltalake(job.table, _rows(job), mode="append", partition_by=partitions, writer_properties=TUNED)


def _rows(job: Job) -> pa.Table:
    return pa.concat_tables([pq.read_table(file) for file in job.files])


def check(table: str) -> pa.ChunkedArray:
    """The ordering column of the table as it is now."""
    files = DeltaTable(table).file_uris()
    return pa.concat_tables([pq.ParquetFile(file.removeprefix("file://")).read([ORDERING]) for file in files])[ORDERING]


def main() -> None:
    arguments(__doc__ or "").parse_args()
    serve(DeltaRs)


if __name__ == "__main__":
    main()
