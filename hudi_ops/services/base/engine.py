"""Choose the engine that runs the work, with the reason.

Spark pays only where the work outweighs the cost of distributing it.
"""

from __future__ import annotations

from typing import Any

from hudi_ops.config.requests import checked_engine
from hudi_ops.engine.frames import has_executors
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.protocol import Engine, FrameEngine
from hudi_ops.errors import InvalidRequest

LOCAL_BYTES_MAX = 512 * 1024 * 1024
"""Work of at most this many bytes runs in one process: distributing it would cost more."""


def choose_engine(name: str, incoming_bytes: int | None, given: Engine) -> tuple[Engine, str]:
    """Return the engine for an ingest, and the reason.

    Args:
        incoming_bytes: bytes of the source files, or of the rows in memory; None for a stream.
        given: the engine that the table was opened with.

    Raises:
        InvalidRequest: an unknown name.
    """
    if name == "auto" and incoming_bytes is None:
        return _local(given), "a stream, which passes through this process anyway"
    return choose_by_bytes(name, incoming_bytes or 0, given, "incoming")


def choose_by_bytes(name: str, size_bytes: int, given: Engine, what: str) -> tuple[Engine, str]:
    """Return the engine for reading `size_bytes` of `what`, and the reason.

    Raises:
        InvalidRequest: an unknown name.
    """
    checked_engine(name)
    local = _local(given)
    if name == "local":
        return local, "asked for"
    if name == "spark":
        return (given if given.name == "spark" else _spark()), "asked for"
    size = f"{size_bytes / 1_000_000:.1f} MB {what}"
    if given.name != "spark":
        return local, f"{size}, and no Spark session is open"
    if size_bytes <= LOCAL_BYTES_MAX:
        return local, f"{size}, at most {LOCAL_BYTES_MAX // 1_000_000} MB: one process is faster than handing it out"
    return given, f"{size}, more than {LOCAL_BYTES_MAX // 1_000_000} MB"


def choose_frame_engine(name: str, frame: Any, given: Engine) -> tuple[Engine, str]:
    """Return the engine for an ingest of a PySpark DataFrame, and the reason.

    By default these are the executors that compute its rows. The size of a DataFrame is unknown until it is evaluated, which must
    happen once; Spark's estimates are off by orders of magnitude.

    Raises:
        InvalidRequest: an unknown name, or `spark` over Spark Connect.
    """
    checked_engine(name)
    local, reason = choose_engine("local", None, given)
    if name == "local":
        return local, reason
    if not has_executors(frame):
        if name == "spark":
            raise InvalidRequest(
                "a DataFrame of Spark Connect cannot be written on its executors",
                expected="a classic session, which runs our tasks",
                found=f"{type(frame).__module__}.{type(frame).__qualname__}",
                next_step="use engine auto or local, which collect it as Arrow; or a classic session",
            )
        return local, "a DataFrame of Spark Connect, whose executors do not run our tasks"
    reason = "asked for" if name == "spark" else "a DataFrame: Spark's executors hold its rows"
    if isinstance(given, FrameEngine):
        return given, reason
    from hudi_ops.engine.spark import SparkEngine

    return SparkEngine(frame.sparkSession), reason


def _local(given: Engine) -> LocalEngine:
    return given if isinstance(given, LocalEngine) else LocalEngine()


def _spark() -> Engine:
    # pyspark costs seconds to import: only when it is asked for.
    from hudi_ops.engine.spark import SparkEngine

    return SparkEngine.of_new_session("hudi-ops")
