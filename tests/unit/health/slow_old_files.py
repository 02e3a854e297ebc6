"""Files of old slices of a table on disk, and what keeps each, found slowly: from its folder and the content of its timeline."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from hudi_ops.formats.avro import container as avro
from hudi_ops.timeline.content.commit_metadata import CommitMetadata

_FILE = re.compile(
    r"(?:(?P<base>[^_/.]+)_[^_]+_(?P<made>\d{17})\.parquet|\.(?P<log>[^_/]+)_(?P<written>\d{17})\.log\..+)"
)
_DONE = re.compile(r"(\d{17})_(\d{17})\.(\w+)")
_BEGUN = re.compile(r"(\d{17})\.(\w+)\.requested")
_WRITES = {"commit", "deltacommit", "replacecommit"}
_KINDS = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}
HOUR_MS = 3_600_000


def ms_of(instant: str) -> int:
    """The time of an instant, in ms since 1970."""
    moment = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1000 + int(instant[14:])


@dataclass
class OldSlice:
    """Files of a slice of a group, with their sizes and instants; who superseded it; the instants of the slices after it."""

    key: tuple[str, str]
    instant: str
    superseded: str
    replaced: str
    later: list[str]
    files: dict[str, tuple[int, str]] = field(default_factory=dict)


class SlowTable:
    """What the files of a table say."""

    def __init__(self, path: str) -> None:
        self.root = Path(path)
        self.done: dict[tuple[str, str], str] = {}
        self.pending: dict[str, str] = {}
        names = sorted(one.name for one in (self.root / ".hoodie/timeline").iterdir())
        for name in names:
            if found := _DONE.fullmatch(name):
                self.done[found[1], found[3]] = found[2]
        for name in names:
            if (found := _BEGUN.fullmatch(name)) and (found[1], _KINDS.get(found[2], found[2])) not in self.done:
                self.pending[found[1]] = found[2]
        self.writes = {time: completed for (time, kind), completed in sorted(self.done.items()) if kind in _WRITES}

    @cached_property
    def kept(self) -> dict[str, dict[str, Any]]:
        """What cleans and archives keep, as the table's creation recorded it."""
        said = json.loads((self.root / f".hoodie/.commit_log/{0:08d}/{0:012d}.json").read_bytes())["automatic"]
        return {name: dict(said.get(name, {})) for name in ("clean", "archive")}

    def body(self, time: str, kind: str) -> bytes:
        return (self.root / ".hoodie/timeline" / f"{time}_{self.done[time, kind]}.{kind}").read_bytes()

    def records(self, body: bytes) -> dict[str, Any]:
        """The record of an Avro file."""
        return avro.read_one(body)

    @cached_property
    def commits(self) -> dict[str, CommitMetadata]:
        return {
            time: CommitMetadata.from_bytes(self.body(time, kind), time) for time, kind in self.done if kind in _WRITES
        }

    @cached_property
    def files(self) -> dict[tuple[str, str], dict[str, tuple[int, str, bool]]]:
        """Committed files by group: size, instant, and whether each is a log file."""
        named = {stat.path: time for time, commit in self.commits.items() for stat in commit.stats}
        found: dict[tuple[str, str], dict[str, tuple[int, str, bool]]] = {}
        for folder, folders, names in os.walk(self.root):
            folders[:] = [one for one in folders if one != ".hoodie"]
            where = os.path.relpath(folder, self.root).removeprefix(".")
            for name in names:
                parsed, path = _FILE.fullmatch(name), f"{where}/{name}".lstrip("/")
                if parsed is None:
                    continue
                instant = parsed["made"] or parsed["written"]
                if path in named or (instant < min(self.writes) and instant not in self.writes):
                    size = Path(folder, name).stat().st_size
                    key = (where, parsed["base"] or parsed["log"])
                    found.setdefault(key, {})[path] = (size, instant, parsed["log"] is not None)
        return found

    @property
    def bytes(self) -> int:
        return sum(size for held in self.files.values() for size, _, _ in held.values())

    def old_slices(self) -> Iterator[OldSlice]:
        """The slices that no reader sees now."""
        hidden: dict[tuple[str, str], str] = {}
        for time, commit in sorted(self.commits.items()):
            for where, groups in (commit.replaced or {}).items():
                for group in groups:
                    hidden.setdefault((where, group), time)
        for key, held in self.files.items():
            starts = sorted({instant for _, instant, is_log in held.values() if not is_log})
            slices: dict[str, dict[str, tuple[int, str]]] = {start: {} for start in starts}
            for path, (size, instant, is_log) in held.items():
                until = self.writes.get(instant, instant) if is_log else instant
                start = max((one for one in starts if one <= until), default="")
                slices.setdefault(start, {})[path] = (size, instant)
            order = sorted(slices)
            for at, start in enumerate(order):
                later, by = order[at + 1 :], hidden.get(key, "")
                superseded = min((one for one in (*later[:1], by) if one), default="")
                if superseded:
                    first = start or min(instant for _, instant in slices[start].values())
                    yield OldSlice(key, first, superseded, by, later, slices[start])

    @cached_property
    def holds(self) -> list[dict[str, Any]]:
        return [json.loads(one.read_bytes()) for one in sorted(self.root.glob(".hoodie/.holds/*.json"))]

    @cached_property
    def savepoints(self) -> dict[str, set[str]]:
        """The paths that each savepoint names."""
        return {
            time: {
                f"{where}/{name}".lstrip("/")
                for where, one in self.records(self.body(time, kind))["partitionMetadata"].items()
                for name in one["savepointDataFile"]
            }
            for time, kind in self.done
            if kind == "savepoint"
        }

    @cached_property
    def planned(self) -> dict[tuple[str, str], str]:
        """The oldest slice that a pending compaction reads, by group."""
        found: dict[tuple[str, str], str] = {}
        for time, action in self.pending.items():
            if action == "compaction":
                body = (self.root / ".hoodie/timeline" / f"{time}.compaction.requested").read_bytes()
                for one in self.records(body)["operations"]:
                    key = (one["partitionPath"], one["fileId"])
                    start = one["baseInstantTime"] or ""
                    found[key] = min(start, found.get(key, start))
        return found

    def floor(self) -> str:
        """The earliest instant that the cleans before retained."""
        newest = sorted((done, time) for (time, kind), done in self.done.items() if kind == "clean")[::-1][:3]
        said = [self.records(self.body(time, "clean"))["earliestCommitToRetain"] or "" for _, time in newest]
        return said[0] if said and said[0] else max(said, default="")

    def wanted(self, policy: str, retain: int, now_ms: int) -> str:
        """The earliest instant that the policy alone retains."""
        writes = [*self.writes]
        if policy == "commits":
            return writes[-retain] if len(writes) > retain else ""
        return next((one for one in writes if ms_of(one) >= now_ms - retain * HOUR_MS), writes[-1])

    def earliest(self, wanted: str, now_ms: int) -> str:
        """The earliest instant that a clean retains beside pending instants and holds."""
        found = wanted
        for time, action in self.pending.items():
            if action != "clean" and wanted and time <= wanted:
                found = min(found, max((one for one in self.writes if one < time), default=""))
        for hold in self.holds:
            if hold["until_ms"] > now_ms and wanted and hold["instant"] < wanted:
                found = min(found, max((one for one in self.writes if one <= hold["instant"]), default=""))
        return max(found, self.floor())

    def is_kept(self, one: OldSlice, path: str, now_ms: int) -> bool:
        """Whether a savepoint, a plan or a hold needs a file of an old slice."""
        first = max(one.instant, one.files[path][1])
        return (
            any(path in named or first <= time < one.superseded for time, named in self.savepoints.items())
            or (one.key in self.planned and one.instant >= self.planned[one.key])
            or any(hold["until_ms"] > now_ms and hold["instant"] < one.superseded for hold in self.holds)
        )


@dataclass
class SlowJudged:
    """Old files as a clean judges them: (slice, size) of those to delete, and bytes of those kept beyond the policy."""

    table: SlowTable
    policy: str
    retain: int
    deleted: list[tuple[OldSlice, int]]
    kept: int


def slow_judged(path: str, now_ms: int) -> SlowJudged:
    """Judge the files of a table at a time by its own policy."""
    table = SlowTable(path)
    policy = table.kept["clean"].get("policy", "commits")
    retain = int(table.kept["clean"].get("retain") or {"commits": 10, "hours": 24, "versions": 3}[policy])
    wanted = table.wanted(policy, retain, now_ms) if policy != "versions" else ""
    earliest = table.earliest(wanted, now_ms)
    found = SlowJudged(table, policy, retain, [], 0)
    for one in table.old_slices():
        if policy == "versions":
            drops = is_below = bool(one.replaced) or len(one.later) >= retain
        else:
            drops, is_below = one.superseded < max(wanted, table.floor()), one.superseded < earliest
        for file, (size, _) in one.files.items():
            if drops and is_below and not table.is_kept(one, file, now_ms):
                found.deleted.append((one, size))
            elif drops:
                found.kept += size
    return found
