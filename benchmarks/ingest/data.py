"""The rows of the benchmark: one fixed-seed generator for every variant, and what each table must hold afterwards.

Ten columns, 36-character UUID keys, eight partitions. Keys are drawn uniformly, the worst case for pruning: every file group is
touched. Batches: `mix` updates half of its rows and inserts the other half, `upd` only updates, `ins` only inserts, `few` updates
twenty rows of the large table, `one` updates one row of a hundred; `bulk` is the base itself, into an empty table.
"""

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
UPDATED_SHARES = {"mix": 0.5, "upd": 1.0, "ins": 0.0}
FEW_ROWS, HUNDRED_ROWS = 20, 100
SOURCE_FILES = 4
PLAIN_COLUMNS = (RECORD_KEY, ORDERING, "begin_lat", "rider")
"""Columns of many values: a dictionary costs time there and saves nothing. Known here, found out by writers."""
_PAYMENTS = ["card", "cash", "voucher", "app"]
_BASE_TS = 1_709_251_200_000
_DASHES = (8, 13, 18, 23)


@dataclass(frozen=True)
class Answer:
    """What a table holds after a write: the check of every run."""

    rows: int
    ts_sum: int

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True)
class Inputs:
    """Folders of source files by name, and the answer expected after each batch upon its base."""

    folders: dict[str, Path]
    answers: dict[str, Answer]
    rows: dict[str, int]


def make_inputs(folder: Path, base_rows: int, batch_rows: int) -> Inputs:
    """Write the source files of all bases and batches below a folder."""
    rng = np.random.default_rng(SEED)
    base = _rows(rng, base_rows, _uuids(rng, base_rows), _BASE_TS)
    hundred = _rows(rng, HUNDRED_ROWS, _uuids(rng, HUNDRED_ROWS), _BASE_TS)
    inputs = Inputs({}, {}, {})

    def add(name: str, upon: pa.Table, updates: int, inserts: int) -> None:
        rows, replaced = _batch(rng, upon, updates, inserts)
        _keep(inputs, folder, name, rows)
        inputs.answers[name] = Answer(upon.num_rows + inserts, _ts_sum(upon) - _ts_sum(replaced) + _ts_sum(rows))

    for name, rows in (("bulk", base), ("hundred", hundred)):
        _keep(inputs, folder, name, rows)
        inputs.answers[name] = Answer(rows.num_rows, _ts_sum(rows))
    for name, share in UPDATED_SHARES.items():
        add(name, base, round(batch_rows * share), batch_rows - round(batch_rows * share))
    add("few", base, FEW_ROWS, 0)
    add("one", hundred, 1, 0)
    return inputs


def _batch(rng: np.random.Generator, base: pa.Table, updates: int, inserts: int) -> tuple[pa.Table, pa.Table]:
    """A shuffled batch whose rows are all newer than the base, and the base rows that it replaces."""
    replaced = base.take(pa.array(rng.choice(base.num_rows, updates, replace=False)))
    changed = _rows(rng, updates, replaced[RECORD_KEY], _BASE_TS + 10**9)
    changed = changed.set_column(changed.schema.get_field_index(PARTITION), PARTITION, replaced[PARTITION])
    fresh = _rows(rng, inserts, _uuids(rng, inserts), _BASE_TS + 10**9)
    both = pa.concat_tables([changed, fresh])
    return both.take(pa.array(rng.permutation(both.num_rows))), replaced


def _rows(rng: np.random.Generator, count: int, keys: pa.Array | pa.ChunkedArray, first_ts: int) -> pa.Table:
    people = max(1, count // 20)
    return pa.table({
        RECORD_KEY: keys,
        PARTITION: _choice(rng, PARTITIONS, count),
        ORDERING: pa.array(first_ts + rng.integers(0, 8 * 86_400_000, count)),
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


def _uuids(rng: np.random.Generator, count: int) -> pa.Array:
    raw = rng.integers(0, 256, (count, 16), dtype=np.uint8)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    text = np.full((count, 36), ord("-"), np.uint8)
    nibbles = np.stack([raw >> 4, raw & 15], axis=2).reshape(count, 32)
    text[:, [at for at in range(36) if at not in _DASHES]] = digits[nibbles]
    offsets = np.arange(0, 36 * (count + 1), 36, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text.tobytes()))


def _keep(inputs: Inputs, below: Path, name: str, rows: pa.Table) -> None:
    folder = below / name
    folder.mkdir(parents=True, exist_ok=True)
    files = min(SOURCE_FILES, rows.num_rows)
    step = -(-rows.num_rows // files)
    for part in range(files):
        pq.write_table(rows.slice(part * step, step), folder / f"part-{part}.parquet", compression="zstd")
    inputs.folders[name] = folder
    inputs.rows[name] = rows.num_rows


def _ts_sum(rows: pa.Table) -> int:
    values: npt.NDArray[np.int64] = rows[ORDERING].to_numpy()
    return int(values.sum())
