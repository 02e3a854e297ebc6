"""Choose the nodes of one ring to split and to merge, by the sizes of their buckets.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hudi_ops.index.ring import Ring
from hudi_ops.services.resize.points import dyadic_range, is_dyadic

Sizes = Sequence[int | None]
"""Bytes of each node's bucket; None: it has no file group, or may not be changed."""


@dataclass(frozen=True)
class Limits:
    """Sizes and numbers of buckets that a resize keeps to.

    `buckets_max` 0: no limit. In an `is_extendible` ring two nodes merge only if they are the halves of one range.
    """

    split_bytes: int
    merge_bytes: int
    buckets_min: int = 0
    buckets_max: int = 0
    is_extendible: bool = False

    @property
    def merged_max(self) -> int:
        """Return the most bytes of a merged bucket. It must not be split soon."""
        return self.split_bytes // 2


@dataclass(frozen=True)
class NodeChoice:
    """Nodes of a ring by what is done with them, each node once.

    Attributes:
        splits: those that become two, the largest first.
        merges: runs of neighbours that become one: small ones together, and a small one with a neighbour that has room for it.
        at_limit: those that stay because of the limits of the number of buckets.
        alone: small ones whose neighbours have no room for them.
        fitting: those of the wanted size.
    """

    splits: tuple[int, ...] = ()
    merges: tuple[tuple[int, ...], ...] = ()
    at_limit: tuple[int, ...] = ()
    alone: tuple[int, ...] = ()
    fitting: tuple[int, ...] = ()


def choose_nodes(ring: Ring, sizes: Sizes, limits: Limits, unsplittable: Set[int] = frozenset()) -> NodeChoice:
    """Choose the splits and merges of a ring.

    Some groups of the plan may be left out when it completes. So the number of buckets stays within the limits even if only the
    splits, or only the merges, complete.
    """
    count = len(sizes)
    large = [node for node, size in enumerate(sizes) if size is not None and size > limits.split_bytes]
    large = sorted(set(large) - unsplittable, key=lambda node: (-(sizes[node] or 0), node))
    room = max(0, limits.buckets_max - count) if limits.buckets_max else len(large)
    small = [size is not None and size < limits.merge_bytes for size in sizes]
    if limits.is_extendible:
        runs = _buddies(ring, small)
    else:
        runs = _runs(sizes, small, limits.merged_max)
        runs += _joins(sizes, small, {node for run in runs for node in run}, limits.split_bytes)
    merges, held = _limited(runs, count - max(1, limits.buckets_min))
    at_limit = [*large[room:], *held]
    done = {*at_limit, *large[:room], *(node for run in merges for node in run), *unsplittable}
    rest = [node for node, size in enumerate(sizes) if size is not None and node not in done]
    return NodeChoice(
        tuple(large[:room]),
        tuple(merges),
        tuple(at_limit),
        alone=tuple(node for node in rest if small[node]),
        fitting=tuple(node for node in rest if not small[node]),
    )


def _limited(runs: Sequence[tuple[int, ...]], removable: int) -> tuple[list[tuple[int, ...]], list[int]]:
    """Return runs that together remove at most `removable` nodes, and the nodes left over."""
    merges: list[tuple[int, ...]] = []
    held: list[int] = []
    for run in runs:
        kept = run[: removable + 1]
        if len(kept) < 2:
            held += run
            continue
        merges.append(kept)
        held += run[len(kept) :]
        removable -= len(kept) - 1
    return merges, held


def _buddies(ring: Ring, small: Sequence[bool]) -> list[tuple[int, ...]]:
    """Return the pairs of small neighbours that are the halves of one dyadic range."""
    found: list[tuple[int, ...]] = []
    for one, other in pairwise(range(len(small))):
        if not (small[one] and small[other]):
            continue
        start, width = dyadic_range(*ring.range_of(one))
        if dyadic_range(*ring.range_of(other)) == (start + width, width) and is_dyadic(start, 2 * width):
            found.append((one, other))
    return found


def _runs(sizes: Sizes, small: Sequence[bool], most: int) -> list[tuple[int, ...]]:
    """Return runs of small neighbours of at most `most` bytes, around the end of the ring, too."""
    count = len(small)
    begin = next((node + 1 for node in range(count) if not small[node]), 0)
    streaks: list[list[int]] = [[]]
    for node in ((begin + step) % count for step in range(count)):
        if small[node]:
            streaks[-1].append(node)
        else:
            streaks.append([])
    return [run for streak in streaks if len(streak) > 1 for run in _packed(streak, sizes, most)]


def _joins(sizes: Sizes, small: Sequence[bool], taken: Set[int], most: int) -> list[tuple[int, ...]]:
    """Return small nodes without a run, each with its smaller neighbour, up to `most` bytes."""
    count, used = len(sizes), {*taken}
    found: list[tuple[int, ...]] = []
    for node in range(count if count > 1 else 0):
        if not small[node] or node in used:
            continue
        pairs = [(node, (node + 1) % count), ((node - 1) % count, node)]
        free = [pair for pair in pairs if used.isdisjoint(pair) and None not in (sizes[pair[0]], sizes[pair[1]])]
        pair = min(free, key=lambda one: sum(sizes[each] or 0 for each in one), default=None)
        if pair is not None and sum(sizes[each] or 0 for each in pair) <= most:
            found.append(pair)
            used |= {*pair}
    return found


def _packed(streak: Sequence[int], sizes: Sizes, most: int) -> list[tuple[int, ...]]:
    """Cut neighbours into few runs of about equal bytes, so that no small rest stays.

    A node without a run is left out.
    """
    ends = np.cumsum([sizes[node] or 0 for node in streak])
    total = int(ends[-1])
    fewest = max(1, -(-total // max(1, most)))
    for count in (fewest, fewest + 1):
        cuts = np.searchsorted(ends, np.arange(1, count) * total / count) + 1
        bounds = [0, *cuts.tolist(), len(streak)]
        runs = [tuple(streak[low:high]) for low, high in pairwise(bounds)]
        if all(len(run) > 1 and sum(sizes[node] or 0 for node in run) <= most for run in runs):
            return runs
    return _packed_in_order(streak, sizes, most)


def _packed_in_order(streak: Sequence[int], sizes: Sizes, most: int) -> list[tuple[int, ...]]:
    """Cut neighbours into runs that are filled one after the other."""
    runs: list[list[int]] = []
    used = 0
    for node in streak:
        size = sizes[node] or 0
        if not runs or used + size > most:
            runs.append([])
            used = 0
        runs[-1].append(node)
        used += size
    return [tuple(run) for run in runs if len(run) > 1]
