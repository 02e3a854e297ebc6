"""`hudi-ops ring`: the hash rings of a table, and the children of pending resizes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from hudi_ops.cli.arguments import JsonOption, TableArgument, locate, storage_of
from hudi_ops.cli.output import counted, sized, write, write_json, write_table
from hudi_ops.cli.progress import working

if TYPE_CHECKING:
    from hudi_ops.services.inspect.rings import ChildView, NodeView, RingView

ROWS_MAX = 40
"""Rows of each table without --all."""

_HASHES = 1 << 31

RING_HELP = """Show the hash rings of a table: versions, nodes, sizes, and the children of pending resizes.

First one line for each partition, then one for each node: its hashes, its file group, and what a pending resize makes of it. Of
many nodes those of pending resizes and the largest others are shown; --all shows every node, and so does --json. PARTITION is a
path or a pattern; a table without partitions has none. Nothing is changed, and no lock is taken.

\b
hudi-ops ring flights
hudi-ops ring flights 'origin=J*' --all
hudi-ops ring flights origin=JFK --json
"""


def ring(
    table: TableArgument,
    partition: Annotated[
        str | None,
        typer.Argument(metavar="[PARTITION]", help="A path such as origin=JFK, or a pattern.", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every partition and every node.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the hash rings of a table."""
    from hudi_ops.services.inspect.rings import describe_rings

    location = locate(table)
    with working(f"reading the hash rings of {location.name}"):
        rings = describe_rings(storage_of(location), () if partition is None else (partition,))
    if as_json:
        write_json({"table": location.name, "rings": [one.as_dict() for one in rings]})
        return
    if not rings:
        write(f"{location.name} has no hash ring yet: the first write to a partition makes it")
        return
    _tell_partitions(location.name, rings, every=every)
    write("")
    _tell_nodes(rings, every=every)


def _tell_partitions(table: str, rings: list[RingView], *, every: bool) -> None:
    nodes = counted(sum(len(one.nodes) for one in rings), "node")
    plans = sorted({child.instant for one in rings for child in one.pending})
    pending = f"; pending resize {', '.join(plans)}" if plans else ""
    write(
        f"{table}: {counted(len(rings), 'hash ring')}, {nodes}, {sized(sum(one.total_bytes for one in rings))}{pending}"
    )
    shown = rings if every else sorted(rings, key=lambda one: not one.pending)[:ROWS_MAX]
    head = ["partition", "nodes", "at first", "changes", "ring of", "size", "smallest", "largest", "pending children"]
    write_table(head, list(map(_summary, shown)))
    _tell_more(len(rings) - len(shown), "partition")


def _summary(one: RingView) -> list[object]:
    sizes = [node.total_bytes for node in one.nodes]
    counts = [len(one.nodes), one.buckets, one.seq_no]
    made = one.instant if one.seq_no else "first write"
    return [
        one.partition_path or ".",
        *counts,
        made,
        *map(sized, (sum(sizes), min(sizes), max(sizes))),
        len(one.pending),
    ]


def _tell_nodes(rings: list[RingView], *, every: bool) -> None:
    """Print the nodes with their pending children; of many the most important."""
    groups = [(node.total_bytes, rows) for one in rings for node, rows in _rows(one)]
    shown = list(range(len(groups)))
    if not every and len(groups) > ROWS_MAX:
        # A node with children has more than one row.
        ranked = sorted(shown, key=lambda at: (len(groups[at][1]) == 1, -groups[at][0]))
        shown = sorted(ranked[:ROWS_MAX])
    head = ["partition", "hashes", "share", "file group", "base size", "logs", "log size", "pending resize"]
    write_table(head, [row for at in shown for row in groups[at][1]])
    _tell_more(len(groups) - len(shown), "node")


def _rows(one: RingView) -> Iterator[tuple[NodeView, list[list[object]]]]:
    """Yield each node with its row, and those of the pending children whose values lie in it."""
    path = one.partition_path or "."
    replaced = {parent: child.instant for child in one.pending for parent in child.parents}
    children: list[list[ChildView]] = [[] for _ in one.nodes]
    values = [node.value for node in one.nodes]
    for child in one.pending:
        children[bisect_left(values, child.value) % len(values)].append(child)
    for node, own in zip(one.nodes, children, strict=True):
        start = (node.above + 1) % _HASHES
        hashes, share = f"{start} to {node.value}", f"{node.hashes / _HASHES:.2%}"
        base = sized(node.base_bytes) if node.base_bytes is not None else "none"
        plan = f"replaced by {replaced[node.file_id]}" if node.file_id in replaced else ""
        rows: list[list[object]] = [
            [path, hashes, share, node.file_id, base, node.log_files, sized(node.log_bytes), plan]
        ]
        for child in own:
            logs: list[object] = [child.log_files, sized(child.log_bytes)]
            plan = f"child of {child.instant}"
            if child.file_id is None:
                logs, plan = ["", ""], f"removed by {child.instant}"
            rows.append([path, f"… to {child.value}", "", child.file_id or "none", "", *logs, plan])
        yield node, rows


def _tell_more(count: int, noun: str) -> None:
    if count:
        write(f"… and {counted(count, f'more {noun}')}; --all shows them")
