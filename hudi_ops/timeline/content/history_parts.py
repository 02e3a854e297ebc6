"""Encoding of history files and their manifests: the reverse of `timeline.content.archived`.

Source: docs/format §5.1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from operator import attrgetter

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops.formats.timeline.timeline_schemas import LSM_INSTANT
from hudi_ops.timeline.content.archived import ArchivedInstant, HistoryPart

LEVEL_MAX = 9
"""Highest level: the name of a history file has one digit for it."""

_NAME = re.compile(r"(?P<first>\d+)_(?P<last>\d+)_(?P<level>\d)\.parquet")
_SCHEMA = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
        ("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ],
    metadata={"parquet.avro.schema": json.dumps(LSM_INSTANT), "writer.model.name": "avro"},
)
_in_order = attrgetter("time", "action")


def part_name(times: Iterable[str], level: int) -> str:
    """Return the name of a history file with instants of these request times.

    >>> part_name(["20261121060100123", "20261121060000000"], 0)
    '20261121060000000_20261121060100123_0.parquet'
    """
    ordered = sorted(times)
    return f"{ordered[0]}_{ordered[-1]}_{level}.parquet"


def range_of(name: str) -> tuple[str, str, int] | None:
    """Return first and last request time and the level of a history file; None for other names."""
    match = _NAME.fullmatch(name)
    return (match["first"], match["last"], int(match["level"])) if match is not None else None


def encode_part(instants: Sequence[ArchivedInstant]) -> bytes:
    """Encode a history file; equal instants give equal bytes."""
    ordered = sorted(instants, key=_in_order)
    columns = [
        pa.array([one.time for one in ordered], pa.string()),
        pa.array([one.completion_time for one in ordered], pa.string()),
        pa.array([one.action for one in ordered], pa.string()),
        pa.array([one.metadata for one in ordered], pa.binary()),
        pa.array([one.plan for one in ordered], pa.binary()),
        pa.array([1] * len(ordered), pa.int32()),
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(columns, schema=_SCHEMA), sink, compression="gzip")
    body: bytes = sink.getvalue().to_pybytes()
    return body


def encode_manifest(parts: Iterable[HistoryPart]) -> bytes:
    """Encode a manifest, as Apache Hudi prints it."""
    files = [{"fileName": part.name, "fileLen": part.size_bytes} for part in parts]
    return json.dumps({"files": files}, indent=2).encode()


def manifest_name(number: int) -> str:
    """Return the name of a manifest."""
    return f"manifest_{number}"
