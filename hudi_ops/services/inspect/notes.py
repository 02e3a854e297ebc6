"""One-line summaries of plans and results of table services."""

from __future__ import annotations

from functools import singledispatch

from hudi_ops.index.resizes import is_resize
from hudi_ops.timeline.content.plans import (
    CleanPlan,
    CleanResult,
    CompactionPlan,
    FilesByPartition,
    IndexPlan,
    ReplacePlan,
    RestorePlan,
    RollbackPlan,
    RolledBack,
    Savepoint,
)


def result_note(said: object) -> str:
    """Return the summary of a result: that of an index build has the form of its plan."""
    return note_of(said).replace("will build ", "built ", 1) if isinstance(said, IndexPlan) else note_of(said)


@singledispatch
def note_of(said: object) -> str:
    """Return the summary of a plan or result; empty for other values."""
    return ""


@note_of.register
def _compaction(said: CompactionPlan) -> str:
    logs = sum(len(slice_.log_files) for slice_ in said.slices)
    partitions = len({slice_.partition_path for slice_ in said.slices})
    return f"merges {logs} log files of {_count(len(said.slices), 'file group')} in {_count(partitions, 'partition')}"


@note_of.register
def _replace(said: ReplacePlan) -> str:
    if not said.groups:
        return ""
    did, what = ("resizes", "bucket") if is_resize(said) else ("rewrites", "file group")
    return f"{did} {_count(len(said.slices), what)} in {_count(len(said.groups), 'group')}"


@note_of.register
def _clean_plan(said: CleanPlan) -> str:
    return f"will delete {_files(said.files)}" + _retained(said.earliest_retained)


@note_of.register
def _clean_result(said: CleanResult) -> str:
    failed = sum(map(len, said.failed.values()))
    return (
        f"deleted {_files(said.files)}"
        + (f", failed on {failed}" if failed else "")
        + _retained(said.earliest_retained)
    )


@note_of.register
def _rollback_plan(said: RollbackPlan) -> str:
    return f"will roll back {said.target_action} {said.target}: {_files(said.files)}"


@note_of.register
def _rolled_back(said: RolledBack) -> str:
    return f"rolled back {', '.join(said.targets)}: {_files(said.files)} deleted"


@note_of.register
def _restore(said: RestorePlan) -> str:
    to = f" to savepoint {said.savepoint}" if said.savepoint else ""
    return f"undoes {_count(len(said.targets), 'instant')}{to}"


@note_of.register
def _savepoint(said: Savepoint) -> str:
    comment = f": {said.comments}" if said.comments else ""
    return f"protects {_files(said.files)}, made by {said.made_by or 'an unnamed user'}{comment}"


@note_of.register
def _index(said: IndexPlan) -> str:
    return "will build " + ", ".join(f"{name} up to {instant}" for name, instant in said.partitions)


def _files(files: FilesByPartition) -> str:
    used = [names for names in files.values() if names]
    return f"{_count(sum(map(len, used)), 'file')} in {_count(len(used), 'partition')}"


def _retained(instant: str) -> str:
    return f"; snapshots from {instant} on stay readable" if instant else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
