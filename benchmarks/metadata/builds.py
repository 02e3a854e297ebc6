"""Index builds as a service: their plan, a build beside writers, and what it asks of storage while it holds the lock.

`python -m benchmarks.metadata.builds`; no Apache Hudi. Runs are in turn (A B C A B C ...), and a first round is dropped. Writers
and builds are processes of their own, over the lock of a ZooKeeper. See README.md.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import machine
from benchmarks.harness.goals import Goal, Run, verdicts
from benchmarks.harness.places import RESULTS
from benchmarks.harness.rows import PARTITIONS
from benchmarks.harness.tables import spread
from benchmarks.metadata.busy_tables import INDEXES, add_places, base_rows, batch, is_right, make_base, restore
from benchmarks.metadata.company import Company
from benchmarks.metadata.in_turn import publish
from benchmarks.metadata.lock_calls import of_metadata, sections
from benchmarks.metadata.stand_ins import make_table
from hudi_ops import Table

WRITERS = ("writer-1", "writer-2", "writer-3")
BESIDE = ("beside-writers", "mor-beside-writers")
CASES = ("planning", *BESIDE, "lock-calls")
LOCK_ROWS = 20_000
LINE = 3
"""Commits while the build waits for the lock, in the variant `line`."""
TITLES = {
    "plan": "the table is opened, and a plan published",
    "alone": "no writer",
    "beside": "3 writers of this table",
    "elsewhere": "3 writers of a copy of the table: what the machine adds",
    "missing": "many commits to catch up",
    "line": f"the same, and {LINE} commits each time while the build waits for the lock",
}
GOALS = (
    Goal("plan of a build, wall: at most 0.1 s", ("planning",), "plan", "wall_s", 0.1, is_floor=False),
    Goal("plan of a build, CPU: at most 0.1 s", ("planning",), "plan", "cpu_s", 0.1, is_floor=False),
    Goal(
        "build beside 3 writers, CPU: at most 1.3x of one alone",
        BESIDE,
        "alone",
        "cpu_s",
        1.3,
        "beside",
        is_floor=False,
    ),
    Goal(
        "storage calls in one holding of the lock: at most 10", ("lock-calls",), "missing", "calls", 10, is_floor=False
    ),
    Goal(
        "the same without those for the metadata table: at most 10",
        ("lock-calls",),
        "missing",
        "other_calls",
        10,
        is_floor=False,
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a report.

    Returns:
        0; 1 when an index is not what it must be.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metadata.builds", description=__doc__)
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(CASES), help=f"of {','.join(CASES)}")
    parser.add_argument("--files", type=int, default=4_000, help="files of the table of `planning`")
    parser.add_argument("--commits", type=int, default=40, help="by which they were written")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the tables beside whose builds others write")
    parser.add_argument(
        "--missing", type=int, default=50, help="commits that the build of `lock-calls` has to catch up"
    )
    parser.add_argument("--runs", type=int, default=5, help="counted rounds")
    parser.add_argument("--warmup", type=int, default=1, help="rounds that are run and dropped")
    add_places(parser, "builds", RESULTS)
    options = parser.parse_args(arguments)
    if unknown := {*options.cases} - {*CASES}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    options.work = options.work.resolve()
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    runs = [run for case in options.cases for run in _kept(_runs_of(case, options))]
    shutil.rmtree(options.work, ignore_errors=True)
    publish("builds", _report(runs, options), runs, options.results)
    return 0 if all(run["correct"] for run in runs) else 1


def _kept(runs: Iterator[Run]) -> Iterator[Run]:
    """The counted runs, each printed as it comes."""
    for run in runs:
        if run["round"] > 0:
            print(json.dumps(run), flush=True)
            yield run


def _runs_of(case: str, options: argparse.Namespace) -> Iterator[Run]:
    if case == "planning":
        return _planning(options)
    return _lock_calls(options) if case == "lock-calls" else _beside(case, options)


def _planning(options: argparse.Namespace) -> Iterator[Run]:
    table, kept = options.work / "planned", options.work / "kept"
    make_table(table, options.files, options.commits).close()
    shutil.copytree(table / ".hoodie", kept)
    for number in range(1 - options.warmup, options.runs + 1):
        restore(kept, table / ".hoodie")
        gc.collect()
        load, wall_s, cpu_s = machine.load(), time.perf_counter(), time.process_time()
        opened = Table.open(str(table))
        planned = opened.indexing.plan(partitions=INDEXES)
        took = {"wall_s": time.perf_counter() - wall_s, "cpu_s": time.process_time() - cpu_s}
        opened.close()
        is_planned = planned.instant is not None and len(planned.planned) == len(INDEXES)
        yield {"case": "planning", "variant": "plan", "round": number, **took, "load": load, "correct": is_planned}


def _beside(case: str, options: argparse.Namespace) -> Iterator[Run]:
    """A build alone, beside writers of its table, and beside the same writers of a copy of the table."""
    rows, prepared, work = base_rows(options.rows), options.work / case, options.work / f"{case}-runs"
    make_base(prepared, rows, "mor" if case.startswith("mor") else "cow")
    work.mkdir()
    sources = {writer: work / f"{writer}.parquet" for writer in WRITERS}
    for number, source in enumerate(sources.values()):
        pq.write_table(batch(rows, PARTITIONS[number], 100, 0, number), source)
    with Company(work, ["builder", *WRITERS]) as company:
        for number in range(1 - options.warmup, options.runs + 1):
            for variant in ("alone", "beside", "elsewhere"):
                yield {"case": case, "variant": variant, "round": number} | _build(
                    company, variant, f"{case}-{number}-{variant}", prepared, sources
                )


def _build(company: Company, variant: str, key: str, prepared: Path, sources: dict[str, Path]) -> Run:
    table, copy, stop = prepared.with_name("table"), prepared.with_name("copy"), prepared.with_name("stop")
    restore(prepared, table)
    restore(prepared, copy)
    stop.unlink(missing_ok=True)
    load = machine.load()
    company.open("builder", table, key)
    writers = sources if variant != "alone" else {}
    for writer, source in writers.items():
        company.open(writer, copy if variant == "elsewhere" else table, key + variant * (variant == "elsewhere"))
        company.tell(writer, "go_on", source=str(source), stop=str(stop))
    for writer in writers:
        company.hear(writer)
    built = company.ask("builder", "build", partitions=list(INDEXES), waits=False)
    stop.touch()
    ended = [each for writer in writers for each in company.hear(writer)["ended"]]
    company.close()
    return {
        "wall_s": built["ended"] - built["began"],
        "cpu_s": built["cpu_s"],
        "commits": sum(built["began"] <= each <= built["ended"] for each in ended),
        "rounds": built["rounds"],
        "load": load,
        "correct": built["correct"] and is_right(table),
    }


def _lock_calls(options: argparse.Namespace) -> Iterator[Run]:
    rows, prepared, table = base_rows(LOCK_ROWS), options.work / "locked", options.work / "locked-table"
    make_base(prepared, rows, "cow")
    scenes = {"alone": (0, 0), "missing": (options.missing, 0), "line": (options.missing, LINE)}
    for variant, (missing, line) in scenes.items():
        restore(prepared, table)
        found = sections(table, rows, missing, line)
        yield {
            "case": "lock-calls",
            "variant": variant,
            "round": 1,
            "calls": max(len(one.calls) for one in found),
            "other_calls": max(len(one.calls) - of_metadata(one) for one in found),
            "sections": [(one.purpose, len(one.calls), of_metadata(one)) for one in found],
            "correct": is_right(table),
        }


def _report(runs: Sequence[Run], options: argparse.Namespace) -> str:
    facts = {**machine.machine(), "pyarrow": pa.__version__, "rows": f"{options.rows:,}", "files": f"{options.files:,}"}
    parts = [
        "# Index builds as a service",
        "Made by `python -m benchmarks.metadata.builds`; README.md says what is measured. Median (min-max)."
        " Ratios pair runs of a round.",
        "\n".join(f"- {key}: {value}" for key, value in facts.items()),
        verdicts(GOALS, runs),
        _times([run for run in runs if "wall_s" in run]),
        _sections([run for run in runs if "sections" in run]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _times(runs: Sequence[Run]) -> str:
    lines = [
        "| case | variant | runs | wall s | CPU s | CPU ÷ alone | commits of writers | rounds | load |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for case, variant in dict.fromkeys((run["case"], run["variant"]) for run in runs):
        mine = [run for run in runs if (run["case"], run["variant"]) == (case, variant)]
        alone = {run["round"]: run["cpu_s"] for run in runs if (run["case"], run["variant"]) == (case, "alone")}
        quotients = [run["cpu_s"] / alone[run["round"]] for run in mine if run["round"] in alone]
        loads = [run["load"] for run in mine]
        cells = [spread([run[name] for run in mine], 3) for name in ("wall_s", "cpu_s")]
        cells.append(spread(quotients) if quotients and variant != "alone" else "")
        cells += [spread([run[name] for run in mine], 0) if name in mine[0] else "" for name in ("commits", "rounds")]
        lines.append(
            f"| `{case}` | {TITLES[variant]} | {len(mine)} | {' | '.join(cells)} | {min(loads):.1f}-{max(loads):.1f} |"
        )
    return "\n".join(lines) if runs else ""


def _sections(runs: Sequence[Run]) -> str:
    lines = [
        "| case | variant | holdings of the lock: storage calls, of which for the metadata table |",
        "|---|---|---|",
    ]
    for run in runs:
        told = "; ".join(f"{_kind(purpose)} {calls}, {metadata}" for purpose, calls, metadata in run["sections"])
        lines.append(f"| `{run['case']}` | {TITLES[run['variant']]} | {told} |")
    return "\n".join(lines) if runs else ""


def _kind(purpose: str) -> str:
    """A purpose without its instant."""
    return " ".join(word for word in purpose.split() if not word.isdigit())


if __name__ == "__main__":
    sys.exit(main())
