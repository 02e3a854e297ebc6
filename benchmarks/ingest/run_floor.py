"""Process of the pyarrow floor: reads, drops replaced rows, appends, writes the same columns and filter. No table, no commit.

It routes rows by the first digits of their key, which costs next to nothing, and knows its layout and its columns beforehand.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.ingest.data import ORDERING, PARTITION, PLAIN_COLUMNS, RECORD_KEY
from benchmarks.ingest.serve import Job, arguments, serve
from hudi_ops.config.columns import COMMIT_SEQNO
from hudi_ops.config.columns import RECORD_KEY as META_KEY
from hudi_ops.formats.bloom import BloomFilter, decode

FILTER, KIND = b"org.apache.hudi.bloomfilter", b"hoodie_bloom_filter_type_code"
_META = ("_hoodie_commit_time", COMMIT_SEQNO, META_KEY, "_hoodie_partition_path", "_hoodie_file_name")
_PLAIN = {COMMIT_SEQNO, META_KEY, *PLAIN_COLUMNS}
_HEADROOM = 1.5


class Floor:
    """One file a group, replaced in place; two threads over the groups, one within each."""

    def versions(self) -> dict[str, str]:
        """Of pyarrow."""
        return {"pyarrow": pa.__version__}

    def prepare(self, job: Job) -> None:
        """The base rows, as files."""
        if job.source is not None:
            self.write(job)

    def write(self, job: Job) -> None:
        """One folder of source files: rows whose key is there replace it, the others are added."""
        groups = _split(_read_source(job), job)

        def one(path: Path, fresh: pa.Table) -> Callable[[], None]:
            return lambda: _rewrite(path, fresh, job.options["meta_fields"])

        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            for done in [pool.submit(one(path, fresh)) for path, fresh in groups]:
                done.result()

    def close(self) -> None:
        """Nothing was started."""


def _read_source(job: Job) -> pa.Table:
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return pa.concat_tables(pool.map(lambda file: pq.ParquetFile(file).read(use_threads=False), job.files))


def _split(rows: pa.Table, job: Job) -> Sequence[tuple[Path, pa.Table]]:
    rows = rows.combine_chunks()
    paths = rows[PARTITION].combine_chunks().dictionary_encode()
    digits = np.frombuffer(rows[RECORD_KEY].combine_chunks().buffers()[2], np.uint8).reshape(rows.num_rows, -1)[:, :2]
    values = np.where(digits < ord("a"), digits - ord("0"), digits - ord("a") + 10).astype(np.int32)
    codes = (values[:, 0] * 16 + values[:, 1]) % job.buckets
    if job.partitioned:
        codes += paths.indices.to_numpy() * job.buckets
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    ordered = rows.take(pa.array(order))
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1)).tolist()
    groups = []
    for begin, end in zip(starts, [*starts[1:], rows.num_rows], strict=True):
        part, bucket = divmod(int(codes[order[begin]]), job.buckets)
        folder = str(paths.dictionary[part]) if job.partitioned else ""
        groups.append((Path(job.table, folder, f"{bucket:04d}.parquet"), ordered.slice(begin, end - begin)))
    return groups


def _rewrite(path: Path, fresh: pa.Table, with_meta: bool) -> None:
    keys = fresh[RECORD_KEY]
    rows = _with_meta(fresh, path) if with_meta else fresh
    carried = None
    if path.exists():
        file = pq.ParquetFile(path)
        old = file.read(use_threads=False)
        stays = pc.is_null(pc.index_in(old[RECORD_KEY], value_set=keys.combine_chunks()))
        old = old.filter(stays)
        if with_meta:
            place = old.schema.get_field_index(_META[-1])
            old = old.set_column(place, old.schema.field(place), pa.repeat(path.name, old.num_rows))
        rows = pa.concat_tables([old, rows.select(old.column_names)])
        metadata = file.metadata.metadata
        carried = decode(metadata[KIND].decode(), metadata[FILTER].decode())
    if carried is not None and rows.num_rows <= carried.count:
        bloom = carried.with_keys(keys)
    else:
        bloom = BloomFilter.build(rows[RECORD_KEY], capacity=int(rows.num_rows * _HEADROOM))
    kind, text = bloom.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".aside")
    chosen = [name for name in rows.column_names if name not in _PLAIN]
    with pq.ParquetWriter(
        aside, rows.schema, compression="zstd", compression_level=1, use_dictionary=chosen, store_schema=False
    ) as writer:
        writer.write_table(rows, row_group_size=1_000_000)
        writer.add_key_value_metadata({FILTER.decode(): text, KIND.decode(): kind})
    aside.replace(path)


def _with_meta(rows: pa.Table, path: Path) -> pa.Table:
    count = rows.num_rows
    values = [
        pa.repeat("20240501000000000", count),
        pc.binary_join_element_wise("20240501000000000_1_", pc.cast(pa.array(np.arange(count)), pa.string()), ""),
        rows[RECORD_KEY],
        pa.repeat(path.parent.name, count),
        pa.repeat(path.name, count),
    ]
    return pa.table([*values, *rows.columns], names=[*_META, *rows.column_names])


def check(table: str) -> pa.ChunkedArray:
    """The ordering column of the files as they are now."""
    files = sorted(Path(table).rglob("*.parquet"))
    return pa.concat_tables([pq.ParquetFile(file).read([ORDERING]) for file in files])[ORDERING]


def main() -> None:
    arguments(__doc__ or "").parse_args()
    serve(Floor)


if __name__ == "__main__":
    main()
