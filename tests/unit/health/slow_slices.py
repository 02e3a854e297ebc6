"""Visible slices of a table on disk, found slowly: from its folder, and the names and content of its timeline."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hudi_ops.timeline.content.commit_metadata import CommitMetadata

BASE = re.compile(r"(?P<id>[^_/]+)_[^_]+_(?P<instant>\d{17})\.parquet")
LOG = re.compile(r"\.(?P<id>[^_/]+)_(?P<instant>\d{17})\.log\.\d+_.+")
WRITES = {"commit", "deltacommit", "replacecommit"}


@dataclass
class SlowSlice:
    """Newest base file and its log files: sizes in bytes."""

    partition_path: str
    file_id: str
    base_bytes: int | None = None
    base_instant: str = ""
    log_sizes: list[int] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        return (self.base_bytes or 0) + sum(self.log_sizes)


def slow_slices(path: str) -> list[SlowSlice]:
    """The slices that a reader of the table sees, by partition path and file id."""
    timeline = Path(path, ".hoodie", "timeline")
    completions, named, replaced = {}, {}, set()
    for name in sorted(one.name for one in timeline.iterdir()):
        found = re.fullmatch(r"(\d{17})_(\d{17})\.(\w+)", name)
        if found is None or found[3] not in WRITES:
            continue
        completions[found[1]] = found[2]
        metadata = CommitMetadata.from_bytes((timeline / name).read_bytes(), name)
        for stat in metadata.stats:
            named[stat.path] = found[2]
        replaced |= {(where, group) for where, groups in (metadata.replaced or {}).items() for group in groups}
    start = min(completions, default="")
    slices: dict[tuple[str, str], SlowSlice] = {}
    logs: list[tuple[tuple[str, str], int, str]] = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(one for one in folders if one != ".hoodie")
        where = os.path.relpath(folder, path).replace(".", "", 1) if folder == path else os.path.relpath(folder, path)
        for name in sorted(names):
            parsed = BASE.fullmatch(name) or LOG.fullmatch(name)
            file = f"{where}/{name}".lstrip("/")
            if parsed is None or (where, parsed["id"]) in replaced:
                continue
            instant = parsed["instant"]
            is_named = file in named and instant in completions
            if not is_named and not (instant < start and instant not in completions):
                continue
            key, size = (where, parsed["id"]), Path(folder, name).stat().st_size
            if parsed.re is LOG:
                logs.append((key, size, named.get(file, instant)))
                continue
            one = slices.setdefault(key, SlowSlice(*key))
            if instant > one.base_instant:
                one.base_bytes, one.base_instant = size, instant
    for key, size, completed in logs:
        one = slices.setdefault(key, SlowSlice(*key))
        if completed >= one.base_instant:
            one.log_sizes.append(size)
    return [slices[key] for key in sorted(slices)]


def slow_p95(values: Sequence[int]) -> int | None:
    """The 95th percentile by nearest rank; None without values."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1] if values else None
