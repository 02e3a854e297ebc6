"""The merge kernel alone, in memory, beside a join of the same keys that carries nothing but row numbers.

`python -m benchmarks.compaction.kernel`: a million base keys in one slice, three logs of 100,000 with deletes, unconditional ones
and late rows among them, by event time. The kernel folds the log, looks the base up and says which rows stay; the join, pyarrow's
own, only finds which base row meets which log entry. One thread each, in turn; the goal is for their ratio.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from statistics import median

import numpy as np
import pyarrow as pa
from pyarrow import acero

from benchmarks.harness import machine
from benchmarks.harness.rows import BASE_TS, SEED, SPAN, make_keys
from benchmarks.harness.tables import spread
from hudi_ops.kernels.merging.log_merge import LogBaseJoin, LogEntries
from hudi_ops.kernels.merging.merge import Ordering

BOUND = 0.9
LOGS = 3
_DELETES, _UNCONDITIONAL, _LATE = 0.1, 0.02, 0.1


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a line of Markdown.

    Returns:
        0; 1 when the kernel found other rows than the join and plain numpy did.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compaction.kernel", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="base rows")
    parser.add_argument("--batch-rows", type=int, default=100_000, help="entries of each of the three logs")
    parser.add_argument("--run-rows", type=int, default=0, help="base rows that the kernel is given at a time; 0: all")
    parser.add_argument("--runs", type=int, default=9, help="counted rounds")
    options = parser.parse_args(arguments)
    pa.set_cpu_count(1)
    base_keys, base_ts, entries = _made(options.rows, options.batch_rows)
    joins, kernels = [], []
    for number in range(options.runs + 1):
        begun = time.thread_time()
        joined = _join(base_keys, entries.keys)
        between = time.thread_time()
        stays, taken = _kernel(base_keys, base_ts, entries, options.run_rows or options.rows)
        ended = time.thread_time()
        if number:
            joins.append(between - begun)
            kernels.append(ended - between)
        elif not _is_right(base_ts, entries, joined, stays, taken):
            print("the kernel's rows are not those of the check", file=sys.stderr)
            return 1
    quotients = [join / kernel for join, kernel in zip(joins, kernels, strict=True)]
    is_met = median(quotients) >= BOUND
    print(
        f"merge kernel, {options.rows:,} + {LOGS} x {options.batch_rows:,}, CPU s: kernel {spread(kernels, 3)}, "
        f"join {spread(joins, 3)}; join ÷ kernel at least {BOUND}: {spread(quotients)} {'met' if is_met else '**missed**'} "
        f"(load {machine.load()})"
    )
    return 0


def _made(rows: int, batch_rows: int) -> tuple[pa.Array, pa.Array, LogEntries]:
    rng = np.random.default_rng(SEED)
    base_keys = make_keys(rng, rows)
    base_ts = pa.array(BASE_TS + rng.integers(0, SPAN, rows))
    touched = np.concatenate([rng.choice(rows, batch_rows, replace=False) for _ in range(LOGS)])
    count = len(touched)
    ts = BASE_TS + np.repeat(np.arange(1, LOGS + 1), batch_rows) * 10**9 + rng.integers(0, SPAN, count)
    late = rng.random(count) < _LATE
    ts[late] = BASE_TS - 1 - rng.integers(0, SPAN, int(late.sum()))
    kind = rng.random(count)
    is_unconditional = kind < _UNCONDITIONAL
    ordering = pa.array(ts, mask=is_unconditional)
    return (
        base_keys,
        base_ts,
        LogEntries(base_keys.take(pa.array(touched)), ordering, kind < _DELETES, is_unconditional, is_unconditional),
    )


def _join(base_keys: pa.Array, log_keys: pa.Array) -> pa.Table:
    sides = [
        acero.Declaration(
            "table_source",
            acero.TableSourceNodeOptions(pa.table({"key": keys, name: np.arange(len(keys), dtype=np.int32)})),
        )
        for name, keys in (("base", base_keys), ("entry", log_keys))
    ]
    on = acero.HashJoinNodeOptions(
        "inner", left_keys=["key"], right_keys=["key"], left_output=["base"], right_output=["entry"]
    )
    return acero.Declaration("hashjoin", on, inputs=sides).to_table(use_threads=False)


def _kernel(
    base_keys: pa.Array, base_ts: pa.Array, entries: LogEntries, run_rows: int
) -> tuple[np.ndarray, np.ndarray]:
    meeting = LogBaseJoin(entries, Ordering.EVENT_TIME)
    for first in range(0, len(base_keys), run_rows):
        meeting.add(base_keys.slice(first, run_rows), base_ts.slice(first, run_rows))
    keep = meeting.keep_base()
    return keep if keep is not None else np.ones(len(base_keys), bool), meeting.taken()


def _is_right(base_ts: pa.Array, entries: LogEntries, joined: pa.Table, stays: np.ndarray, taken: np.ndarray) -> bool:
    """Against the rules said entry by entry, in one plain loop over the join's pairs."""
    ts, at = entries.ordering.to_pylist(), base_ts.to_pylist()
    by_row: dict[int, list[int]] = {}
    for row, entry in zip(joined["base"].to_pylist(), joined["entry"].to_pylist(), strict=True):
        by_row.setdefault(row, []).append(entry)
    kept, wanted = np.ones(len(at), bool), []
    for row, numbers in by_row.items():
        best = -1
        for number in sorted(numbers):
            loses = best >= 0 and ts[number] is not None and ts[best] is not None and ts[number] < ts[best]
            best = best if loses else number
        if ts[best] is None or ts[best] >= at[row]:
            kept[row] = False
            if not entries.is_delete[best]:
                wanted.append(best)
    return bool((kept == stays).all()) and sorted(wanted) == taken.tolist()


if __name__ == "__main__":
    sys.exit(main())
