"""Spark application: take the new files of a folder into a table. Nothing but arguments and one call.

spark-submit spark_apps/ingest.py --table flights [--source DIR] [--operation upsert] [--engine auto] [--evolve]
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import Any

from _app import ArgumentParser, StoppableLocks, StopRequest, SubmittedSpark, add_accept_future, bound, run

from hudi_ops import Table
from hudi_ops.concurrency.lock.open_lock import lock_of
from hudi_ops.config.tables_file import TableLocation, find_tables_file, locate_table
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.write.operations import INGESTING


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = ArgumentParser(
        prog="ingest.py", description="Take the new files of a folder into a table, each exactly once."
    )
    parser.add_argument("--table", required=True, help="a name of tables.yaml, or a path")
    parser.add_argument(
        "--source", default="", help="folder of CSV, JSON or Parquet files; default: the one that tables.yaml declares"
    )
    parser.add_argument("--operation", default="upsert", choices=list(INGESTING))
    parser.add_argument("--engine", default="auto", choices=["auto", "local", "spark"])
    parser.add_argument(
        "--evolve",
        nargs="?",
        const="true",
        default="false",
        choices=["true", "false"],
        help="let the table take new columns and wider types from the files",
    )
    parser.add_argument("--tables", help="the tables.yaml to use")
    parser.add_argument("--min-age-s", type=float, default=0.0, help="leave files younger than this for the next run")
    parser.add_argument("--max-files", type=bound, help="take at most so many files in this commit; default: all")
    parser.add_argument(
        "--max-bytes", type=bound, help="take files of at most so many bytes, one at least; default: all"
    )
    parser.add_argument(
        "--retake",
        action="append",
        default=[],
        help="path, below the source, of a corrected file to take again, or several, one a line; upsert only",
    )
    add_accept_future(parser)
    parser.add_argument("--stop-file", help="end, without a trace, as soon as this file exists")
    return parser.parse_args()


def source_folder(given: str, location: TableLocation, tables_file: str | None) -> str:
    """The folder to ingest: as given (relative to tables.yaml, whatever the working directory), or as declared.

    Args:
        given: the argument; empty for the declared one.
        location: the table.
        tables_file: the argument.

    Raises:
        InvalidRequest: neither given nor declared.
    """
    if not given:
        if location.declaration is None or location.declaration.source is None:
            raise InvalidRequest(
                f"no source for table {location.name}",
                next_step="give --source, or declare a source in tables.yaml",
            )
        return location.declaration.source
    if re.match(r"^[a-z][a-z0-9+.-]*://", given, re.IGNORECASE):
        return given
    file = find_tables_file(tables_file)
    return os.path.normpath((file.parent if file else Path.cwd()) / given)


def work() -> dict[str, Any]:
    """Parse, open the table, ingest."""
    options = arguments()
    stop = StopRequest(options.stop_file)
    stop.listen()
    location = locate_table(options.table, options.tables)
    folder = source_folder(options.source, location, options.tables)
    stop.check("the table was opened")
    locks = StoppableLocks(lock_of(location), stop)
    engine = SubmittedSpark(f"hudi-ops ingest {location.name}", stop)
    table = Table.at(location, locks=locks, engine=engine, accept_future=options.accept_future_instants == "true")
    try:
        stop.check("the first file was read")
        result = table.ingest_folder(
            folder,
            options.operation,
            engine=options.engine,
            min_age_s=options.min_age_s,
            evolve=options.evolve == "true",
            max_files=options.max_files,
            max_bytes=options.max_bytes,
            retake=[path for given in options.retake for path in given.split("\n") if path],
        )
    finally:
        table.close()
    return result.as_dict()


if __name__ == "__main__":
    run("ingest", work)
