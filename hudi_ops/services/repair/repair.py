"""Repair the findings of a verification (docs/protocol §24).

An instant is cancelled in a slot before a file of it is deleted, so that its writer cannot complete it later. What a live process
works on, or one that may be alive, stays and is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from hudi_ops.commit.owned import kinds
from hudi_ops.commit.recover.recover import finish_unfinished
from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.config.requests import IndexRequest
from hudi_ops.errors import HudiOpsError, InvalidRequest
from hudi_ops.services.base.result import Result
from hudi_ops.services.indexing.drop import drop_metadata
from hudi_ops.services.indexing.run import build_indexes
from hudi_ops.services.recovery.attempts import RecoverResult, recover_table
from hudi_ops.services.repair.deletion import (
    delete_inflight,
    delete_orphan,
    delete_owned,
    delete_rollback,
    delete_unknown,
    delete_unnamed,
    forget_markers,
    undo_unowned,
)
from hudi_ops.services.repair.owners import Gone, Left
from hudi_ops.services.repair.rings import delete_ring, renew_ring, seal_ring


class Problem(Protocol):
    """Finding of a verification, as `hudi_ops.verify` makes it."""

    @property
    def invariant(self) -> str:
        """Return what is broken."""
        ...

    @property
    def what(self) -> str:
        """Return what was found."""
        ...

    @property
    def where(self) -> str:
        """Return a path below the table's root, or an instant."""
        ...

    @property
    def next_step(self) -> str:
        """Return what `verify` advises."""
        ...


@dataclass(frozen=True)
class Repair:
    """One finding, and what was done about it.

    `is_done` is False for what stays, and in a dry run; `note` says what was, or would be, done, or why it stays.
    """

    finding: str
    where: str
    is_done: bool
    note: str


@dataclass(frozen=True)
class RepairResult(Result):
    """Result of a repair, one entry for each finding."""

    table: str
    repairs: tuple[Repair, ...]
    dry_run: bool = False
    note: str = ""

    @property
    def left(self) -> tuple[Repair, ...]:
        """Return the findings that stay."""
        return tuple(one for one in self.repairs if not one.is_done)


Work: TypeAlias = Callable[[Session, str, bool], str]
"""Repairs the finding at a place, and returns what was done. The flag states that programs without a heartbeat have ended."""

BY_PLACE: Mapping[str, tuple[str, Work]] = {
    "inflight-without-requested": ("roll the instant back", delete_inflight),
    "rollback-refused": ("delete the rollback: its target has a savepoint", delete_rollback),
    "rollback-orphan": ("cancel the instant, and delete the file", delete_orphan),
    "leftover-visible": ("delete the file: its instant does not name it", delete_unnamed),
    "leftover-unknown": ("cancel the instant, and delete the file", delete_unknown),
    "resize-log-left": ("delete the file: the resize did not make its bucket", delete_unnamed),
    "ring-left": ("delete the ring file: its instant does not count", delete_ring),
    "ring-unsealed": ("put the `.commit` file of the hash ring", seal_ring),
    "ring-replaced": ("renew the hash ring of the empty partition", renew_ring),
    "two-base-files": ("delete the file that its instant does not name", delete_unnamed),
    "pending-unowned": ("roll the write back", undo_unowned),
    "markers-unknown": ("cancel the instant, and delete the files that its markers name", forget_markers),
}
"""Findings that are repaired one place at a time: the repair in words, and the function that does it.

`by_place` adds those of the kinds of `commit/owned/kinds.py`.
"""

BY_RECOVERY = frozenset({
    *("pending-dead", "rollback-pending", "rollback-plan-path", "decided-unfinished", "archived-present"),
    *("markers-left", "lease-left", "sweep-due", "late-file", "cancelled-completed", "voided-completed"),
})
"""What one recovery repairs."""

REBUILT = frozenset({
    *("metadata-behind", "metadata-missing", "metadata-broken", "metadata-files"),
    *("metadata-column-stats", "metadata-partition-stats", "metadata-bloom-filters", "metadata-record-index"),
})
"""What one rebuild of the metadata table repairs."""

BUILT, DROPPED = "metadata-dropped", "metadata-left"


def by_place() -> dict[str, tuple[str, Work]]:
    """Return the findings that are repaired one place at a time, with those of owned files."""
    owned = {one.finding: one for one in kinds.KINDS if one.finding}
    return {
        **BY_PLACE,
        **{
            name: (f"cancel the instant, and delete each {one.name} of it", delete_owned) for name, one in owned.items()
        },
    }


def repairable() -> frozenset[str]:
    """Return every finding that can be repaired."""
    return frozenset({*by_place(), *BY_RECOVERY, *REBUILT, BUILT, DROPPED})


def checked_findings(names: Iterable[str]) -> frozenset[str]:
    """Return the findings to repair; all that can be repaired where none is named.

    Raises:
        InvalidRequest: a name of no such finding.
    """
    wanted = frozenset(names)
    known = repairable()
    for name in sorted(wanted - known):
        raise InvalidRequest(
            f"{name!r} is not a finding that can be repaired",
            expected=", ".join(sorted(known)),
            found=name,
            next_step="follow what `hudi-ops verify TABLE` advises for it by hand",
        )
    return wanted or known


def repair_findings(
    session: Session, problems: Sequence[Problem], *, abandoned: bool = False, dry_run: bool = False
) -> RepairResult:
    """Repair what a verification found, and tell what stays.

    A repair that fails leaves the others: its error is in its note. The same call again goes on.

    Args:
        problems: findings, as `verify` returned them just before.
        abandoned: the caller states that programs of Apache Hudi without a heartbeat have ended.
        dry_run: tell what would be done; change nothing.

    Raises:
        Unsupported: the table cannot be written.
    """
    state = session.loader.load() if dry_run else finish_unfinished(session)
    refuse_unwritable(state.config)
    if dry_run:
        told = (_would(problem) for problem in problems)
        return RepairResult(state.config.name, tuple(told), dry_run=True, note=_note(problems))
    done: list[Repair] = []
    for work, chosen in _grouped(session, problems, abandoned):
        done += _worked(chosen, work)
    session.memory.is_clean = False
    return RepairResult(state.config.name, tuple(done), note=_note(problems))


def _note(problems: Sequence[Problem]) -> str:
    return "" if problems else "nothing to repair"


def _would(problem: Problem) -> Repair:
    """Return what a repair would do about a finding."""
    name = problem.invariant
    if name in (places := by_place()):
        note = places[name][0]
    elif name in BY_RECOVERY:
        note = "recover the table"
    elif name in REBUILT:
        note = "rebuild the metadata table"
    elif name in {BUILT, DROPPED}:
        note = "build what was dropped" if name == BUILT else "delete the folder of the metadata table"
    else:
        return _stays(problem)
    return Repair(name, problem.where, is_done=False, note=f"would {note}")


def _grouped(
    session: Session, problems: Sequence[Problem], abandoned: bool
) -> Iterable[tuple[Callable[[Problem], str], list[Problem]]]:
    """Yield the work and its findings: recovery first, single places, then the metadata table."""
    recovered: list[RecoverResult] = []

    def recover(problem: Problem) -> str:
        if not recovered:
            recovered.append(recover_table(session, abandoned=abandoned))
        for one in recovered[0].left:
            if one.instant in problem.where:
                raise Left(f"{one.instant} stays: {one.reason}")
        return "recovered the table"

    def place(problem: Problem) -> str:
        return places[problem.invariant][1](session, problem.where, abandoned)

    def rebuild(problem: Problem) -> str:
        if not rebuilt:
            rebuilt.extend(build_indexes(session, IndexRequest(rebuild=True)).partitions)
        return f"built anew: {', '.join(rebuilt)}"

    def drop(problem: Problem) -> str:
        return f"deleted {drop_metadata(session).files} files"

    def build(problem: Problem) -> str:
        return f"built: {', '.join(build_indexes(session).partitions)}"

    rebuilt, places = list[str](), by_place()
    by_name: dict[str, list[Problem]] = {}
    for problem in problems:
        by_name.setdefault(problem.invariant, []).append(problem)
    for work, names in (
        (recover, sorted(BY_RECOVERY)),
        (place, list(places)),
        (drop, [DROPPED]),
        (rebuild, sorted(REBUILT)),
        (build, [BUILT]),
    ):
        for name in names:
            if name in by_name:
                yield work, by_name.pop(name)
    for others in by_name.values():
        yield _refuse, others


def _refuse(problem: Problem) -> str:
    raise Left(_stays(problem).note)


def _stays(problem: Problem) -> Repair:
    return Repair(problem.invariant, problem.where, is_done=False, note=f"by hand: {problem.next_step or problem.what}")


def _worked(problems: Sequence[Problem], work: Callable[[Problem], str]) -> Iterable[Repair]:
    for problem in problems:
        found = Repair(problem.invariant, problem.where, is_done=True, note="")
        try:
            yield replace(found, note=work(problem))
        except Gone as gone:
            yield replace(found, note=str(gone))
        except Left as left:
            yield replace(found, is_done=False, note=str(left))
        except HudiOpsError as error:
            yield replace(found, is_done=False, note=f"{error.what}; {error.next_step}")
