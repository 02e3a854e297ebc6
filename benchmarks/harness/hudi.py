"""Apache Hudi as a process of a comparison: base class, and the program that serves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from benchmarks.harness.hudi_options import versions
from benchmarks.harness.serve import Engine, arguments, serve
from benchmarks.harness.session import start_session


class ApacheHudiBase:
    """Apache Hudi in one long-lived session."""

    off: ClassVar[tuple[str, ...]] = ("hoodie.metadata.enable", "hoodie.archive.automatic", "hoodie.clean.automatic")
    """Settings that are false in the session."""

    def __init__(self, spark: Any, jar: str) -> None:
        self._spark = spark
        self._jar = jar
        for key in self.off:
            spark.conf.set(key, "false")

    def versions(self) -> dict[str, str]:
        """Bundle, Spark and Java."""
        return versions(self._spark, self._jar)

    def close(self) -> None:
        """Stop Spark."""
        self._spark.stop()


def serve_hudi(engine: Callable[[Any, str], Engine], job_of: Callable[..., Any], description: str | None) -> None:
    """Answer commands as Apache Hudi.

    Args:
        engine: makes the engine from a session of Spark and the path of the bundle.
        job_of: makes a command's job from its fields.
        description: shown by `--help`.
    """
    options = arguments(description or "").parse_args()
    if options.jar is None:
        raise SystemExit("--jar is needed: Apache Hudi's Spark bundle")

    def start() -> Engine:
        return engine(start_session("apache-hudi", options.jar, options.work, options.driver_memory), options.jar)

    serve(start, job_of)
