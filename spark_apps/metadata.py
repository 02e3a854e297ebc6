"""Spark application: build partitions of a table's metadata table. Nothing but arguments and one call.

spark-submit spark_apps/metadata.py --table flights [--partitions record_index,bloom_filters] [--again]
"""

from __future__ import annotations

import argparse
from typing import Any

from _app import ArgumentParser, StoppableLocks, StopRequest, SubmittedSpark, add_accept_future, run

from hudi_ops import Table
from hudi_ops.concurrency.lock.open_lock import lock_of
from hudi_ops.config.tables_file import locate_table
from hudi_ops.services.indexing.tasks import Progress


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = ArgumentParser(
        prog="metadata.py",
        description="Build partitions of the metadata table. What is there already is left as it is.",
    )
    parser.add_argument("--table", required=True, help="a name of tables.yaml, or a path")
    parser.add_argument(
        "--partitions", type=names, default=(), help="separated by commas; files, column_stats, partition_stats"
    )
    parser.add_argument(
        "--again",
        nargs="?",
        const="true",
        default="false",
        choices=["true", "false"],
        help="build anew what is there, damaged or behind: it is dropped first",
    )
    parser.add_argument("--engine", default="auto", choices=["auto", "local", "spark"])
    parser.add_argument("--tables", help="the tables.yaml to use")
    add_accept_future(parser)
    parser.add_argument("--stop-file", help="end as soon as this file exists; nothing is built then")
    return parser.parse_args()


def names(text: str) -> tuple[str, ...]:
    """A list with commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def work() -> dict[str, Any]:
    """Parse, open the table, build."""
    options = arguments()
    stop = StopRequest(options.stop_file)
    stop.listen()
    location = locate_table(options.table, options.tables)
    stop.check("the table was opened")
    locks = StoppableLocks(lock_of(location), stop)
    engine = SubmittedSpark(f"hudi-ops metadata {location.name}", stop)
    table = Table.at(location, locks=locks, engine=engine, accept_future=options.accept_future_instants == "true")

    def look(progress: Progress) -> None:
        stop.check(f"more than {progress.done} of {progress.total} {progress.what} were read")

    try:
        return table.build_metadata(
            options.partitions or None, engine=options.engine, progress=look, again=options.again == "true"
        ).as_dict()
    finally:
        table.close()


if __name__ == "__main__":
    run("metadata", work)
