"""Process of the pyarrow floor: reads base and log files, resolves them, writes the same columns and filter. No commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from benchmarks.compaction.job import Job
from benchmarks.harness.plain_files import (
    FloorBase,
    add_log,
    bases_of,
    carried_filter,
    filter_of,
    in_threads,
    logs_of,
    merged,
    read_source,
    read_whole,
    split,
    with_file_name,
    with_meta,
    write_file,
)
from benchmarks.harness.rows import RECORD_KEY
from benchmarks.harness.serve import arguments, serve


class Floor(FloorBase):
    """One base file a group, replaced in place; two threads over the groups, one within each."""

    def prepare(self, job: Job) -> None:
        """Base files, and a log file a batch and group, which holds updates and deletes."""
        for path, rows in _groups(job, job.base):
            write_file(path, with_meta(rows, path), filter_of(rows, rows[RECORD_KEY], None))
        for batch in job.batches:
            for path, rows in _groups(job, batch):
                add_log(path, rows)

    def plan(self, job: Job) -> None:
        """There is none."""

    def execute(self, job: Job) -> None:
        """All groups."""

        def one(path: Path) -> Callable[[], None]:
            return lambda: _compact(path)

        in_threads([one(path) for path in bases_of(Path(job.table))])


def _groups(job: Job, folder: str) -> list[tuple[Path, pa.Table]]:
    rows = read_source(job.files(folder))
    return split(rows, Path(job.table), partitioned=job.partitioned, buckets=job.buckets)


def _compact(path: Path) -> None:
    logs = logs_of(path)
    kept, fresh = merged(read_whole(path), [read_whole(log) for log in logs])
    rows = with_file_name(pa.concat_tables([kept, fresh]), path)
    write_file(path, rows, filter_of(rows, fresh[RECORD_KEY], carried_filter(path)))
    for log in logs:
        log.unlink()


if __name__ == "__main__":
    arguments(__doc__ or "").parse_args()
    serve(Floor, Job)
