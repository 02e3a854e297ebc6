"""What the engine processes share: each stays alive and answers `prepare`, `write` and `count`, one JSON line each.

The clock runs here, around the writer's call alone. CPU and memory are taken by whoever sent the command, from outside.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Job:
    """One command.

    Attributes:
        table: folder of the table.
        source: folder of the rows to write; None with `prepare` of an empty table.
        partitioned: whether the table has partitions.
        buckets: file groups per partition, where the variant has such.
        operation: `upsert`, `insert` or `bulk_insert`.
        in_memory: the rows are few, and handed over as a table instead of files.
        options: the variant's own settings.
    """

    table: str
    source: str | None
    partitioned: bool
    buckets: int
    operation: str
    in_memory: bool
    options: dict[str, Any]

    @property
    def files(self) -> list[Path]:
        """The source's files."""
        return sorted(Path(self.source).glob("*.parquet")) if self.source is not None else []


class Writer(Protocol):
    """The variants of one engine."""

    def versions(self) -> dict[str, str]:
        """Of what does the work."""
        ...

    def prepare(self, job: Job) -> None:
        """Make the table and write the base rows, if there are any."""
        ...

    def write(self, job: Job) -> None:
        """Write one batch; this call is what is measured."""
        ...

    def close(self) -> None:
        """Stop what was started."""
        ...


def arguments(description: str) -> argparse.ArgumentParser:
    """Options that every engine process has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--work", required=True, help="folder for scratch files")
    parser.add_argument("--jar", help="Apache Hudi's Spark bundle")
    parser.add_argument("--driver-memory", default="6g", help="heap of the JVM")
    parser.add_argument(
        "--schema-of", required=True, help="a folder of source files: what a table without rows looks like"
    )
    return parser


def serve(start: Callable[[], Writer]) -> None:
    """Answer commands from stdin until it ends. Whatever else writes to stdout is sent to stderr."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def answer(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    writer = start()
    answer({"versions": writer.versions()})
    for line in sys.stdin:
        request = json.loads(line)
        call = getattr(writer, request.pop("command"))
        job = Job(**request)
        started_s = time.perf_counter()
        found = call(job)
        answer({"wall_s": time.perf_counter() - started_s, "found": found})
    writer.close()
