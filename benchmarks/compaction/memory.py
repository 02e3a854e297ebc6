"""What one slice takes of memory: two slice sizes, with room for them and with one limit for both.

`python -m benchmarks.compaction.memory`: for each a process of its own compacts a table of one slice on the local engine. What
counts is how far its resident memory rose, beside the bytes of the slice's rows in Arrow memory.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.compaction.cases import CASES, PROCESSES
from benchmarks.compaction.checks import answer_of
from benchmarks.compaction.data import Inputs, make_inputs
from benchmarks.harness import process_tree
from benchmarks.harness.comparison import say
from benchmarks.harness.places import RESULTS
from benchmarks.harness.runner import Runner
from hudi_ops.files.log.log_file import LogFileReader
from hudi_ops.storage.open import open_storage

TIMES_SLICE = 3.0
ABOVE_LIMIT = 1.25
"""A larger slice may take so many times what a smaller one took under the same limit."""
_ROOM = 64 << 30


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table.

    Returns:
        0; 1 when a table held other rows than it must.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compaction.memory", description=__doc__)
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="base rows of the small slice; each log has a tenth"
    )
    parser.add_argument("--times", type=int, default=4, help="the large slice has so many times as many")
    parser.add_argument("--limit-mb", type=int, default=192, help="the limit that both get")
    parser.add_argument("--work", type=Path, default=RESULTS / "work-memory", help="scratch folder, emptied")
    options = parser.parse_args(arguments)
    work = options.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    found = []
    print("| base rows | slice in Arrow MB | limit MB | took MB | of the slice | wall s |\n|---|---|---|---|---|---|")
    for rows in (options.rows, options.rows * options.times):
        say(f"making a slice of {rows:,} rows")
        inputs = make_inputs(work / f"source-{rows}", rows, rows // 10)
        for limit_bytes in (_ROOM, options.limit_mb * 1_000_000):
            run = _run(work / f"{rows}-{limit_bytes}", inputs, limit_bytes)
            found.append(run)
            told = f"{limit_bytes / 1e6:.0f}" if limit_bytes != _ROOM else "none"
            print(
                f"| {rows:,} | {run['slice_mb']:.0f} | {told} | {run['took_mb']:.0f} "
                f"| {run['took_mb'] / run['slice_mb']:.2f} | {run['wall_s']:.2f} |",
                flush=True,
            )
        shutil.rmtree(work / f"source-{rows}")
    print("\n" + _verdicts(found))
    shutil.rmtree(work)
    return 0 if all(run["correct"] for run in found) else 1


def _run(work: Path, inputs: Inputs, limit_bytes: int) -> dict[str, Any]:
    request = {"base": str(inputs.base), "batches": [str(batch) for batch in inputs.batches], **CASES[0].settings()}
    told = ["--schema-of", str(inputs.base)]
    with Runner("made", PROCESSES["local"].command, Path(sys.executable), work, told) as maker:
        maker.prepare("table", request)
        table = maker.prepared("table")
    with Runner("local", PROCESSES["local"].command, Path(sys.executable), work, told) as runner:
        shutil.copytree(table, runner.table)
        runner.call("plan", runner.table, request)
        before_mb = process_tree.rss_bytes(runner.pid) / 1e6
        figures = runner.measured("execute", request | {"memory_bytes": limit_bytes})
        correct = answer_of(runner.table, "local") == inputs.answer
    run = figures | {"took_mb": figures["peak_rss_mb"] - before_mb, "slice_mb": _slice_mb(table), "correct": correct}
    shutil.rmtree(work)
    return run


def _slice_mb(table: Path) -> float:
    """Bytes of base and log rows in Arrow memory, all columns, nothing kept as a dictionary."""
    size = sum(pq.ParquetFile(file).read().nbytes for file in table.glob("*.parquet"))
    for file in table.glob(".*.log.*"):
        reader = LogFileReader(open_storage(str(table)), file.name)
        size += sum(reader.rows(block, None).nbytes for block in reader.blocks if block.is_data)
    return size / 1e6


def _verdicts(found: Sequence[dict[str, Any]]) -> str:
    shares = [run["took_mb"] / run["slice_mb"] for run in found[::2]]
    growth = found[3]["took_mb"] / found[1]["took_mb"]
    lines = [
        f"- at most {TIMES_SLICE}x the slice's Arrow size: {max(shares):.2f}x {_met(max(shares) <= TIMES_SLICE)}",
        f"- bounded by the limit: the larger slice took {growth:.2f}x of the smaller {_met(growth <= ABOVE_LIMIT)}",
    ]
    return "\n".join(lines)


def _met(is_met: bool) -> str:
    return "met" if is_met else "**missed**"


if __name__ == "__main__":
    sys.exit(main())
