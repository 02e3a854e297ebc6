"""Tables on disk with buckets that are too large."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from tests.unit.health.states_read_cost import batch, table_at

LARGE_BYTES = 250 << 20


def grow(path: Path, size_bytes: int = LARGE_BYTES) -> None:
    """Grow a Parquet file by a hole before its footer, which readers pass over; it takes no space on disk."""
    body = path.read_bytes()
    footer = struct.unpack("<I", body[-8:-4])[0] + 8
    with path.open("r+b") as file:
        file.seek(len(body) - footer)
        file.write(bytes(footer))
        file.seek(size_bytes - footer)
        file.write(body[-footer:])


def ringed(path: Path, large: int = 1, parts: int = 1, size_bytes: int = LARGE_BYTES, **keywords: Any) -> str:
    """A table with a ring of two buckets in each partition; in some partitions one of the buckets is large."""
    settings = {"bucket_engine": "consistent", "buckets": 2, "buckets_min": 1, "buckets_max": 16, **keywords}
    table_at(path, table_type="mor", index="bucket", **settings).ingest(batch(0, 60, parts=parts))
    for part in range(large):
        grow(min((path / f"part=p{part}").glob("*.parquet")), size_bytes)
    return str(path)


def buckets_missed(tmp_path: Path) -> str:
    """A table with a large bucket in a ring that may not grow."""
    return ringed(tmp_path / "buckets", buckets_max=2)
