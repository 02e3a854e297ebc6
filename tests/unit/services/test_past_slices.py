"""Slices of file groups on columns equal those of a loop, for random files, late completions and replaced groups."""

from __future__ import annotations

import random
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

from hudi_ops.services.clean.history import PastSlice, slices_of
from hudi_ops.services.clean.judging import deleted_by
from hudi_ops.services.clean.keepers import HOLD, PENDING, SAVEPOINT, Keepers
from hudi_ops.services.clean.policy import Policy
from hudi_ops.view.columns.files import FileColumns, none_of
from hudi_ops.view.columns.table_view import View
from tests.bounds import bound


def instant(number: int) -> str:
    return f"2030010100{number:07d}"


class Plan(NamedTuple):
    time: str
    action: str = "compaction"


class Times:
    """Completion times of log files: some completed after later base files were requested."""

    def __init__(self, chance: random.Random, times: int) -> None:
        self.of = {instant(n): instant(n + chance.choice([0, 0, 0, 1, 3])) for n in range(times)}
        self.of[instant(0)] = ""  # unknown: upon the newest slice

    def completed(self, logs: Iterable[str]) -> dict[str, str]:
        return {log: self.of[log] for log in logs}


def random_view(chance: random.Random, times: int) -> View:
    names: dict[str, dict[str, int]] = {}
    for group in range(chance.randrange(1, 8)):
        held = names.setdefault(f"p{group % 3}", {})
        for number in range(times):
            file_id = f"0000000{group}-0000-0000-0000-000000000000-0"
            if chance.random() < 0.4:
                held[f"{file_id}_0-1-0_{instant(number)}.parquet"] = chance.randrange(1, 99)
            if chance.random() < 0.4:
                held[f".{file_id}_{instant(number)}.log.1_0-1-0"] = chance.randrange(1, 99)
    listed: Any = {
        path: [SimpleNamespace(name=name, size_bytes=size) for name, size in held.items()]
        for path, held in names.items()
    }
    files = FileColumns.of_files(listed)
    groups = sorted({(file.partition_path, file.file_id) for file in files.data_files()})
    replaced = {group: instant(chance.randrange(times + 3)) for group in groups if chance.random() < 0.2}
    config: Any = None
    return View(config, config, config, files, replaced, none_of())


def slow_slices(view: View, times: Times) -> list[PastSlice]:
    groups: dict[tuple[str, str], list[Any]] = {}
    for file in view.files.data_files():
        groups.setdefault((file.partition_path, file.file_id), []).append(file)
    found = []
    for key, files in groups.items():
        starts = sorted({file.instant for file in files if not file.is_log})
        slices: dict[str, list[Any]] = {start: [] for start in starts}
        for file in files:
            until = max(file.instant, times.of[file.instant] or instant(9_999)) if file.is_log else file.instant
            slices.setdefault(max((start for start in starts if start <= until), default=""), []).append(file)
        order = sorted(slices)
        for at, start in enumerate(order):
            ends = [time for time in (*order[at + 1 : at + 2], view.replaced.get(key, "")) if time]
            own = tuple(sorted(slices[start], key=lambda file: (file.is_log, file.path)))
            first = start or min(file.instant for file in own)
            age = len(order) - 1 - at
            found.append(PastSlice(*key, first, own, min(ends, default=""), view.replaced.get(key, ""), age))
    return sorted(found, key=lambda one: (one.partition_path, one.file_id, one.instant))


def random_keepers(chance: random.Random, view: View, times: int) -> Keepers:
    paths = view.files.paths().to_pylist()
    named = {instant(at): chance.sample(paths, len(paths) // 5) for at in sorted(chance.sample(range(times), 2))}
    groups = sorted({(file.partition_path, file.file_id) for file in view.files.data_files()})
    plans: Any = {
        Plan(instant(times + n)): {group: instant(chance.randrange(times)) for group in groups[n::3]} for n in range(2)
    }
    holds: Any = [SimpleNamespace(id="h", instant=instant(chance.randrange(times)), why="held")]
    reads = {group: (start, "plan") for starts in plans.values() for group, start in starts.items()}
    savepoints = {path: time for time, held in reversed(named.items()) for path in held}
    kinds = chance.sample(["saved", "plans", "holds"], chance.randrange(3))
    return Keepers(
        **({"savepoints": savepoints, "saved": frozenset(named), "named": named} if "saved" in kinds else {}),
        **({"reads": reads, "plans": plans} if "plans" in kinds else {}),
        **({"holds": holds} if "holds" in kinds else {}),
    )


def test_columns_equal_a_loop_over_groups() -> None:
    seen = dict.fromkeys((SAVEPOINT, PENDING, HOLD, "deleted", "stays"), 0)
    for seed in range(bound(60, 300, 5_000)):
        chance, times = random.Random(seed), 9
        view, lies = random_view(chance, times), Times(chance, times)
        given: Any = lies
        past = slices_of(view, given)
        assert past.all() == slow_slices(view, lies), seed
        keeping = random_keepers(chance, view, times)
        policy = chance.choice([Policy("commits", 1), Policy("versions", 1), Policy("versions", 2)])
        earliest = instant(chance.randrange(times + 3))
        deleted, held = deleted_by(policy, past.columns, earliest, keeping)
        fates = iter(zip(deleted.tolist(), held.tolist(), strict=True))
        for slice_ in past.slices:
            if policy.has_earliest:
                is_dropped = bool(slice_.superseded) and slice_.superseded < earliest
            else:
                is_dropped = bool(slice_.replaced) or slice_.age >= policy.retain
            for file in slice_.files:
                keeper = keeping.keeper_of(slice_, file.path) if is_dropped else None
                assert next(fates) == (is_dropped and keeper is None, keeper is not None), (seed, file)
                seen[keeper[0] if keeper is not None else "deleted" if is_dropped else "stays"] += 1
        assert next(fates, None) is None
    assert min(seen.values()) > 20, seen
