"""Which engine runs an ingest, and why: Spark pays only when the work outweighs what it costs to hand it out."""

from __future__ import annotations

from typing import Literal, get_args

from hudi_ops.engine.local import LocalEngine
from hudi_ops.engine.protocol import Engine
from hudi_ops.errors import InvalidRequest

EngineName = Literal["auto", "local", "spark"]

LOCAL_BYTES_MAX = 512 * 1024 * 1024
"""Incoming bytes up to which one process is taken: below it, handing work to Spark costs more than the work."""


def choose_engine(name: str, incoming_bytes: int, given: Engine) -> tuple[Engine, str]:
    """The engine for an ingest.

    Args:
        name: `auto`, `local` or `spark`.
        incoming_bytes: bytes of the source files, or of the rows in memory.
        given: the engine that the table was opened with.

    Returns:
        The engine, and the reason for people.

    Raises:
        InvalidRequest: an unknown name.
    """
    if name not in get_args(EngineName):
        raise InvalidRequest(f"unknown engine {name!r}", expected="auto, local or spark", found=name)
    local = given if isinstance(given, LocalEngine) else LocalEngine()
    size = f"{incoming_bytes / 1_000_000:.1f} MB incoming"
    if name == "local":
        return local, "asked for"
    if name == "spark":
        return (given if given.name == "spark" else _spark()), "asked for"
    if given.name != "spark":
        return local, f"{size}, and no Spark session is open"
    if incoming_bytes <= LOCAL_BYTES_MAX:
        return local, f"{size}, at most {LOCAL_BYTES_MAX // 1_000_000} MB: one process is faster than handing it out"
    return given, f"{size}, more than {LOCAL_BYTES_MAX // 1_000_000} MB"


def _spark() -> Engine:
    # pyspark costs seconds to import: only when it is asked for.
    from hudi_ops.engine.spark import SparkEngine

    return SparkEngine.of_new_session("hudi-ops")
