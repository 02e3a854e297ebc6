"""Plans, writes and cleans of a table of many file groups, by the code of this commit and of an older one; see README.md.

Each measure runs in a fresh process, the two commits in turn. Prints a JSON line a process on standard error, then a report.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import urllib3

from benchmarks.harness import machine
from benchmarks.harness.places import ROOT
from benchmarks.harness.tables import spread
from benchmarks.metadata.stand_ins import make_table
from benchmarks.view.job import SERVER_VARIABLE
from hudi_ops import Table

JOB = Path(__file__).with_name("job.py")
FEW_GROUPS = 1_000
ONE_ROW_COMMITS = 4
WRITING = {"write", "commits", "sync"}
"""Jobs that work on a copy of a table."""

Run = dict[str, Any]


@dataclass(frozen=True)
class Measure:
    """A figure of today's code, and the figure that must be `goal` times as large.

    Both are named by code, job, table and name. `cow` and `mor` have many groups, and a few one-row commits after that of all
    files; `mor-bulk` is without these; `small` has few groups; `plain` has no metadata table.
    """

    text: str
    now: str
    reference: str
    goal: float

    @property
    def figures(self) -> list[tuple[list[str], str]]:
        """Today's figure and the reference, each by what runs and by its name."""
        return [(words[:3], words[3]) for words in (self.now.split(), self.reference.split())]


def _beside(text: str, figure: str, goal: float) -> Measure:
    """Return a measure whose reference is the same figure of the older commit."""
    return Measure(text, f"now {figure}", f"before {figure}", goal)


MEASURES = (
    _beside("read plan, first of a process", "read cow first_ms", 3),
    _beside("compaction plan, first of a process", "compaction mor first_ms", 4),
    _beside("`show`", "show cow first_ms", 2.5),
    _beside("one-row write after a commit of all files, first of a process", "write mor-bulk first_ms", 1.5),
    _beside("compaction plan again", "compaction mor again_ms", 8),
    _beside("clean plan again", "clean cow again_ms", 4),
    _beside("read plan again", "read cow again_ms", 2.5),
    Measure(
        "read plan again, one partition; reference: of few groups",
        "now read cow one_ms",
        "now read small one_ms",
        1 / 1.3,
    ),
    Measure(
        "sync after a commit of 16 files; reference: a listing of the folders",
        "now sync mor sync_ms",
        "now sync mor listing_ms",
        200,
    ),
    Measure(
        "stored view, first use; reference: built by the metadata table",
        "now stored cow view_ms",
        "now built cow view_ms",
        10,
    ),
    Measure(
        "read plan, first of a process, no metadata table, 20 ms a storage call, wall; reference: without a timeline server",
        "now served plain wall_ms",
        "now listed plain wall_ms",
        5,
    ),
    Measure(
        "read plan of one partition, first of a process, no metadata table, 20 ms a storage call, wall; reference: the same",
        "now served-one plain wall_ms",
        "now listed-one plain wall_ms",
        5,
    ),
    _beside("memory of a read plan, peak MB", "read cow peak_mb", 2),
    _beside("memory after a read plan, MB", "read cow kept_mb", 2),
    _beside("few groups: read plan, first of a process", "read small first_ms", 0.95),
    _beside("few groups: a one-row commit", "commits small commit_ms", 0.95),
)

_VERDICTS = {True: "met", False: "**missed**", None: ""}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a report; return 0."""
    options = _options(arguments)
    measures = [one for one in MEASURES if options.only in one.text]
    wanted = [of for one in measures for of, _ in one.figures]
    codes = {"now": ROOT} | ({"before": options.against.resolve()} if options.against is not None else {})
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(options.rounds + 1):  # the first round warms the caches of the machine, and is dropped
            for job, table in dict.fromkeys((job, table) for _, job, table in wanted):
                for code in sorted(codes, reverse=number % 2 == 0):
                    if [code, job, table] not in wanted:
                        continue
                    figures = _run(job, _table(folder, table, options.groups), codes[code])
                    run = {"code": code, "job": job, "table": table, "round": number, **figures, "load": machine.load()}
                    print(json.dumps(run), file=sys.stderr, flush=True)
                    runs += [run] if number else []
    loads = [run["load"] for run in runs]
    facts = {
        **machine.machine(),
        "pyarrow": pa.__version__,
        "file groups": f"{options.groups:,}; few: {FEW_GROUPS:,}",
        "rounds": f"{options.rounds}, load {min(loads)} to {max(loads)}",
    }
    found = results(measures, runs)
    print(json.dumps({"facts": facts, "results": found}) if options.json else report(found, facts))
    return 0


def _run(job: str, table: Path, code: Path) -> Run:
    """Run a job in a process of its own; return its figures."""
    used = table.with_name("copy") if job in WRITING else table
    if job in WRITING:
        shutil.rmtree(used, ignore_errors=True)  # of a run that was killed
        linked(table, used)
    # Modules that are imported late are compiled in the dropped round.
    env = {**os.environ, "PYTHONPATH": str(code), "PYTHONPYCACHEPREFIX": str(table.with_name("pycache"))}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, str(JOB), job, "--table", str(used), "--code", str(code)]
    try:
        if job.startswith("served"):
            env[SERVER_VARIABLE] = server_of(used)
        done = subprocess.run(command, cwd=table.parent, env=env, stdout=subprocess.PIPE, text=True, check=True)
    finally:
        if job in WRITING:
            shutil.rmtree(used)
    found: Run = json.loads(done.stdout)
    return found


def _table(folder: Path, name: str, groups: int) -> Path:
    """Return a table, which is made once."""
    count, kind = (FEW_GROUPS, "cow") if name == "small" else (groups, name.removesuffix("-bulk"))
    bulk, whole = folder / f"{kind}-{count}-bulk", folder / f"{kind}-{count}"
    if not bulk.exists():
        make_table(bulk, count, table_type=kind.replace("plain", "cow"), metadata=kind != "plain").close()
    if name == "plain" or name.endswith("-bulk"):
        return bulk
    if not whole.exists():
        linked(bulk, whole)
        part = "p00000" if kind == "mor" else "new"  # a stand-in cannot be rewritten, but log files can lie on it
        table = Table.open(whole)
        for _ in range(ONE_ROW_COMMITS):
            table.ingest(pa.table({"id": ["k"], "part": [part]}))
        table.close()
    return whole


_servers: dict[Path, str] = {}


def server_of(table: Path) -> str:
    """Start a timeline server for a table, once; return its URL. It ends with this process."""
    if table not in _servers:
        file = table.with_name("tables.yaml")
        file.write_text(
            f"tables:\n  many: {{path: {table}, record_key: [id], partition_by: [part]}}\n", encoding="utf-8"
        )
        env = {**os.environ, "HUDI_OPS_TABLES": str(file), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "hudi_ops.cli.main", "timeline-server", "--port", "0"]
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        atexit.register(process.kill)
        url = (process.stdout.readline() if process.stdout is not None else "").rpartition(" at ")[2].strip()
        while urllib3.request("GET", f"{url}/ready", timeout=60, retries=5).status != 200:
            time.sleep(0.1)
        _servers[table] = url
    return _servers[table]


def linked(table: Path, copy: Path) -> None:
    """Copy a table; its data files, which are never changed, are linked."""

    def put(source: str, target: str) -> None:
        (shutil.copy2 if "/.hoodie/" in source else os.link)(source, target)

    shutil.copytree(table, copy, copy_function=put)


def results(measures: Sequence[Measure], runs: Sequence[Run]) -> list[Run]:
    """Return medians, ratios by round and the goal of each measure."""
    found = []
    for one in measures:
        now, reference = (
            {run["round"]: run[name] for run in runs if [run["code"], run["job"], run["table"]] == of}
            for of, name in one.figures
        )
        ratios = [reference[number] / max(now[number], 1e-6) for number in sorted(now.keys() & reference.keys())]
        medians = [median(each.values()) if each else None for each in (reference, now)]
        is_met = median(ratios) >= one.goal if ratios else None
        found.append({
            "measure": one.text,
            "reference": medians[0],
            "now": medians[1],
            "ratios": ratios,
            "goal": one.goal,
            "met": is_met,
        })
    return found


def report(found: Sequence[Run], facts: Mapping[str, str]) -> str:
    """Return the report: a line for each measure."""
    lines = [*(f"- {key}: {value}" for key, value in facts.items()), ""]
    lines += ["| measure | reference | now | reference / now (min-max) | goal | |", "|---|---|---|---|---|---|"]
    for one in found:
        cells = [f"{one[name]:,.1f}" if one[name] is not None else "" for name in ("reference", "now")]
        cells += [spread(one["ratios"]) if one["ratios"] else "", f"{one['goal']:.3g}", _VERDICTS[one["met"]]]
        lines.append(f"| {one['measure']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.view", description=__doc__)
    parser.add_argument("--groups", type=int, default=100_000, help="file groups of the large tables")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds")
    parser.add_argument("--against", type=Path, help="checkout of an older commit; without it, only today's figures")
    parser.add_argument("--only", default="", help="measures whose text holds this, such as `read`")
    parser.add_argument("--json", action="store_true", help="print the medians as JSON")
    parser.add_argument("--folder", type=Path, help="keep the tables here, and use them again")
    options = parser.parse_args(arguments)
    if not any(options.only in one.text for one in MEASURES):
        parser.error(f"no measure holds {options.only!r}; there are: {'; '.join(one.text for one in MEASURES)}")
    return options
