"""Random histories of a table of file groups: its files with their facts, and the change from one moment to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

import pyarrow as pa

from hudi_ops.files.statistics.statistics import ColumnRange, FileStatistics
from hudi_ops.metadata.index_kind import KeysAt, TableChange, TableContent, WrittenFiles
from hudi_ops.metadata.records.file_lists import FileChanges
from hudi_ops.timeline.names import instant_of_ms

PATHS = ("", "p=1", "p=ä")
TYPES = {"id": pa.string(), "value": pa.int64()}
SECONDARY = "secondary_index_value"
START_MS = 1_900_000_000_000
GroupName = tuple[str, str]
"""Partition path and file id."""
Rows = dict[str, int | None]
"""Values by key."""


@dataclass(frozen=True)
class Group:
    """A file group: names of the files of its newest slice, moment of their base file, and rows."""

    names: tuple[str, ...]
    instant_ms: int
    rows: Rows


@dataclass(frozen=True)
class Moment:
    """A table at one moment; `facts` are by partition path and name, superseded files among them until they are removed."""

    facts: Mapping[tuple[str, str], FileStatistics] = field(default_factory=dict)
    groups: Mapping[GroupName, Group] = field(default_factory=dict)
    paths: frozenset[str] = frozenset()

    @property
    def files(self) -> dict[str, dict[str, int]]:
        """Sizes by partition path and name; a partition stays when it has no more files."""
        found: dict[str, dict[str, int]] = {path: {} for path in self.paths}
        for (path, name), stat in self.facts.items():
            found[path][name] = stat.size_bytes
        return found

    @property
    def superseded(self) -> list[tuple[str, str]]:
        """Files of no newest slice."""
        live = {(path, name) for (path, _), group in self.groups.items() for name in group.names}
        return sorted(self.facts.keys() - live)

    @property
    def keys(self) -> set[str]:
        """Keys of all groups; no two groups share one."""
        return {key for group in self.groups.values() for key in group.rows}

    def content(self) -> TableContent:
        """All of the table, as a build reads it."""
        facts = [replace(stat, added=None, removed=None) for stat in self.facts.values()]
        return TableContent(
            self.files,
            facts,
            [_keys_at(name, group, group.rows, _entries(group.rows)) for name, group in self.groups.items()],
        )

    def without(self, files: Iterable[tuple[str, str]]) -> Moment:
        """The table after files are removed."""
        gone = set(files)
        return replace(self, facts={place: stat for place, stat in self.facts.items() if place not in gone})

    def emptied(self) -> Moment:
        """The table after all its files and groups are removed."""
        return Moment(paths=self.paths)


def change_between(before: Moment, after: Moment) -> TableChange:
    """The change that a build catches up with: it compares files, and the keys of groups that changed."""
    files = {}
    old, new = before.files, after.files
    for path in new:
        had, has = old.get(path, {}), new[path]
        if had != has:
            added = {name: size for name, size in has.items() if name not in had}
            files[path] = FileChanges(added, sorted(had.keys() - has.keys()))
    facts = [
        replace(after.facts[place], added=None, removed=None)
        for place in sorted(after.facts.keys() - before.facts.keys())
    ]
    keys: list[KeysAt] = []
    gone: list[str] = []
    gone_entries: set[str] = set()
    for name in sorted(before.groups.keys() | after.groups.keys()):
        left, group = before.groups.get(name), after.groups.get(name)
        had_rows, has_rows = left.rows if left else {}, group.rows if group else {}
        gone += [key for key in had_rows if key not in has_rows]
        had, has = set(_entries(had_rows)), set(_entries(has_rows))
        gone_entries |= had - has
        if group is not None and group != left:
            keys.append(_keys_at(name, group, [key for key in has_rows if key not in had_rows], has - had))
    return TableChange(files, facts, keys, pa.array(gone, pa.string()), _by_index(gone_entries))


def _keys_at(name: GroupName, group: Group, keys: Iterable[str], entries: Iterable[str]) -> KeysAt:
    return KeysAt(*name, group.instant_ms, pa.array(list(keys), pa.string()), _by_index(entries))


def _entries(rows: Rows) -> list[str]:
    """Entries of the secondary index: value and key, as the format has them."""
    return [f"{chr(0) if value is None else value}${key}" for key, value in rows.items()]


def _by_index(entries: Iterable[str]) -> dict[str, pa.Array]:
    return {SECONDARY: pa.array(sorted(entries), pa.string())}


class History:
    """Makes the steps of one random history, each at a later moment."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._steps = 0

    @property
    def _now_ms(self) -> int:
        return START_MS + self._steps * 1000

    def moments(self, steps: int) -> list[Moment]:
        """An empty table, then the table after each step."""
        found = [Moment()]
        for _ in range(steps):
            step = self.random.choice((self.write, self.write, self.replace, self.clean))
            after = step(found[-1])
            found.append(after[0] if isinstance(after, tuple) else after)
        return found

    def write(self, before: Moment) -> tuple[Moment, WrittenFiles]:
        """Add, change, remove and move rows of some groups; each gets a new base file or a log file."""
        self._steps += 1
        held = sorted(before.groups)
        touched = self.random.sample(held, min(len(held), self.random.randrange(1, 4)))
        touched += [self._new_group() for _ in range(self.random.choice((0, 1, 1, 2)) or not touched)]
        rows: dict[GroupName, Rows] = {
            name: dict(before.groups[name].rows) if name in before.groups else {} for name in touched
        }
        for _ in range(self.random.randrange(1, 9)):
            self._change_row(rows)
        for number, name in enumerate(touched):
            rows[name].setdefault(f"k{self._steps:03d}-{number}", self._value())  # no file is empty
        return self._written(before, {**before.groups}, rows, ())

    def replace(self, before: Moment) -> tuple[Moment, WrittenFiles]:
        """Hide some groups, and write some of their keys anew into another; their files stay until they are removed."""
        self._steps += 1
        held = sorted(before.groups)
        hidden = self.random.sample(held, min(len(held), self.random.randrange(1, 3)))
        keys = [key for name in hidden for key in before.groups[name].rows]
        again = self.random.sample(keys, self.random.randrange(len(keys) + 1))
        rows: dict[GroupName, Rows] = {self._new_group(): dict.fromkeys([*again, f"k{self._steps:03d}"], self._value())}
        left = {name: group for name, group in before.groups.items() if name not in hidden}
        return self._written(before, left, rows, keys)

    def clean(self, before: Moment) -> Moment:
        """Remove some superseded files."""
        files = before.superseded
        return before.without(self.random.sample(files, self.random.randint(min(1, len(files)), len(files))))

    def _value(self) -> int | None:
        return self.random.choice((None, *range(-40, 40)))

    def _new_group(self) -> GroupName:
        number = self.random.getrandbits(48)
        return self.random.choice(PATHS), f"00000000-0000-4000-8000-{number:012x}-0"

    def _change_row(self, rows: dict[GroupName, Rows]) -> None:
        name, other = self.random.choice(list(rows)), self.random.choice(list(rows))
        if not rows[name] or self.random.random() < 0.4:
            rows[name][f"k{self._steps:03d}-{self.random.getrandbits(32):08x}"] = self._value()
            return
        key = self.random.choice(sorted(rows[name]))
        kind = self.random.choice(("change", "remove", "move"))
        if kind == "change":
            rows[name][key] = self._value()
        elif kind == "remove":
            del rows[name][key]
        else:
            rows[other][key] = rows[name].pop(key)

    def _written(
        self, before: Moment, groups: dict[GroupName, Group], rows: Mapping[GroupName, Rows], hidden: Iterable[str]
    ) -> tuple[Moment, WrittenFiles]:
        facts = []
        for name, content in rows.items():
            held = groups.get(name)
            stat = self._file(name, held, content)
            facts.append(stat)
            names = (*held.names, stat.name) if held is not None and stat.is_log else (stat.name,)
            instant_ms = held.instant_ms if held is not None and stat.is_log else self._now_ms
            groups[name] = Group(names, instant_ms, content)
        places = {(stat.partition_path, stat.name): stat for stat in facts}
        after = Moment({**before.facts, **places}, groups, before.paths | {stat.partition_path for stat in facts})
        added: dict[str, dict[str, int]] = {}
        for stat in facts:
            added.setdefault(stat.partition_path, {})[stat.name] = stat.size_bytes
        files = {path: FileChanges(names) for path, names in added.items()}
        keys = pa.array(list(hidden), pa.string())
        had, has = (
            {entry for group in one.groups.values() for entry in _entries(group.rows)} for one in (before, after)
        )
        entries = {SECONDARY: (pa.array(sorted(has - had)), pa.array(sorted(had - has)))}
        return after, WrittenFiles(files, facts, self._now_ms, hidden=keys if len(keys) else None, entries=entries)

    def _file(self, name: GroupName, held: Group | None, rows: Rows) -> FileStatistics:
        path, file_id = name
        old = held.rows if held is not None else {}
        removed = [key for key in old if key not in rows]
        instant = instant_of_ms(self._now_ms)
        is_log = held is not None and not removed and self.random.random() < 0.5
        told = {key: value for key, value in rows.items() if old.get(key, "none") != value} if is_log else rows
        if is_log and not told:
            is_log, told = False, rows
        file = f".{file_id}_{instant}.log.1_0-0-0" if is_log else f"{file_id}_0-0-0_{instant}.parquet"
        return FileStatistics(
            f"{path}/{file}" if path else file,
            path,
            file_id,
            self.random.randrange(1, 1 << 40),
            is_log,
            (_range("id", list(told)), _range("value", list(told.values()))),
            None if is_log else f"filter of {file}",
            pa.array([key for key in rows if key not in old], pa.string()),
            pa.array(removed, pa.string()),
        )


def _range(column: str, values: list[str | int | None] | list[str] | list[int | None]) -> ColumnRange:
    found = sorted(value for value in values if value is not None)
    ends = (found[0], found[-1]) if found else (None, None)
    least, greatest = (pa.array([end], TYPES[column]) for end in ends)
    return ColumnRange(column, least, greatest, len(values) - len(found), len(values))
