"""Spark application: merge the log files of a table into new base files. Nothing but arguments and one call.

spark-submit spark_apps/compact.py --table flights --mode plan [--strategy commits] [--least 10] [--max-bytes 50000000000]
spark-submit spark_apps/compact.py --table flights --mode execute --instant 20261121101500123 [--engine auto]
"""

from __future__ import annotations

import argparse
from typing import Any

from _app import ArgumentParser, StoppableLocks, StopRequest, SubmittedSpark, add_accept_future, bound, run

from hudi_ops import Table
from hudi_ops.concurrency.lock.open_lock import lock_of
from hudi_ops.config.tables_file import locate_table
from hudi_ops.services.base.result import Progress
from hudi_ops.services.compaction.strategies import STRATEGIES


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = ArgumentParser(
        prog="compact.py",
        description="Merge log files into new base files: plan, execute a plan, or both (run). A plan that was left comes first.",
    )
    parser.add_argument("--table", required=True, help="a name of tables.yaml, or a path")
    parser.add_argument("--mode", default="run", choices=["run", "plan", "execute"])
    parser.add_argument("--strategy", default="size", choices=list(STRATEGIES))
    parser.add_argument(
        "--least", type=amount, help="what has less waits: bytes, log files, delta commits or seconds, by the strategy"
    )
    parser.add_argument("--max-bytes", type=bound, help="plan at most so many bytes, one file group at least")
    parser.add_argument("--partitions", type=names, default=(), help="paths or patterns, separated by commas; all")
    parser.add_argument("--instant", default="", help="execute this plan; default: the oldest that nobody is at")
    parser.add_argument("--engine", default="auto", choices=["auto", "local", "spark"])
    parser.add_argument("--memory-bytes", type=bound, help="what one file group may take of memory")
    parser.add_argument("--tables", help="the tables.yaml to use")
    add_accept_future(parser)
    parser.add_argument("--stop-file", help="end as soon as this file exists; the plan stays")
    return parser.parse_args()


def amount(text: str) -> float | None:
    """A threshold; empty, as a form leaves it, for the strategy's own."""
    return float(text) if text else None


def names(text: str) -> tuple[str, ...]:
    """A list with commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def work() -> dict[str, Any]:
    """Parse, open the table, plan or execute."""
    options = arguments()
    stop = StopRequest(options.stop_file)
    stop.listen()
    location = locate_table(options.table, options.tables)
    stop.check("the table was opened")
    locks = StoppableLocks(lock_of(location), stop)
    engine = SubmittedSpark(f"hudi-ops compact {location.name}", stop)
    table = Table.at(location, locks=locks, engine=engine, accept_future=options.accept_future_instants == "true")
    chosen = {
        "strategy": options.strategy,
        "threshold": options.least,
        "max_bytes": options.max_bytes,
        "partitions": options.partitions,
    }

    def look(progress: Progress) -> None:
        stop.check(f"slice {progress.done + 1} of {progress.total}")

    how = {"engine": options.engine, "memory_bytes": options.memory_bytes, "progress": look}
    try:
        stop.check("anything was planned")
        if options.mode == "plan":
            return table.plan_compaction(**chosen, resume=True).as_dict()
        if options.mode == "execute":
            return table.execute_compaction(options.instant or None, **how).as_dict()
        return table.compact(options.instant or None, **chosen, **how).as_dict()
    finally:
        table.close()


if __name__ == "__main__":
    run("compact", work)
