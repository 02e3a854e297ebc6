"""What the runners share: a process that stays alive and answers `prepare` and `upsert`, one JSON line each.

The clock runs here, around the writer's call alone. CPU and memory are taken by whoever sent the command, from outside.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol


class Writer(Protocol):
    """One variant of the comparison."""

    def versions(self) -> dict[str, str]:
        """Of what does the work."""
        ...

    def prepare(self, table: str, source: str) -> None:
        """Make the table and write the base rows."""
        ...

    def upsert(self, table: str, source: str) -> None:
        """Write one batch; this call is what is measured."""
        ...

    def close(self) -> None:
        """Stop what was started."""
        ...


def arguments(description: str) -> argparse.ArgumentParser:
    """Options that every runner has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--buckets", type=int, required=True, help="file groups per partition")
    parser.add_argument("--work", required=True, help="folder for scratch files")
    parser.add_argument("--jar", help="Apache Hudi's Spark bundle")
    parser.add_argument("--driver-memory", default="6g", help="heap of the JVM")
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
        call = writer.prepare if request["command"] == "prepare" else writer.upsert
        started_s = time.perf_counter()
        call(request["table"], request["source"])
        answer({"wall_s": time.perf_counter() - started_s})
    writer.close()
