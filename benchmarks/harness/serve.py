"""What the engine processes share: each stays alive and answers commands, one JSON line each.

The clock runs here, around the engine's call alone. CPU and memory are taken by whoever sent the command, from outside.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol


class Engine(Protocol):
    """One engine: beside these it has a method for each command, which takes the command's job."""

    def versions(self) -> dict[str, str]:
        """Of what does the work."""
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


def serve(start: Callable[[], Engine], job_of: Callable[..., Any]) -> None:
    """Answer commands from stdin until it ends. Whatever else writes to stdout is sent to stderr.

    Args:
        start: makes the engine.
        job_of: makes a command's job from its fields.
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def answer(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    engine = start()
    answer({"versions": engine.versions()})
    for line in sys.stdin:
        request = json.loads(line)
        call = getattr(engine, request.pop("command"))
        job = job_of(**request)
        started_s = time.perf_counter()
        found = call(job)
        answer({"wall_s": time.perf_counter() - started_s, "found": found})
    engine.close()
