"""Which engine runs the work, and why: Spark pays only when the work outweighs what it costs to hand it out."""

from __future__ import annotations

from typing import Any

from hudi_ops.config.requests import checked_engine
from hudi_ops.engine.frames import has_executors
from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.protocol import Engine, FrameEngine
from hudi_ops.errors import InvalidRequest

LOCAL_BYTES_MAX = 512 * 1024 * 1024
"""Bytes up to which one process is taken: below it, handing work to Spark costs more than the work."""


def choose_engine(name: str, incoming_bytes: int | None, given: Engine) -> tuple[Engine, str]:
    """The engine for an ingest.

    Args:
        name: `auto`, `local` or `spark`.
        incoming_bytes: bytes of the source files, or of the rows in memory; None for a stream.
        given: the engine that the table was opened with.

    Returns:
        The engine, and the reason for people.

    Raises:
        InvalidRequest: an unknown name.
    """
    if name == "auto" and incoming_bytes is None:
        return _local(given), "a stream, which passes through this process anyway"
    return choose_by_bytes(name, incoming_bytes or 0, given, "incoming")


def refuse_unknown_engine(name: str) -> None:
    """To be asked before anything is begun.

    Raises:
        InvalidRequest: there is no such engine.
    """
    checked_engine(name)


def choose_by_bytes(name: str, size_bytes: int, given: Engine, what: str) -> tuple[Engine, str]:
    """The engine for work of which the bytes are known.

    Args:
        name: `auto`, `local` or `spark`.
        size_bytes: of what is read.
        given: the engine that the table was opened with.
        what: what these bytes are, as it follows their number.

    Returns:
        The engine, and the reason for people.

    Raises:
        InvalidRequest: an unknown name.
    """
    refuse_unknown_engine(name)
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
    """The engine for an ingest of a PySpark DataFrame: unless told otherwise, the executors that its rows come to life on.

    How large it is cannot be told before it is evaluated, which must happen once; Spark's estimates are off by orders.

    Args:
        name: `auto`, `local` or `spark`.
        frame: the DataFrame.
        given: the engine that the table was opened with.

    Returns:
        The engine, and the reason for people.

    Raises:
        InvalidRequest: an unknown name, or `spark` over Spark Connect.
    """
    refuse_unknown_engine(name)
    local, reason = choose_engine("local", None, given)
    if name == "local":
        return local, reason
    if not has_executors(frame):
        if name == "spark":
            raise InvalidRequest(
                "a DataFrame of Spark Connect cannot be written on its executors",
                expected="a classic session, which runs tasks of ours",
                found=f"{type(frame).__module__}.{type(frame).__qualname__}",
                next_step="use engine auto or local, which collect it as Arrow; or a classic session",
            )
        return local, "a DataFrame of Spark Connect, whose executors run no tasks of ours"
    reason = "asked for" if name == "spark" else "a DataFrame: its rows are with Spark's executors"
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
