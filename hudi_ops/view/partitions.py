"""Choose partitions by names and patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from hudi_ops.config.table import TableConfig
from hudi_ops.errors import InvalidRequest
from hudi_ops.view.slices import is_partitioned

NAMES_SHOWN_MAX = 20


def is_below_table(path: str) -> bool:
    """Return whether a path of a partition leads to no folder outside of its table."""
    return not (path.startswith("/") or "\0" in path or ".." in path.split("/"))


def choose(held: Mapping[str, object], wanted: Sequence[str], config: TableConfig) -> list[str]:
    """Return the sorted paths of partitions that names and patterns select.

    `wanted` are paths below the table's root (`origin=JFK/month=1`), or patterns with `*` and `?`; `*` matches slashes, too. An
    existing path is never read as a pattern.

    Raises:
        InvalidRequest: a name that no partition has, or a table without partitions.
    """
    if not is_partitioned(config):
        raise InvalidRequest(
            "the table has no partitions",
            table=config.name,
            expected="a partitioned table",
            found=", ".join(wanted) or "no partition named",
            next_step="`truncate` empties the whole table",
        )
    shown = sorted(held)[:NAMES_SHOWN_MAX]
    more = f" and {len(held) - len(shown)} more" if len(held) > len(shown) else ""
    there = (", ".join(shown) + more) or "none: the table is empty"
    if not wanted:
        raise InvalidRequest("no partition was named", table=config.name, expected=f"some of: {there}", found="no name")
    chosen: set[str] = set()
    for name in wanted:
        path = name.strip("/")
        found = {path} if path in held else {one for one in held if fnmatchcase(one, path)}
        if not found or not path:
            raise InvalidRequest(
                f"the table has no partition {name!r}",
                table=config.name,
                expected=f"some of: {there}",
                found=name,
                next_step="name partitions by their path, such as origin=JFK; origin=J* names those that begin with origin=J",
                partition=name,
            )
        chosen |= found
    return sorted(chosen)


def plain_paths(wanted: Sequence[str]) -> list[str]:
    """Return the names as sorted paths if none is a pattern or leads out of the table."""
    paths = sorted({name.strip("/") for name in wanted})
    for path in paths:
        is_odd = any(not segment or segment.startswith(".") for segment in path.split("/"))
        if is_odd or any(sign in path for sign in "*?["):
            return []
    return paths
