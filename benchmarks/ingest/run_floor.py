"""Process of the pyarrow floor: reads, drops replaced rows, appends, writes the same columns and filter; or writes a log file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness.plain_files import (
    FloorBase,
    add_log,
    carried_filter,
    filter_of,
    in_threads,
    read_source,
    read_whole,
    split,
    with_file_name,
    with_meta,
    write_file,
)
from benchmarks.harness.rows import RECORD_KEY
from benchmarks.harness.serve import arguments, serve
from benchmarks.ingest.job import Job


class Floor(FloorBase):
    """One file a group, replaced in place, or log files beside it; two threads over the groups, one within each."""

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


def _rewrite(path: Path, fresh: pa.Table, has_meta: bool) -> None:
    keys = fresh[RECORD_KEY]
    rows = with_meta(fresh, path) if has_meta else fresh
    carried = carried_filter(path)
    if path.exists():
        old = read_whole(path)
        stays = pc.is_null(pc.index_in(old[RECORD_KEY], value_set=keys.combine_chunks()))
        old = old.filter(stays)
        if has_meta:
            old = with_file_name(old, path)
        rows = pa.concat_tables([old, rows.select(old.column_names)])
    write_file(path, rows, filter_of(rows, keys, carried))


if __name__ == "__main__":
    arguments(__doc__ or "").parse_args()
    serve(Floor, Job)
