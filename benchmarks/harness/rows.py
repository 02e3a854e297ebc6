"""The rows of the comparisons, alike for every variant: ten columns, 36-character UUID keys, eight partitions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

SEED = 20240501
RECORD_KEY, PARTITION, ORDERING = "record_key", "dt", "ts"
PARTITIONS = [f"2024-03-{day:02d}" for day in range(1, 9)]
SOURCE_FILES = 4
PLAIN_COLUMNS = (RECORD_KEY, ORDERING, "begin_lat", "rider")
"""Columns of many values: a dictionary costs time there and saves nothing. Known here, found out by writers."""
BASE_TS = 1_709_251_200_000
SPAN = 8 * 86_400_000
"""Ordering values of one batch lie within so many of its first."""
_PAYMENTS = ["card", "cash", "voucher", "app"]
_DASHES = (8, 13, 18, 23)


@dataclass(frozen=True)
class Answer:
    """What a table holds after a write: the check of every run."""

    rows: int
    ts_sum: int

    def as_dict(self) -> dict[str, int]:
        """For the run's line."""
        return asdict(self)


def make_rows(rng: np.random.Generator, count: int, keys: pa.Array | pa.ChunkedArray, first_ts: int) -> pa.Table:
    """Random rows of these keys, whose ordering values begin at `first_ts`."""
    people = max(1, count // 20)
    return pa.table({
        RECORD_KEY: keys,
        PARTITION: _choice(rng, PARTITIONS, count),
        ORDERING: pa.array(first_ts + rng.integers(0, SPAN, count)),
        "vendor_id": pa.array(rng.integers(1, 7, count, dtype=np.int32)),
        "rider": _choice(rng, [f"rider-{number:06d}" for number in range(people)], count),
        "driver": _choice(rng, [f"driver-{number:05d}" for number in range(max(1, people // 4))], count),
        "begin_lat": pa.array(rng.uniform(40.5, 41.0, count)),
        "fare": pa.array(np.round(rng.gamma(3.0, 6.0, count), 2)),
        "tip": pa.array(np.round(rng.gamma(1.0, 2.0, count), 2)),
        "payment": _choice(rng, _PAYMENTS, count),
    })


def _choice(rng: np.random.Generator, values: list[str], count: int) -> pa.Array:
    picked = pa.array(rng.integers(0, len(values), count, dtype=np.int32))
    return pa.array(values, pa.string()).take(picked)


def make_keys(rng: np.random.Generator, count: int) -> pa.Array:
    """Random UUIDs as text."""
    raw = rng.integers(0, 256, (count, 16), dtype=np.uint8)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    text = np.full((count, 36), ord("-"), np.uint8)
    nibbles = np.stack([raw >> 4, raw & 15], axis=2).reshape(count, 32)
    text[:, [at for at in range(36) if at not in _DASHES]] = digits[nibbles]
    offsets = np.arange(0, 36 * (count + 1), 36, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text.tobytes()))


def keep(folder: Path, rows: pa.Table) -> None:
    """Write the rows as source files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = min(SOURCE_FILES, rows.num_rows)
    step = -(-rows.num_rows // files)
    for part in range(files):
        pq.write_table(rows.slice(part * step, step), folder / f"part-{part}.parquet", compression="zstd")


def ts_sum(rows: pa.Table) -> int:
    """Sum of the ordering column."""
    values: npt.NDArray[np.int64] = rows[ORDERING].to_numpy()
    return int(values.sum())
