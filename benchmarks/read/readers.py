"""Process of one reader: `--reader` says which. Each read opens the table anew."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from benchmarks.harness.rows import ORDERING, PARTITION, RECORD_KEY
from benchmarks.harness.serve import arguments, serve
from benchmarks.read.job import Job


class Reader:
    """A reader; `read` is measured, and `check` is not."""

    package = ""

    def __init__(self) -> None:
        self._rows = pa.table({})

    def versions(self) -> dict[str, str]:
        """Of its package."""
        return {self.package: version(self.package)}

    def close(self) -> None:
        """Nothing was started."""

    def forget(self, job: Job) -> None:
        """Drop what an earlier read kept."""

    def read(self, job: Job) -> None:
        """Read the wanted rows into memory."""
        self._rows = self.rows(job)

    def check(self, job: Job) -> list[int]:
        """Return the number of rows and the sum of their ordering values; drop the rows."""
        rows, self._rows = self._rows, pa.table({})
        wanted = len(job.columns) if job.columns is not None else 10
        assert rows.num_columns == wanted, rows.column_names
        return [rows.num_rows, pc.sum(rows[ORDERING]).as_py() or 0]

    def rows(self, job: Job) -> pa.Table:
        """Return the wanted rows."""
        raise NotImplementedError


class Ours(Reader):
    """hudi_ops."""

    package = "hudi-ops"

    def forget(self, job: Job) -> None:
        """Drop the survivors of merged slices."""
        from hudi_ops.files.slice.slice_scan import SURVIVORS

        SURVIVORS.clear()

    def rows(self, job: Job) -> pa.Table:
        """Return the wanted rows."""
        from hudi_ops import Table

        return Table.open(job.path).read(job.columns, job.where)


class HudiRs(Reader):
    """The package `hudi`, which has its own names for conditions, and returns meta columns if none are named."""

    package = "hudi"

    def rows(self, job: Job) -> pa.Table:
        """Return the wanted rows; a filter on a column that is no partition only prunes files."""
        from hudi import HudiReadOptions, HudiTableBuilder

        table = HudiTableBuilder.from_base_uri(job.path).build()
        names = job.columns or [name for name in table.get_schema().names if not name.startswith("_hoodie_")]
        options = HudiReadOptions().with_projection(names)
        if job.partition is not None:
            options = options.with_filters([(PARTITION, "=", job.partition)])
        elif job.key is not None:
            options = options.with_filters([(RECORD_KEY, "=", job.key)])
        found = pa.Table.from_batches(table.read(options))
        return found.filter(pc.field(RECORD_KEY) == job.key) if job.key is not None else found


class Delta(Reader):
    """delta-rs, on a table of the same rows."""

    package = "deltalake"

    def rows(self, job: Job) -> pa.Table:
        """Return the wanted rows by its query engine, to which conditions are passed as SQL."""
        from deltalake import DeltaTable, QueryBuilder

        names = ", ".join(job.columns) if job.columns else "*"
        text = f"select {names} from t" + (f" where {job.where}" if job.where else "")
        return pa.table(QueryBuilder().register("t", DeltaTable(job.path)).execute(text).read_all())


class DuckDb(Reader):
    """DuckDB, on plain Parquet files of the same rows."""

    package = "duckdb"

    def rows(self, job: Job) -> pa.Table:
        """Return the wanted rows."""
        import duckdb

        names = ", ".join(job.columns) if job.columns else "*"
        text = f"select {names} from read_parquet('{job.path}/**/*.parquet', hive_partitioning = true, "
        text += "hive_types_autocast = false)" + (f" where {job.where}" if job.where else "")
        return duckdb.connect().sql(text).to_arrow_table()


class PyArrow(Reader):
    """pyarrow's datasets, on plain Parquet files of the same rows."""

    package = "pyarrow"

    def rows(self, job: Job) -> pa.Table:
        """Return the wanted rows."""
        partitioning = ds.partitioning(pa.schema([(PARTITION, pa.string())]), flavor="hive")
        condition = None
        if job.partition is not None:
            condition = ds.field(PARTITION) == job.partition
        elif job.key is not None:
            condition = ds.field(RECORD_KEY) == job.key
        found = ds.dataset(Path(job.path), format="parquet", partitioning=partitioning)
        return found.to_table(columns=job.columns, filter=condition)


READERS = {"ours": Ours, "hudi-rs": HudiRs, "delta": Delta, "duckdb": DuckDb, "pyarrow": PyArrow}

if __name__ == "__main__":
    parser = arguments(__doc__ or "")
    parser.add_argument("--reader", choices=READERS, required=True)
    serve(READERS[parser.parse_args().reader], Job)
