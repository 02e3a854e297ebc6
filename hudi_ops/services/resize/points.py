"""Find the hash at which a bucket is split.

Rows of equal hash stay together. So a bucket is split only if each side gets a hash, and by its keys only if each side gets rows.
"""

from __future__ import annotations

import importlib
import operator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from hudi_ops.engine.stopping import check_stop
from hudi_ops.errors import InvalidRequest
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.files.log.visible_blocks import BlockInstants
from hudi_ops.files.slice.file_scan import FileScan, FileTask
from hudi_ops.files.slice.slice_scan import SliceScan, SliceTask
from hudi_ops.formats.large_arrays import joined
from hudi_ops.index.bucket_engine import Hashes, RingEngine
from hudi_ops.index.ring import HASHES, TOP, is_inside, middle_between
from hudi_ops.storage.protocol import Storage
from hudi_ops.view.slices import Slice


@runtime_checkable
class SplitPoint(Protocol):
    """Rule for splitting a bucket; picklable. A class of a user's needs no argument to be made."""

    @property
    def reads_keys(self) -> bool:
        """Return whether the hashes of the bucket's keys are read; else none are given."""
        ...

    def point(self, before: int, value: int, hashes: Hashes) -> int | None:
        """Return the highest hash of the first half; None: the bucket is not split.

        The bucket holds the hashes above `before`, up to `value`: around the end of the ring if `value` is not above `before`.
        """
        ...


@dataclass(frozen=True)
class Middle:
    """Middle of the range, as Apache Hudi has it."""

    reads_keys: bool = False

    def point(self, before: int, value: int, hashes: Hashes) -> int | None:
        """Return the middle; None for a range of one hash."""
        found = middle_between(before, value)
        return found if is_inside(before, value, found) else None


@dataclass(frozen=True)
class Half:
    """Half of a dyadic range, so that both halves are dyadic; the middle of any other range.

    Apache Hudi's middle of the first and of the last node lies one hash beside the half.
    """

    reads_keys: bool = False

    def point(self, before: int, value: int, hashes: Hashes) -> int | None:
        """Return the half; None for a range that has none."""
        start, width = dyadic_range(before, value)
        if not is_dyadic(start, width):
            return Middle().point(before, value, hashes)
        found = start + width // 2
        return found if width > 1 and is_inside(before, value, found) else None


@dataclass(frozen=True)
class Balanced:
    """Hash nearest to the median of the keys."""

    reads_keys: bool = True

    def point(self, before: int, value: int, hashes: Hashes) -> int | None:
        """Return the hash; None if there are no keys, or all have one hash."""
        if not len(hashes):
            return None
        # Distances from the begin of the range have the order of the ring, around its end too.
        places = (hashes.astype(np.int64) - (before + 1)) % HASHES
        median = np.partition(places, len(places) // 2)[len(places) // 2]
        below, upto = int(np.count_nonzero(places < median)), int(np.count_nonzero(places <= median))
        if upto < len(places) and upto - len(places) / 2 <= len(places) / 2 - below:
            return int(median + before + 1) & TOP
        return int(places[places < median].max() + before + 1) & TOP if below else None


_POINTS: dict[str, type[Middle | Balanced]] = {"middle": Middle, "balanced": Balanced}


def dyadic_range(before: int, value: int) -> tuple[int, int]:
    """Return begin and width of a range; if it is dyadic, its ends are multiples of the width.

    The highest hash counts both as the end of the ring and as its begin.
    """
    start = 0 if before == TOP else before
    return start, (HASHES if value == TOP else value) - start


def is_dyadic(start: int, width: int) -> bool:
    """Return whether a range is a half, a quarter, an eighth … of the ring."""
    return width > 0 and not width & (width - 1) and start % width == 0


def split_point_of(name: str | None, *, is_extendible: bool) -> SplitPoint:
    """Return the split point of a name or `module:Class`; None: the default of the engine.

    Raises:
        InvalidRequest: the class cannot be made or is no split point, or the ranges of the ring would not stay halves of others.
    """
    if is_extendible:
        if name not in {None, "middle"}:
            raise InvalidRequest(
                f"an extendible hash ring cannot be split at {name}",
                expected="split_point middle: its ranges are halves of others",
                found=str(name),
                next_step="leave split_point out",
                field="split_point",
            )
        return Half()
    module, colon, class_name = (name or "balanced").partition(":")
    try:
        made = getattr(importlib.import_module(module), class_name)() if colon else _POINTS[module]()
    except (ImportError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(
            f"the split point {name} cannot be made: {error}",
            expected=f"{', '.join(_POINTS)}, or an importable class whose constructor needs nothing",
            found=str(name),
            next_step="check the import path, and PYTHONPATH of the process that plans",
            field="split_point",
        ) from error
    if not isinstance(made, SplitPoint):
        raise InvalidRequest(
            f"{name} is not a split point",
            expected="a class with reads_keys and point(before, value, hashes)",
            found=repr(made),
            field="split_point",
        )
    return made


@dataclass(frozen=True)
class PointTask:
    """Bucket whose split point is looked for; picklable."""

    rule: SplitPoint
    before: int
    value: int
    storage: Storage
    slice_: Slice
    merging: tuple[MergeRules, BlockInstants]
    engine: RingEngine


def find_point(task: PointTask) -> int | None:
    """Read the hashes of a bucket's keys, without deleted ones, and return its split point.

    Raises:
        InvalidRequest: a class chose a point that is not inside the range.
        Corrupt: a file cannot be read.
        NotFound: a file is gone.
    """
    return checked_point(task.rule, task.before, task.value, _hashes(task))


def checked_point(rule: SplitPoint, before: int, value: int, hashes: Hashes) -> int | None:
    """Return the point of a rule, if it is inside the range.

    Raises:
        InvalidRequest: it is not.
    """
    found = rule.point(before, value, hashes)
    if found is None:
        return None
    try:
        point = operator.index(found)
    except TypeError:
        point = -1
    if not is_inside(before, value, point):
        kind = type(rule)
        raise InvalidRequest(
            f"the split point {kind.__module__}:{kind.__qualname__} chose a point outside the range of a bucket",
            expected=f"a hash above {before} and below {value}, around the end of the ring if the second is the smaller, or None",
            found=repr(found),
            next_step="correct the class, or choose another split point",
            field="split_point",
        )
    return point


NO_HASHES: Hashes = np.empty(0, np.int32)


def _hashes(task: PointTask) -> Hashes:
    if not task.rule.reads_keys:
        return NO_HASHES
    rules = task.merging[0]
    found = [NO_HASHES]
    for batch in _scan(task).batches():
        check_stop()
        keys = rules.keys_of(pa.Table.from_batches([batch]))
        found.append(task.engine.hashes(joined([keys], pa.string())))
    return np.concatenate(found)


def _scan(task: PointTask) -> SliceScan | FileScan:
    source, columns = task.slice_, task.merging[0].key_columns
    if source.logs or source.base is None:
        return SliceScan(SliceTask.of(task.storage, source, *task.merging), streaming=True)
    base = FileTask(task.storage, source.base.path, source.base.size_bytes, columns, tuple(columns.names))
    return FileScan(base, streaming=True)
