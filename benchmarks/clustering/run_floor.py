"""Process of the pyarrow floor: reads the files of a partition, sorts them, writes one; `--filter` adds a bloom filter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from benchmarks.clustering.job import Job
from benchmarks.harness.plain_files import (
    FloorBase,
    bases_of,
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


class Floor(FloorBase):
    """Two threads over the partitions, one within each."""

    def __init__(self, has_filter: bool) -> None:
        self._has_filter = has_filter

    def prepare(self, job: Job) -> None:
        """Base files with the five meta columns."""
        rows = read_source(job.sources())
        for path, part in split(rows, Path(job.table), partitioned=job.partitioned, buckets=job.files):
            write_file(path, with_meta(part, path), filter_of(part, part[RECORD_KEY], None))

    def cluster(self, job: Job) -> None:
        """All partitions."""
        groups = groupby(bases_of(Path(job.table)), lambda path: path.parent)
        calls: list[Callable[[], None]] = [
            partial(self._one, folder / "clustered.parquet", list(paths), job.columns) for folder, paths in groups
        ]
        in_threads(calls)

    def _one(self, path: Path, sources: list[Path], columns: list[str]) -> None:
        rows = pa.concat_tables([read_whole(source) for source in sources])
        rows = with_file_name(rows.sort_by([(name, "ascending") for name in columns]), path)
        write_file(path, rows, filter_of(rows, rows[RECORD_KEY], None) if self._has_filter else None)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--filter", action="store_true")
    options = parser.parse_args()
    serve(lambda: Floor(options.filter), Job)


if __name__ == "__main__":
    main()
