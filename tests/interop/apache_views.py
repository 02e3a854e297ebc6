"""Ask Apache Hudi for the file-system view of a table, and compare it with ours.

Equal are: the merged slices of a snapshot read and `newest_slices(view)`; those before or on an instant and
`newest_slices(view, as_of)`; the replaced groups that have files, and those replaced until an instant. Three things differ:

- Slices that are not merged begin at a pending compaction. Of such a group Apache Hudi shows the log files whose writers completed
  after the plan, and no base file. They are compared with this part of our slice.
- Apache Hudi's slices before or on an instant have base files up to it and all log files upon these; its readers leave out the
  blocks of later writers. Our slices leave out the files. The later log files are dropped before the slices are compared.
- A writer that was requested before a compaction's plan and completed after it: as of this writer, our slice holds its log file
  upon the base file below, Apache Hudi leaves it out. `test_view.py` has a test of that; the histories have no such writer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hudi_ops.files.names import parse_data_file, writer_of_child_log
from hudi_ops.timeline.active import Timeline
from hudi_ops.view.columns.slices import newest_slices
from hudi_ops.view.columns.table_view import View
from tests.interop.apache_hudi import HudiPeer

Group = tuple[str, str]
"""Partition path and file id."""


class Shown(NamedTuple):
    """A slice by the names of its files, log files sorted; without a base file its instant is that of the first log file."""

    partition: str
    file_id: str
    base_instant: str
    base: str | None
    logs: tuple[str, ...]


def ask(peer: HudiPeer, path: Path, view: View, instants: Sequence[str], *, metadata: bool) -> Mapping[str, Any]:
    """Return what Apache Hudi shows of all partitions: those that our view has, and those that have a folder."""
    folders = {str(file.parent.relative_to(path)) for file in path.glob("*/.hoodie_partition_metadata")}
    partitions = sorted(folders | {*view.files.partitions})
    said: Mapping[str, Any] = peer.call(
        "view", path=str(path), partitions=partitions, before=list(instants), metadata=metadata
    )
    return said


def assert_equal_views(view: View, peer: HudiPeer, path: Path, instants: Sequence[str], *, metadata: bool) -> None:
    """Compare our view with Apache Hudi's, which lists by the metadata table or not: newest, and as of instants."""
    said = ask(peer, path, view, instants, metadata=metadata)
    plans = {(partition, file_id): plan for partition, file_id, plan in said["compacting"]}
    held = _groups_with_files(view)
    for instant in (None, *instants):
        shown, where = (said, "newest") if instant is None else (said["before"][instant], f"as of {instant}")
        ours = our_slices(view, instant)
        assert _with_files(their_slices(shown["merged"], instant)) == ours, where
        theirs = their_slices(shown["slices"], instant)
        begun = {group for group, plan in plans.items() if group in theirs and theirs[group].base_instant == plan}
        parts = {key: _since(one, plans[key], view.timeline) if key in begun else one for key, one in ours.items()}
        assert _with_files(theirs) == _with_files(parts), f"not merged, {where}"
        replaced = {group for group, by in view.replaced.items() if instant is None or by <= instant}
        assert {tuple(group) for group in shown["replaced"]} == held & replaced, f"replaced groups, {where}"


def our_slices(view: View, instant: str | None = None) -> dict[Group, Shown]:
    """Return the newest slices of our view by group, or those as of an instant."""
    found = {}
    for one in newest_slices(view, instant).objects():
        logs = tuple(sorted(log.name for log in one.logs))
        first = one.base.instant if one.base is not None else min(log.instant for log in one.logs)
        found[one.key] = Shown(*one.key, first, one.base.name if one.base is not None else None, logs)
    return found


def their_slices(said: Iterable[Sequence[Any]], instant: str | None = None) -> dict[Group, Shown]:
    """Return Apache Hudi's slices by group, as of an instant without log files of later writers."""
    found: dict[Group, Shown] = {}
    for partition, file_id, base_instant, base, logs in said:
        assert (partition, file_id) not in found, "a group has one newest slice"
        kept = tuple(log for log in logs if instant is None or _writer(log) <= instant)
        found[partition, file_id] = Shown(partition, file_id, base_instant, base, kept)
    return found


def _with_files(slices: Mapping[Group, Shown]) -> dict[Group, Shown]:
    return {group: one for group, one in slices.items() if one.base is not None or one.logs}


def _since(slice_: Shown, plan: str, timeline: Timeline) -> Shown:
    """Return the part of a slice whose writers completed after the plan of a compaction."""
    writers = {log: timeline.find(_writer(log)) for log in slice_.logs}
    logs = tuple(log for log, one in writers.items() if one is not None and one.completion_time > plan)
    return slice_._replace(base_instant=plan, base=None, logs=logs)


def _writer(log: str) -> str:
    """Return the request time of a log file's writer: the token tells that of ours in a child group of a resize."""
    parsed = parse_data_file(log)
    assert parsed is not None
    return writer_of_child_log(parsed) or parsed.instant


def _groups_with_files(view: View) -> set[Group]:
    paths = [view.files.partitions[at] for at in view.files.partition_of.tolist()]
    return {*zip(paths, view.files.rows["file_id"].to_pylist(), strict=True)}
