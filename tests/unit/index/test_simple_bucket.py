"""Goal: splitting a batch keeps every row once, in its order, and costs one pass whatever the number of chunks and buckets."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_ops.index.bucket_engine import SimpleEngine
from hudi_ops.index.simple_bucket import Tagger
from hudi_ops.kernels.keys.hashing import bucket_hash_values, bucket_ids
from hudi_ops.kernels.keys.keys import KeySpec, PartitionSpec, record_keys
from hudi_ops.kernels.merging import split


def batch(rows: int, chunks: int) -> pa.Table:
    size = rows // chunks
    numbers = range(rows)
    parts = [numbers[at * size : (at + 1) * size] for at in range(chunks)]
    return pa.concat_tables([
        pa.table({"id": [f"k{n}" for n in part], "p": [f"p{n % 3}" for n in part], "n": list(part)}) for part in parts
    ])


def tagger(buckets: int) -> Tagger:
    return Tagger(KeySpec(("id",), False), PartitionSpec(("p",), True, True), SimpleEngine(buckets, ("id",)))


@pytest.mark.parametrize("block_bytes", [1 << 30, 4_000])
@pytest.mark.parametrize("chunks", [1, 50])
def test_groups_hold_each_row_once_and_in_order(monkeypatch: pytest.MonkeyPatch, chunks: int, block_bytes: int) -> None:
    monkeypatch.setattr(split, "_BLOCK_BYTES_MAX", block_bytes)
    rows = batch(5_000, chunks)
    buckets = pa.array(bucket_ids(bucket_hash_values(record_keys(rows, KeySpec(("id",), False)), ("id",)), 40))
    parts = tagger(40).split(rows)
    assert [(path, bucket) for path, bucket, _ in parts] == sorted({(path, bucket) for path, bucket, _ in parts})
    for path, bucket, part in parts:
        wanted = rows.filter(pc.and_(pc.equal(buckets, bucket), pc.equal(rows["p"], path.removeprefix("p="))))
        assert part.column("n").to_pylist() == wanted.column("n").to_pylist()
        assert part.column("_hoodie_record_key").to_pylist() == wanted.column("id").to_pylist()
    assert sum(part.num_rows for _, _, part in parts) == rows.num_rows


def test_groups_share_the_rows_of_one_take() -> None:
    """A take per group looks into every chunk each time: 1.8 s for 400,000 rows in 200 chunks and 1000 buckets, not 0.08."""
    parts = tagger(100).split(batch(20_000, 100))
    buffers = {part.column("n").chunk(0).buffers()[1].address for _, _, part in parts}
    assert all(part.column("n").num_chunks == 1 for _, _, part in parts)
    assert len(parts) == 300
    assert len(buffers) == 1
