"""The batches of the benchmark, and what each table must hold afterwards.

Keys are drawn uniformly, the worst case for pruning: every file group is touched. `mix` updates half of its rows and inserts the
other half, `upd` only updates, `ins` only inserts, `few` updates twenty rows of the large table, `one` updates one row of a
hundred; `bulk` is the base itself, into an empty table.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.harness.rows import BASE_TS, PARTITION, RECORD_KEY, SEED, Answer, keep, make_keys, make_rows, ts_sum

UPDATED_SHARES = {"mix": 0.5, "upd": 1.0, "ins": 0.0}
FEW_ROWS, HUNDRED_ROWS = 20, 100


@dataclass(frozen=True)
class Inputs:
    """Folders of source files by name, and the answer expected after each batch upon its base."""

    folders: dict[str, Path]
    answers: dict[str, Answer]
    rows: dict[str, int]


def make_inputs(folder: Path, base_rows: int, batch_rows: int) -> Inputs:
    """Write the source files of all bases and batches below a folder."""
    rng = np.random.default_rng(SEED)
    base = make_rows(rng, base_rows, make_keys(rng, base_rows), BASE_TS)
    hundred = make_rows(rng, HUNDRED_ROWS, make_keys(rng, HUNDRED_ROWS), BASE_TS)
    inputs = Inputs({}, {}, {})

    def add(name: str, upon: pa.Table, updates: int, inserts: int) -> None:
        rows, replaced = _batch(rng, upon, updates, inserts)
        _keep(inputs, folder, name, rows)
        inputs.answers[name] = Answer(upon.num_rows + inserts, ts_sum(upon) - ts_sum(replaced) + ts_sum(rows))

    for name, rows in (("bulk", base), ("hundred", hundred)):
        _keep(inputs, folder, name, rows)
        inputs.answers[name] = Answer(rows.num_rows, ts_sum(rows))
    for name, share in UPDATED_SHARES.items():
        add(name, base, round(batch_rows * share), batch_rows - round(batch_rows * share))
    add("few", base, FEW_ROWS, 0)
    add("one", hundred, 1, 0)
    return inputs


def _batch(rng: np.random.Generator, base: pa.Table, updates: int, inserts: int) -> tuple[pa.Table, pa.Table]:
    """A shuffled batch whose rows are all newer than the base, and the base rows that it replaces."""
    replaced = base.take(pa.array(rng.choice(base.num_rows, updates, replace=False)))
    changed = make_rows(rng, updates, replaced[RECORD_KEY], BASE_TS + 10**9)
    changed = changed.set_column(changed.schema.get_field_index(PARTITION), PARTITION, replaced[PARTITION])
    fresh = make_rows(rng, inserts, make_keys(rng, inserts), BASE_TS + 10**9)
    both = pa.concat_tables([changed, fresh])
    return both.take(pa.array(rng.permutation(both.num_rows))), replaced


def _keep(inputs: Inputs, below: Path, name: str, rows: pa.Table) -> None:
    keep(below / name, rows)
    inputs.folders[name] = below / name
    inputs.rows[name] = rows.num_rows
