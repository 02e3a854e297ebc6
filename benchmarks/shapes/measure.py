"""Writes and reads of wide tables and of many small files, beside pyarrow; prints a JSON line a run, then a report.

Both writers take turns in one warm process, and the first round is dropped. The rows of each run are checked. See README.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.harness import machine
from benchmarks.harness.goals import Run, verdicts
from benchmarks.harness.tables import spread
from benchmarks.shapes.goals import GOALS
from benchmarks.shapes.shapes import Shape, Step, floor_steps, local_steps

WIDE, MANY = (1_000, 5_000, 10_000), 5_000
WRITERS: dict[str, tuple[Callable[[Shape, Path, str], Iterator[Step]], str]] = {
    "local": (local_steps, "cow"),
    "local-mor": (local_steps, "mor"),
    "floor": (floor_steps, ""),
}
TITLES = {"local": "hudi_ops, local engine", "local-mor": "the same, merge-on-read", "floor": "pyarrow floor"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison.

    Returns:
        0; 1 when a table held other rows than it must.
    """
    parser = argparse.ArgumentParser("benchmarks.shapes", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="counted rounds")
    parser.add_argument("--quick", action="store_true", help="small shapes, one round")
    parser.add_argument("--shapes", default="wide,many", help="wide, many or both")
    parser.add_argument("--work", type=Path, default=None, help="folder for the tables, on the disk to measure")
    parser.add_argument("--report", type=Path, default=None, help="file for the report")
    options = parser.parse_args(arguments)
    wide, many = ((50, 100), 20) if options.quick else (WIDE, MANY)
    shapes = [Shape(columns=columns) for columns in wide] if "wide" in options.shapes else []
    shapes += [Shape(partitions=many)] if "many" in options.shapes else []
    runs = [run for shape in shapes for run in _runs(shape, 1 if options.quick else options.runs, options.work)]
    text = report(runs)
    if options.report is not None:
        options.report.write_text(text, encoding="utf-8")
    print(text)
    return int(not all(run["correct"] for run in runs))


def _runs(shape: Shape, rounds: int, work: Path | None) -> Iterator[Run]:
    for number in range(rounds + 1):
        for writer, (steps, table_type) in WRITERS.items():
            folder = Path(tempfile.mkdtemp(prefix="shapes", dir=work))
            try:
                for run in _timed(shape, steps(shape, folder, table_type)):
                    run |= {"variant": writer, "round": number, "load": machine.load()}
                    if number:
                        print(json.dumps(run), flush=True)
                        yield run
            finally:
                shutil.rmtree(folder)


def _timed(shape: Shape, steps: Iterator[Step]) -> Iterator[Run]:
    for name, call in steps:
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        found = call()
        figures = {"wall_s": time.perf_counter() - wall_s, "cpu_s": time.process_time() - cpu_s}
        is_right = _is_right(shape, found) if isinstance(found, pa.Table) else True
        yield {"case": f"{shape}, {name}", **figures, "correct": is_right}


def _is_right(shape: Shape, found: pa.Table) -> bool:
    """Whether a read found the rows of both writes."""
    expected = shape.expected()
    return bool(found.select(expected.column_names).sort_by("id").equals(expected.sort_by("id")))


def report(runs: Sequence[Run]) -> str:
    """Markdown: the machine, the goals, and medians of all runs."""
    cases = list(dict.fromkeys(run["case"] for run in runs))
    lines = ["| case | writer | wall s | CPU s |", "|---|---|---|---|"]
    for case in cases:
        for writer, title in TITLES.items():
            own = [run for run in runs if (run["case"], run["variant"]) == (case, writer)]
            if own:
                wall, cpu = (spread([run[figure] for run in own]) for figure in ("wall_s", "cpu_s"))
                lines.append(f"| {case} | {title} | {wall} | {cpu} |")
    loads: list[Any] = [run["load"] for run in runs]
    facts = machine.machine() | {"pyarrow": pa.__version__, "load": f"{min(loads)} to {max(loads)}"}
    parts = [
        "# Results of the benchmark of shapes",
        "Made by `python -m benchmarks.shapes`; README.md says what is compared. Median (min-max); ratios pair runs of one round.",
        "\n".join(f"- {key}: {value}" for key, value in facts.items()),
        "## Goals",
        verdicts(GOALS, runs),
        "## Runs",
        "\n".join(lines),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
