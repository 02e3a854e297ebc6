"""TPC-H `lineitem` in a merge-on-read table: a load, upserts of one per cent, compaction, clean and archive between them.

The process is killed amid one compaction and started again. Prints a JSON line a step on standard error, then a report. The exit
code is 1 when the table holds other rows than DuckDB makes of the same files, or took more memory than it may.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.harness import machine, process_tree
from benchmarks.harness.comparison import say
from benchmarks.harness.places import RESULTS
from benchmarks.tpch import streams
from benchmarks.tpch.streams import Streams
from hudi_ops import Table

GIB = 1 << 30
KILLED_COMPACTION = 2
"""Which compaction is killed."""

KILLED_AFTER = 0.4
"""When it is killed, as a share of the time that the first one took."""

LOOKED_EVERY_S = 0.2
STEPS = ("load", "upsert", "compact", "clean", "archive")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; return 0, or 1 when rows are wrong or the memory limit was passed."""
    options = _options(arguments)
    work: Path = options.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    duck_memory = f"{options.duckdb_mb}MB"
    say(f"making lineitem of scale factor {options.scale:g} and {options.upserts} streams")
    made = streams.make_streams(work / "source", options.scale, options.upserts, duck_memory)
    run = _Run(options, work, made)
    run.all_steps()
    say("comparing all rows with DuckDB's")
    wanted = streams.expected(work / "source", made, duck_memory)
    with Table.open(work / "table").scan().to_reader() as rows:
        found = streams.found(work / "source", rows, duck_memory)
    facts = {
        **machine.machine(),
        "rows": wanted[0],
        "rows equal": found == wanted,
        "source": f"{made.size_bytes / 1e9:.2f} GB",
        "table at the end": f"{_folder_bytes(work / 'table') / 1e9:.2f} GB",
        "peak disk": f"{run.peak_disk_bytes / 1e9:.2f} GB",
        "memory limit": f"{options.memory_mb} MiB",
        "peak memory": f"{run.peak_rss_bytes / 2**20:.0f} MiB",
        "killed": run.killed or "nothing",
    }
    is_within = run.peak_rss_bytes <= options.memory_mb * 2**20 + GIB
    is_met = found == wanted and is_within
    print(_report(run.steps, facts, is_met=is_met))
    if not options.keep:
        shutil.rmtree(work)
    return 0 if is_met and run.killed else 1


class _Run:
    """Processes of a run, and what they took."""

    def __init__(self, options: argparse.Namespace, work: Path, made: Streams) -> None:
        (work / "spill").mkdir()
        self._command = [
            *(sys.executable, "-m", "benchmarks.tpch.job"),
            *("--table", str(work / "table"), "--spill", str(work / "spill")),
            *("--base", *map(str, made.base), "--upserts", *map(str, made.upserts)),
            *("--buckets", str(options.buckets or max(1, round(1.6 * options.scale)))),
            *("--memory-bytes", str(options.memory_mb * 2**20)),
        ]
        self._work = work
        self.steps: list[dict[str, Any]] = []
        self.peak_rss_bytes = self.peak_disk_bytes = 0
        self.killed = ""

    def all_steps(self) -> None:
        """Run all steps, the second time from where the first process was killed."""
        at = self._process(0, kills=True)
        if at is not None:
            self._process(at, kills=False)

    def _process(self, first: int, *, kills: bool) -> int | None:
        """Run steps from one on; return the number of the step amid which the process was killed."""
        compactions = 0
        with subprocess.Popen([*self._command, "--first", str(first)], stdout=subprocess.PIPE, text=True) as process:
            with self._watched(process.pid):
                for line in process.stdout or ():
                    told = json.loads(line)
                    if "ended" in told:
                        print(line, end="", file=sys.stderr, flush=True)
                        self.steps.append(told)
                    elif told["step"] == "compact":
                        compactions += 1
                        if kills and compactions == KILLED_COMPACTION:
                            time.sleep(
                                KILLED_AFTER * next(one["wall_s"] for one in self.steps if one["step"] == "compact")
                            )
                            process.kill()
                            process.wait()
                            self.killed = f"compaction {compactions}, then resumed"
                            return int(told["begins"])
            if process.wait():
                raise RuntimeError(f"the run ended with exit code {process.returncode}, see above")
        return None

    @contextmanager
    def _watched(self, pid: int) -> Iterator[None]:
        ends = threading.Event()
        free_bytes = shutil.disk_usage(self._work).free + _folder_bytes(self._work / "table")

        def watch() -> None:
            while not ends.wait(LOOKED_EVERY_S):
                # Files of the spill folder have no name: only free space tells of them.
                self.peak_disk_bytes = max(self.peak_disk_bytes, free_bytes - shutil.disk_usage(self._work).free)
                self.peak_rss_bytes = max(self.peak_rss_bytes, process_tree.peak_rss_bytes(pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield
        finally:
            ends.set()
            watcher.join()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tpch", description=__doc__)
    parser.add_argument("--scale", type=float, default=10, help="TPC-H's scale factor; 1 has 6 million rows")
    parser.add_argument("--upserts", type=int, default=20, help="upserts of one per cent of the rows; at least 10")
    parser.add_argument("--buckets", type=int, help="file groups of each of seven partitions; default: 1.6 x scale")
    parser.add_argument("--memory-mb", type=int, default=1024, help="memory limit of the run, in MiB")
    parser.add_argument("--duckdb-mb", type=int, default=6000, help="memory limit of DuckDB, in MB")
    parser.add_argument("--work", type=Path, default=RESULTS / "work-tpch", help="scratch folder, emptied")
    parser.add_argument("--keep", action="store_true", help="leave the table and its sources")
    options = parser.parse_args(arguments)
    if options.upserts < 10:
        parser.error("--upserts is at least 10: the second compaction is the one that is killed")
    return options


def _folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _report(steps: Sequence[dict[str, Any]], facts: dict[str, Any], *, is_met: bool) -> str:
    lines = ["| step | runs | wall s, all | wall s, longest | CPU s, all |", "|---|---|---|---|---|"]
    for name in STEPS:
        these = [one for one in steps if one["step"] == name]
        wall, cpu = [one["wall_s"] for one in these], [one["cpu_s"] for one in these]
        lines.append(f"| {name} | {len(these)} | {sum(wall):.1f} | {max(wall, default=0):.1f} | {sum(cpu):.1f} |")
    told = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    verdict = f"- rows equal DuckDB's, peak memory at most the limit + 1 GiB: {'met' if is_met else '**missed**'}"
    return "\n".join(["# TPC-H lineitem", "", told, verdict, "", *lines])


if __name__ == "__main__":
    sys.exit(main())
