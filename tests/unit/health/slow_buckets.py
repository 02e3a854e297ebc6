"""Buckets of a table on disk, measured slowly."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hudi_ops.table.table import Table
from tests.unit.health.slow_slices import slow_p95, slow_slices

MB = 1 << 20


def slow_buckets(path: str, split_bytes: int = 240 * MB) -> dict[str, float | None]:
    """The measures of the check `buckets` by name; `at_limit` of tables with hash rings alone."""
    slices = slow_slices(path)
    p95 = slow_p95([one.size_bytes for one in slices])
    found: dict[str, float | None] = {"size_ratio": None if p95 is None else p95 / (120 * MB)}
    facts = Table.open(path)._session.loader.load().log.properties.facts
    if facts.buckets_max:
        above = {one.partition_path for one in slices if one.size_bytes > split_bytes}
        found["at_limit"] = sum(_nodes(path, where) >= facts.buckets_max for where in above)
    return found


def _nodes(path: str, partition_path: str) -> int:
    """Number of nodes of the newest ring whose instant completed."""
    timeline = {one.name.partition("_")[0] for one in Path(path, ".hoodie/timeline").iterdir() if "_" in one.name}
    folder = Path(path, ".hoodie/.bucket_index/consistent_hashing_metadata", partition_path)
    rings = [one for one in folder.glob("*.hashing_meta") if re.match("0{14}[.]", one.name) or one.stem in timeline]
    return len(json.loads(max(rings, key=lambda one: one.name).read_text())["nodes"])
