"""What the pyarrow floors do: files of a group by name alone, with or without the five meta columns. No table, no commit.

Rows are routed by the first digits of their key, which costs next to nothing; columns that suit a dictionary are known beforehand.
A group's log files lie beside its base file `NAME.parquet`, as `NAME.log.1`, `NAME.log.2`, ...
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

from benchmarks.harness.rows import ORDERING, PARTITION, PLAIN_COLUMNS, RECORD_KEY
from hudi_ops.config.columns import COMMIT_SEQNO, IS_DELETED, RECORD_KEY as META_KEY
from hudi_ops.formats.parquet.bloom import BloomFilter, decode_filter

FILTER, KIND = "org.apache.hudi.bloomfilter", "hoodie_bloom_filter_type_code"
META = ("_hoodie_commit_time", COMMIT_SEQNO, META_KEY, "_hoodie_partition_path", "_hoodie_file_name")
_HEADROOM = 1.5
_PLAIN = {COMMIT_SEQNO, META_KEY, *PLAIN_COLUMNS}


class FloorBase:
    """A process of pyarrow alone."""

    def versions(self) -> dict[str, str]:
        """Of pyarrow."""
        return {"pyarrow": pa.__version__}

    def close(self) -> None:
        """Nothing was started."""


def in_threads(calls: Sequence[Callable[[], None]]) -> None:
    """Run all of them, a thread a core."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result()


def read_source(files: Sequence[Path]) -> pa.Table:
    """Rows of source files."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return pa.concat_tables(pool.map(lambda file: pq.ParquetFile(file).read(use_threads=False), files))


def split(rows: pa.Table, table: Path, *, partitioned: bool, buckets: int) -> list[tuple[Path, pa.Table]]:
    """Base file and rows of each group that the rows touch."""
    rows = rows.combine_chunks()
    paths = rows[PARTITION].combine_chunks().dictionary_encode()
    digits = np.frombuffer(rows[RECORD_KEY].combine_chunks().buffers()[2], np.uint8).reshape(rows.num_rows, -1)[:, :2]
    values = np.where(digits < ord("a"), digits - ord("0"), digits - ord("a") + 10).astype(np.int32)
    codes = (values[:, 0] * 16 + values[:, 1]) % buckets
    if partitioned:
        codes += paths.indices.to_numpy() * buckets
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    ordered = rows.take(pa.array(order))
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1)).tolist()
    groups = []
    for begin, end in zip(starts, [*starts[1:], rows.num_rows], strict=True):
        part, bucket = divmod(int(codes[order[begin]]), buckets)
        folder = str(paths.dictionary[part]) if partitioned else ""
        groups.append((table / folder / f"{bucket:04d}.parquet", ordered.slice(begin, end - begin)))
    return groups


def with_meta(rows: pa.Table, path: Path) -> pa.Table:
    """The rows behind the five meta columns."""
    count = rows.num_rows
    values = [
        pa.repeat("20240501000000000", count),
        pc.binary_join_element_wise("20240501000000000_1_", pc.cast(pa.array(np.arange(count)), pa.string()), ""),
        rows[RECORD_KEY],
        pa.repeat(path.parent.name, count),
        pa.repeat(path.name, count),
    ]
    return pa.table([*values, *rows.columns], names=[*META, *rows.column_names])


def with_file_name(rows: pa.Table, path: Path) -> pa.Table:
    """Rows that move into a file of this name."""
    place = rows.schema.get_field_index(META[-1])
    return rows.set_column(place, rows.schema.field(place), pa.repeat(path.name, rows.num_rows))


def carried_filter(path: Path) -> BloomFilter | None:
    """The filter of a file that is there."""
    if not path.exists():
        return None
    metadata = pq.read_metadata(path).metadata
    return decode_filter(metadata[KIND.encode()].decode(), metadata[FILTER.encode()].decode())


def filter_of(rows: pa.Table, added: pa.ChunkedArray, carried: BloomFilter | None) -> BloomFilter:
    """The filter of a file's rows: that of the file before with the keys that were added, where it has room."""
    if carried is not None and rows.num_rows <= carried.count:
        return carried.with_keys(added)
    return BloomFilter.build(rows[RECORD_KEY], capacity=int(rows.num_rows * _HEADROOM))


def write_file(path: Path, rows: pa.Table, bloom: BloomFilter | None) -> None:
    """One file, whole or not at all; a log file has no filter."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".aside")
    dictionaries = [name for name in rows.column_names if name not in _PLAIN]
    with pq.ParquetWriter(
        aside, rows.schema, compression="zstd", compression_level=1, use_dictionary=dictionaries, store_schema=False
    ) as writer:
        writer.write_table(rows, row_group_size=1_000_000)
        if bloom is not None:
            kind, text = bloom.encode()
            writer.add_key_value_metadata({FILTER: text, KIND: kind})
    aside.replace(path)


def add_log(path: Path, rows: pa.Table) -> None:
    """Rows as the next log file of the group that has this base file."""
    number = 1 + len(logs_of(path))
    write_file(path.with_suffix(f".log.{number}"), with_meta(rows, path), None)


def logs_of(path: Path) -> list[Path]:
    """The log files of the group that has this base file, in order."""
    return sorted(path.parent.glob(f"{path.stem}.log.*"), key=lambda log: int(log.suffix[1:]))


def bases_of(table: Path) -> list[Path]:
    """All base files."""
    return sorted(table.rglob("*.parquet"))


def read_whole(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """One file."""
    return pq.ParquetFile(path).read(columns, use_threads=False)


def merged(base: pa.Table, logs: Sequence[pa.Table]) -> tuple[pa.Table, pa.Table]:
    """What remains of base and logs by event time: base rows that stay, and log rows that are newer and delete nothing."""
    entries = pa.concat_tables(logs).combine_chunks()
    codes = entries[RECORD_KEY].combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.lexsort((np.arange(len(codes)), entries[ORDERING].to_numpy(), codes))
    last = np.flatnonzero(np.append(np.diff(codes[order]), 1))
    entries = entries.take(pa.array(order[last]))
    met = pc.index_in(base[RECORD_KEY], value_set=entries[RECORD_KEY].combine_chunks())
    hit = np.flatnonzero(pc.is_valid(met).to_numpy())
    which = met.drop_null().to_numpy()
    wins = entries[ORDERING].to_numpy()[which] >= base[ORDERING].to_numpy()[hit]
    stays = np.ones(base.num_rows, bool)
    stays[hit[wins]] = False
    taken = np.ones(entries.num_rows, bool)
    taken[which[~wins]] = False
    if IS_DELETED in entries.column_names:
        taken &= ~pc.fill_null(entries[IS_DELETED], False).to_numpy()
    return base.filter(pa.array(stays)), entries.filter(pa.array(taken))


def ordering_of(table: str) -> pa.ChunkedArray:
    """The ordering column of the files as they are now, log files resolved."""
    found = []
    for path in bases_of(Path(table)):
        logs = logs_of(path)
        columns = [RECORD_KEY, ORDERING] if logs else [ORDERING]
        rows = read_whole(path, columns)
        if logs:
            have = [*columns, *([IS_DELETED] if IS_DELETED in pq.read_schema(logs[0]).names else [])]
            kept, new = merged(rows, [read_whole(log, have) for log in logs])
            rows = pa.concat_tables([kept, new.select(columns)])
        found.append(rows.select([ORDERING]))
    return pa.concat_tables(found)[ORDERING]
