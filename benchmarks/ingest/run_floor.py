"""Process of the pyarrow floor: reads, drops replaced rows, appends, writes the same columns and filter; or writes a log file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.harness.plain_files import (
    FILTER,
    HEADROOM,
    KIND,
    add_log,
    in_threads,
    read_source,
    split,
    with_file_name,
    with_meta,
    write_file,
)
from benchmarks.harness.rows import RECORD_KEY
from benchmarks.harness.serve import arguments, serve
from benchmarks.ingest.job import Job
from hudi_ops.formats.bloom import BloomFilter, decode


class Floor:
    """One file a group, replaced in place, or log files beside it; two threads over the groups, one within each."""

    def versions(self) -> dict[str, str]:
        """Of pyarrow."""
        return {"pyarrow": pa.__version__}

    def prepare(self, job: Job) -> None:
        """The base rows, as files."""
        if job.source is not None:
            self.write(job)

    def write(self, job: Job) -> None:
        """One folder of source files: rows whose key is there replace it, the others are added."""
        groups = split(read_source(job.files), Path(job.table), partitioned=job.partitioned, buckets=job.buckets)

        def one(path: Path, fresh: pa.Table) -> Callable[[], None]:
            if job.table_type == "mor" and path.exists():
                return lambda: add_log(path, fresh)
            return lambda: _rewrite(path, fresh, job.options["meta_fields"])

        in_threads([one(path, fresh) for path, fresh in groups])

    def close(self) -> None:
        """Nothing was started."""


def _rewrite(path: Path, fresh: pa.Table, has_meta: bool) -> None:
    keys = fresh[RECORD_KEY]
    rows = with_meta(fresh, path) if has_meta else fresh
    carried = None
    if path.exists():
        file = pq.ParquetFile(path)
        old = file.read(use_threads=False)
        stays = pc.is_null(pc.index_in(old[RECORD_KEY], value_set=keys.combine_chunks()))
        old = old.filter(stays)
        if has_meta:
            old = with_file_name(old, path)
        rows = pa.concat_tables([old, rows.select(old.column_names)])
        metadata = file.metadata.metadata
        carried = decode(metadata[KIND.encode()].decode(), metadata[FILTER.encode()].decode())
    if carried is not None and rows.num_rows <= carried.count:
        bloom = carried.with_keys(keys)
    else:
        bloom = BloomFilter.build(rows[RECORD_KEY], capacity=int(rows.num_rows * HEADROOM))
    write_file(path, rows, bloom)


def main() -> None:
    arguments(__doc__ or "").parse_args()
    serve(Floor, Job)


if __name__ == "__main__":
    main()
