"""What the folder of a table holds, read without the product's readers of timelines, logs and views: for slow measures."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hudi_ops.formats.avro import container as avro

COMPLETED_WORDS = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}
SERVICES = {"compaction", "logcompaction", "clustering", "clean", "indexing"}
WRITES = {"commit", "deltacommit", "replacecommit"}
_NAME = re.compile(r"(\d{17})(?:_(\d{17}))?\.([a-z]+)(?:\.([a-z.]+))?")


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def ms_of(time: str) -> int:
    """Time of an instant of 17 digits in UTC, in ms since 1970."""
    return int(datetime.strptime(time[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()) * 1000 + int(time[14:])


class Folder:
    """Instants of a timeline folder: completion times and paths of the completed, and actions and words of the pending."""

    def __init__(self, folder: Path) -> None:
        self.completed: dict[tuple[str, str], tuple[str, Path]] = {}
        self.pending: dict[str, tuple[str, set[str]]] = {}
        self.aborted: dict[str, Path] = {}
        words_of: dict[tuple[str, str], set[str]] = {}
        for name in sorted(found.name for found in folder.iterdir()) if folder.is_dir() else []:
            match = _NAME.fullmatch(name)
            if match is None:
                continue
            time, completion, action, suffix = match.groups()
            if action == "inflight":
                action, suffix = "commit", "inflight"
            if completion:
                self.completed[time, action] = completion, folder / name
            elif suffix in {"requested", "inflight"}:
                words_of.setdefault((time, action), set()).add(suffix)
            elif suffix == "aborted":
                self.aborted[time] = folder / name
        self.services = {
            (time, COMPLETED_WORDS[action]) for time, action in words_of if action in COMPLETED_WORDS
        } & self.completed.keys()
        for (time, action), words in words_of.items():
            if (time, COMPLETED_WORDS.get(action, action)) not in self.completed:
                known = self.pending.get(time)
                # The inflight file of a compaction has its own word; a plain one beside it means the same instant.
                self.pending[time] = (known[0] if known else action, words | (known[1] if known else set()))

    @property
    def times(self) -> set[str]:
        """Request times of all instants."""
        return {time for time, _ in self.completed} | {*self.pending}


class OnDisk:
    """A table's folder."""

    def __init__(self, path: str) -> None:
        self.root = Path(path)
        self.timeline = Folder(self.root / ".hoodie/timeline")
        self.own = Folder(self.root / ".hoodie/metadata/.hoodie/timeline")
        slots = sorted((self.root / ".hoodie/.commit_log").rglob("0*/*.json"))
        self.log = [json.loads(slot.read_bytes()) for slot in slots]
        lines = (self.root / ".hoodie/hoodie.properties").read_text(encoding="utf-8").splitlines()
        self.properties = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))

    def names(self, key: str) -> list[str]:
        """A list in the properties."""
        return [name for name in self.properties.get(key, "").replace("\\", "").split(",") if name]

    def leases(self) -> dict[str, int]:
        """Time in ms at which each lease expires; owners are taken for live until then."""
        found = {}
        folder = self.root / ".hoodie/.heartbeat"
        for file in folder.iterdir() if folder.is_dir() else []:
            body = file.read_bytes()
            said = json.loads(body).get("beaten_ms", 0) if body else 0
            found[file.name] = max(int(file.stat().st_mtime * 1000), said) + 120_000
        return found

    def commit(self, time: str, kind: str) -> dict[str, Any]:
        """Metadata of a completed write."""
        return avro.read_one(self.timeline.completed[time, kind][1].read_bytes())
