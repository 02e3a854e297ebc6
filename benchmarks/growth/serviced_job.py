"""One case with services in a process of its own: commits, cleans, archives, compactions; JSON on stdout.

The last commits are paired with those of a new table: one of each in turn, so that both meet the same machine.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from benchmarks.growth.job import SCHEMA, WARM
from hudi_ops import Table

MOMENTS = 5
"""How often the files of `.hoodie` are counted, evenly spread."""


@dataclass
class Serviced:
    """A table, its commits, and the services after every few of them.

    `source`: folder of one file for each commit, which is removed once it was taken; None: rows of this process.
    """

    folder: Path
    table_type: str
    metadata: bool
    every: int
    source: Path | None = None
    count: int = 0
    spent: Counter[str] = field(default_factory=Counter)
    locked_s: float = 0.0

    def __post_init__(self) -> None:
        self.table = Table.create(
            self.folder,
            name="growth",
            schema=SCHEMA,
            record_key="id",
            partition_by="part",
            ordering="ts",
            table_type=self.table_type,
            metadata=self.metadata,
            clean={"automatic": False},
            archive={"automatic": False},
        )
        if self.source is not None:
            self.source.mkdir(parents=True)

    def step(self) -> float:
        """Commit once, with the services that are due; return CPU milliseconds."""
        rows = pa.table({"id": ["k"], "part": ["p"], "value": [self.count], "ts": [self.count]}, schema=SCHEMA)
        file = None
        if self.source is not None:
            file = self.source / f"events-{self.count:06d}.csv"
            file.write_text(f"id,part,value,ts\nk,p,{self.count},{self.count}\n", encoding="utf-8")
        before = time.process_time()
        if self.source is not None:
            self._timed("commit", lambda: self.table.ingest_folder(str(self.source)))
        else:
            self._timed("commit", lambda: self.table.ingest(rows))
        self.count += 1
        if self.count % self.every == 0:
            if self.table_type == "mor":
                self._timed("compaction", self.table.compaction.run)
            self._timed("clean", self.table.clean.run)
            self._timed("archive", self._archive)
        spent = (time.process_time() - before) * 1000
        if file is not None:
            file.unlink()
        return spent

    def _archive(self) -> None:
        self.locked_s = max(self.locked_s, self.table.archive.run().lock_s)

    def _timed(self, what: str, work: Callable[[], object]) -> None:
        before = time.process_time()
        work()
        self.spent[what] += (time.process_time() - before) * 1000


def contents(table: Path) -> dict[str, tuple[int, int]]:
    """Return files and bytes below `.hoodie`, by kind."""
    files: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for folder, _, names in os.walk(table / ".hoodie"):
        place = Path(folder).relative_to(table / ".hoodie")
        for name in names:
            kind = _kind(place, name)
            files[kind] += 1
            sizes[kind] += (Path(folder) / name).stat().st_size
    return {kind: (files[kind], sizes[kind]) for kind in sorted(files)}


def _kind(place: Path, name: str) -> str:
    parts = place.parts
    if not parts:
        return "settings"
    if parts[0] == ".commit_log":
        is_slot = len(parts) == 2 and parts[1].isdigit()
        return "slots" if is_slot else "marks" if parts[1:2] == ("cancelled",) else "payloads"
    if parts[0] == "metadata":
        inner = Path(*parts[2:]) if parts[1:2] == (".hoodie",) else None
        return f"metadata table: {_kind(inner, name)}" if inner is not None else "metadata table: files"
    if parts[0] == "timeline":
        return "history" if "history" in parts else "timeline"
    return {".ingest": "ledgers", ".heartbeat": "leases", ".temp": "markers", ".holds": "holds"}.get(
        parts[0], parts[0].lstrip(".")
    )


def main() -> None:
    """Run it; the tables are left where they were made."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--type", choices=("cow", "mor"), required=True)
    parser.add_argument("--metadata", action="store_true")
    parser.add_argument("--files", action="store_true", help="each commit takes a file of one source")
    parser.add_argument("--commits", type=int, required=True)
    parser.add_argument("--part", type=int, required=True, help="commits of one measurement")
    parser.add_argument("--every", type=int, default=10, help="commits between two rounds of services")
    options = parser.parse_args()

    def made(name: str) -> Serviced:
        source = options.table.with_name(f"{options.table.name}-{name}-files") if options.files else None
        return Serviced(options.table / name, options.type, options.metadata, options.every, source)

    grown = made("grown")
    for _ in range(WARM):
        grown.step()
    parts: list[float] = []
    moments: list[tuple[int, dict[str, tuple[int, int]]]] = []
    spent: list[dict[str, float]] = []
    # The last part is the paired one.
    whole = options.commits // options.part - 1
    marks = {max(1, round(whole * at / MOMENTS)) for at in range(1, MOMENTS + 1)} | {1}
    for number in range(1, whole + 1):
        grown.spent.clear()
        parts.append(sum(grown.step() for _ in range(options.part)) / options.part)
        spent.append({kind: round(ms / options.part, 3) for kind, ms in grown.spent.items()})
        if number in marks:
            moments.append((grown.count, contents(grown.folder)))
    fresh = made("fresh")
    for _ in range(WARM):
        fresh.step()
    gc.collect()
    old_ms, new_ms = 0.0, 0.0
    for _ in range(options.part):
        old_ms += grown.step()
        new_ms += fresh.step()
    moments.append((grown.count, contents(grown.folder)))
    found = grown.table.read(["value"])["value"].to_pylist()
    print(
        json.dumps({
            "parts": [round(part, 3) for part in parts],
            "spent": [spent[0], spent[-1]],
            "paired": [round(ms / options.part, 3) for ms in (new_ms, old_ms)],
            "moments": moments,
            "lock_s": round(grown.locked_s, 3),
            "files": options.files,
            "correct": found == [grown.count - 1],
        })
    )


if __name__ == "__main__":
    main()
