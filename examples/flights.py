"""The demo: three waves of flight events through the DAG `ingestion` into a Hudi table.

A second table, merge-on-read, gets two waves of January's events without Airflow: its log files, and the files of the third
wave, are work for the forms of the UI. Run it with `bin/demo`, which installs what is missing. What it makes stays in `.demo` and
`.airflow`; running it again takes nothing twice and says so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from flights_data import WAVES, mean_arrival_delay, read_source, wave, wave_files, write_wave

from hudi_ops import Table
from hudi_ops.config.tables_file import TableDeclaration, load_tables
from hudi_ops.errors import HudiOpsError

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / ".demo"
LOGS = DEMO / "logs"
TABLE = "flights"
FORMS_TABLE = "departures"
FORMS_MONTH = 1
MISSED = 4
"""Exit code of `hudi-ops health` when a table misses a target."""


class DemoFailure(Exception):
    """A step of the demo failed; the message says which, why, and where its log is."""


@dataclass
class Wave:
    """Result of a wave: delivered events, and the result of the DAG run that took them."""

    name: str
    events: int = 0
    files: int = 0
    delivery_s: float = 0.0
    dag_run_s: float = 0.0
    result: dict[str, Any] = field(default_factory=dict)


class Progress:
    """Line of progress: rewritten every second on a terminal, printed once elsewhere."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()

    def begin(self, text: str) -> None:
        """Print that a step begins."""
        self._text, self._since = text, time.monotonic()
        if not self._on_terminal:
            print(f"{text} ...", file=sys.stderr, flush=True)

    def tick(self) -> None:
        """Print the progress of a step."""
        if self._on_terminal:
            print(f"\r\033[K{self._text} ... {self.elapsed_s:.0f} s", end="", file=sys.stderr, flush=True)

    def end(self, said: str = "done") -> None:
        """Print that a step ended."""
        start = "\r\033[K" if self._on_terminal else ""
        print(f"{start}{self._text}: {said} ({self.elapsed_s:.1f} s)", file=sys.stderr, flush=True)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self._since


progress = Progress()


def run_step(name: str, command: Sequence[str | Path], env: dict[str, str] | None = None) -> tuple[int, Path]:
    """Run a command to its end, its output in a log of its own.

    Args:
        name: of the step, and of its log.
        command: with its arguments.
        env: variables on top of this process's own.

    Returns:
        Exit code, and where the log is.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{name}.log"
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
        )
        try:
            while True:
                try:
                    return process.wait(timeout=1), log
                except subprocess.TimeoutExpired:
                    progress.tick()
        except BaseException:
            process.terminate()
            process.wait(timeout=30)
            raise


def must_run(name: str, command: Sequence[str | Path], env: dict[str, str] | None = None) -> str:
    """As `run_step`, for a command that has to succeed.

    Args:
        name: of the step, and of its log.
        command: with its arguments.
        env: variables on top of this process's own.

    Returns:
        What it printed.

    Raises:
        DemoFailure: it ended with another code than 0.
    """
    code, log = run_step(name, command, env)
    text = log.read_text(encoding="utf-8", errors="replace")
    if code:
        raise DemoFailure(f"{name} failed with exit code {code}:\n{_tail(text)}\n  Log: {log}")
    return text


def hudi_ops(*arguments: str) -> list[str]:
    """Return the command line of `hudi-ops` with these arguments."""
    return [str(Path(sys.executable).parent / "hudi-ops"), *arguments]


def prepare_airflow() -> None:
    """Create or upgrade Airflow's database; once for every version of Airflow."""
    home = Path(os.environ.get("AIRFLOW_HOME") or ROOT / ".airflow")
    stamp, wanted = home / "migrated", version("apache-airflow")
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    progress.begin("Airflow: preparing its database")
    must_run("airflow-db", [ROOT / "bin" / "airflow", "db", "migrate"])
    stamp.write_text(wanted)
    progress.end()


def prepare_table(name: str, declaration: TableDeclaration, example: pa.Table) -> None:
    """Create the table that tables.yaml declares, unless it exists.

    Args:
        name: of the table.
        declaration: from tables.yaml.
        example: a few rows with the table's schema.
    """
    if (Path(declaration.path) / ".hoodie" / "hoodie.properties").is_file():
        return
    progress.begin(f"Table {name}: creating it in {_short(declaration.path)}")
    like = DEMO / "flights-schema.parquet"
    like.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(example, like)
    must_run(f"create-{name}", hudi_ops("create", name, "--like", str(like)))
    progress.end()


def prepare_forms(declaration: TableDeclaration, source: pa.Table) -> None:
    """Give the second table two waves as log files, and the files of the third to take.

    Args:
        declaration: of the second table.
        source: all flights.
    """
    landing = Path(declaration.source or DEMO / "landing" / FORMS_TABLE)
    if all(file.exists() for file in wave_files(WAVES[-1], landing)):
        return
    month = source.filter(pc.equal(source["month"], FORMS_MONTH))
    prepare_table(FORMS_TABLE, declaration, wave(month.slice(0, 1), WAVES[0]))
    progress.begin(f"Table {FORMS_TABLE}: leaving log files to compact and files to take")
    for name in WAVES:
        list(write_wave(wave(month, name), name, landing))
        if name != WAVES[-1]:
            must_run(f"ingest-{FORMS_TABLE}-{name}", hudi_ops("ingest", FORMS_TABLE, "--engine", "local"))
    progress.end(f"{month.num_rows:,} flights of January")


def work_for_forms() -> dict[str, Any]:
    """Return what the forms of the UI find to do on the second table."""
    files = must_run("forms-ingestion", hudi_ops("ingest", FORMS_TABLE, "--dry-run", "--json"))
    plan = must_run("forms-compaction", hudi_ops("compact", FORMS_TABLE, "--dry-run", "--json"))
    build = must_run("forms-indexing", hudi_ops("index", FORMS_TABLE, "plan", "bloom_filters", "--dry-run", "--json"))
    said = [json.loads(text.strip().splitlines()[-1]) for text in (files, plan, build)]
    return {
        "ingestion": len(said[0]["files"]),
        "compaction": said[1]["counts"].get("planned", 0),
        "indexing": [verdict["file_id"] for verdict in said[2]["verdicts"] if verdict["reason"] == "planned"],
    }


def ingest_wave(current: Wave, source: pa.Table, landing: Path, engine: str) -> None:
    """Deliver one wave and have the DAG take it.

    Args:
        current: the wave; filled in.
        source: all flights.
        landing: the folder that the DAG takes files from.
        engine: auto, local or spark.

    Raises:
        DemoFailure: the DAG run failed.
    """
    progress.begin(f"Wave {current.name}: writing its files to {_short(landing)}")
    events = wave(source, current.name)
    written = list(write_wave(events, current.name, landing))
    current.files, current.events = len(written), events.num_rows if written else 0
    current.delivery_s = progress.elapsed_s
    progress.end(f"{events.num_rows:,} events in {len(written)} files" if written else "was delivered before")
    progress.begin(f"Wave {current.name}: airflow dags test ingestion")
    configuration = json.dumps({"table": TABLE, "operation": "upsert", "engine": engine})
    name = f"ingestion-{WAVES.index(current.name) + 1}-{current.name}"
    logical_date = datetime.now(UTC).isoformat()
    code, log = run_step(
        name,
        [ROOT / "bin" / "airflow", "dags", "test", "ingestion", logical_date, "--conf", configuration],
        # A demo says at once what is wrong.
        env={"HUDI_OPS_RETRIES": "0", "HUDI_OPS_TABLES": str(ROOT / "tables.yaml"), "COLUMNS": "4000"},
    )
    current.dag_run_s = progress.elapsed_s
    text = log.read_text(encoding="utf-8", errors="replace")
    current.result = last_result(text)
    if code or not current.result.get("ok"):
        why = current.result.get("message") or _tail(text)
        raise DemoFailure(f"the DAG run of wave {current.name} failed (exit code {code}):\n{why}\n  Log: {log}")
    progress.end(str(current.result.get("note") or f"commit {current.result.get('instant')}"))


def last_result(log: str) -> dict[str, Any]:
    """Return the application's last line, as the task's log repeats it; or an empty dict."""
    result: dict[str, Any] = {}
    start = log.find('{"app":')
    while start >= 0:
        with contextlib.suppress(ValueError):  # cut off, or text that looks alike
            result, _ = json.JSONDecoder().raw_decode(log, start)
        start = log.find('{"app":', start + 1)
    return result


def verdicts(*options: str) -> str:
    """Return what `hudi-ops health` says of both tables.

    A missed target is no failure of the demo.

    Raises:
        DemoFailure: a table cannot be judged.
    """
    code, log = run_step("health", hudi_ops("health", TABLE, FORMS_TABLE, *options))
    text = log.read_text(encoding="utf-8", errors="replace")
    if code not in {0, MISSED}:
        raise DemoFailure(f"health failed with exit code {code}:\n{_tail(text)}\n  Log: {log}")
    return text.rstrip()


def fill_registry() -> str:
    """Keep what `hudi-ops health` says for the page in Airflow.

    Returns:
        Address of the page while `bin/ui` runs.
    """
    progress.begin("Registry: judging both tables for the page in Airflow")
    must_run("registry-migrate", hudi_ops("registry", "migrate"))
    must_run("registry-refresh", hudi_ops("registry", "refresh", TABLE, FORMS_TABLE))
    progress.end()
    return f"http://127.0.0.1:{os.environ.get('HUDI_OPS_UI_PORT', '8080')}/plugin/hudi-ops"


def answers(declaration: TableDeclaration, source: pa.Table) -> dict[str, Any]:
    """Compare the mean arrival delay by carrier of the table with that of the source file."""
    table = Table.open(declaration.path)
    try:
        rows = table.read(columns=["carrier", "arr_delay"])
    finally:
        table.close()
    from_table, from_source = mean_arrival_delay(rows), mean_arrival_delay(source)
    departed = source.num_rows - source["dep_time"].null_count
    return {
        "question": "mean arrival delay by carrier, minutes",
        "equal": from_table == from_source and rows.num_rows == departed,
        "rows_in_table": rows.num_rows,
        "flights_departed_in_source": departed,
        "by_carrier": {
            carrier: {"flights": flights, "table": from_table.get(carrier, (0, None))[1], "source": mean}
            for carrier, (flights, mean) in from_source.items()
        },
    }


def demo(engine: str) -> dict[str, Any]:
    """Everything between ZooKeeper's start and its stop.

    Args:
        engine: auto, local or spark.

    Returns:
        What `--json` prints.
    """
    started = time.monotonic()
    declared = load_tables(ROOT / "tables.yaml")
    declaration = declared.get(TABLE)
    progress.begin("Flights: reading the source file")
    source = read_source()
    progress.end(f"{source.num_rows:,} flights, every key once")
    landing = Path(declaration.source or DEMO / "landing" / TABLE)
    prepare_airflow()
    prepare_table(TABLE, declaration, wave(source.slice(0, 1), "scheduled"))
    waves = []
    for name in WAVES:
        # What an earlier run delivered goes into one DAG run, together with the first wave that is missing behind it.
        following = WAVES[WAVES.index(name) + 1 :]
        is_delivered = all(file.exists() for file in wave_files(name, landing))
        if is_delivered and following and all(file.exists() for file in wave_files(following[0], landing)):
            continue
        waves.append(Wave(name))
        ingest_wave(waves[-1], source, landing, engine)
    prepare_forms(declared.get(FORMS_TABLE), source)
    progress.begin("Answer: reading the table")
    answer = answers(declaration, source)
    progress.end(f"{answer['rows_in_table']:,} rows")
    timeline = must_run("timeline", hudi_ops("timeline", TABLE, "--json"))
    new_instants = [each.result["instant"] for each in waves if each.result.get("instant")]
    return {
        "demo": TABLE,
        "ok": bool(answer["equal"]),
        "table": declaration.path,
        "waves": [each.__dict__ for each in waves],
        "new_instants": new_instants,
        "note": "" if new_instants else "nothing new: every file was taken before, so no instant was made",
        "timeline": json.loads(timeline.strip().splitlines()[-1])["instants"],
        "answer": answer,
        "forms": {"table": FORMS_TABLE, **work_for_forms()},
        "health": {one["table"]: one["status"] for one in json.loads(verdicts("--json").splitlines()[-1])["tables"]},
        "page": fill_registry(),
        "seconds": round(time.monotonic() - started, 1),
    }


def print_report(report: dict[str, Any]) -> None:
    """Return the report for people."""
    heading = f"{'wave':<10} {'rows in':>8} {'inserted':>9} {'updated':>8} {'deleted':>8} {'ignored':>8}"
    print(f"\n{heading} {'engine':>7} {'ingest s':>9} {'DAG run s':>10}  instant")
    for each in report["waves"]:
        result = each["result"]
        counts = f"{result.get('inserted', 0):>9,} {result.get('updated', 0):>8,} {result.get('deleted', 0):>8,}"
        print(
            f"{each['name']:<10} {result.get('rows_in', 0):>8,} {counts} {result.get('ignored', 0):>8,} "
            f"{result.get('engine') or '-':>7} {result.get('seconds', 0):>9.1f} {each['dag_run_s']:>10.1f}  "
            f"{result.get('instant') or '-'}"
        )
    if report["note"]:
        print(f"\n{report['note']}")
    print(f"\nTimeline of {_short(report['table'])}")
    print(must_run("timeline-text", hudi_ops("timeline", TABLE)).rstrip())
    answer = report["answer"]
    print(f"\n{answer['question']:<40}{'flights':>9} {'table':>10} {'source':>10}")
    for carrier, row in answer["by_carrier"].items():
        in_table = "missing" if row["table"] is None else f"{row['table']:.4f}"
        print(f"  {carrier:<38}{row['flights']:>9,} {in_table:>10} {row['source']:>10.4f}")
    equal = "equal" if answer["equal"] else "NOT EQUAL"
    rows = f"{answer['rows_in_table']:,} rows in the table, {answer['flights_departed_in_source']:,} flights departed"
    forms = report["forms"]
    partitions = ", ".join(forms["indexing"]) or "nothing"
    print(
        f"\nLeft for the forms of bin/ui, table {forms['table']}: ingestion has {forms['ingestion']} files to take, compaction "
        f"{forms['compaction']} file groups to merge, indexes {partitions} to build."
    )
    print(f"\nAre they well kept?\n{verdicts()}")
    print(f"\nThe same in Airflow, with buttons: start bin/ui, then open {report['page']}")
    print(f"\n{equal}: table and source file; {rows}. {report['seconds']} s in all.")


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="bin/demo", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the report also as one last JSON line")
    parser.add_argument("--engine", default="spark", choices=["auto", "local", "spark"], help="where rows are merged")
    parser.add_argument("--keep-zookeeper", action="store_true", help="leave the embedded ZooKeeper running at the end")
    options = parser.parse_args()
    was_started = False
    try:
        progress.begin("ZooKeeper: starting")
        text = must_run("zookeeper", hudi_ops("zookeeper", "start", "--json"))
        was_started = bool(json.loads(text.strip().splitlines()[-1]).get("was_started"))
        progress.end("started" if was_started else "was running already")
        report = demo(options.engine)
        print_report(report)
        if options.json:
            print(json.dumps(report, default=str))
        return 0 if report["ok"] else 1
    except (DemoFailure, HudiOpsError, RuntimeError, OSError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        if options.json:
            print(json.dumps({"demo": TABLE, "ok": False, "error": type(error).__name__, "message": str(error)}))
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; run it again to go on", file=sys.stderr)
        return 130
    finally:
        if was_started and not options.keep_zookeeper:
            run_step("zookeeper-stop", hudi_ops("zookeeper", "stop"))


def _short(path: str | Path) -> str:
    try:
        return str(Path(path).relative_to(ROOT))
    except ValueError:
        return str(path)


def _tail(text: str, lines: int = 25) -> str:
    width = shutil.get_terminal_size().columns * 3
    return "\n".join("  | " + line[:width] for line in text.rstrip().splitlines()[-lines:])


if __name__ == "__main__":
    sys.exit(main())
