"""Result of archiving, as users get it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hudi_ops.services.archive.rules import Verdict
from hudi_ops.services.base.result import Result


@dataclass(frozen=True)
class ArchiveResult(Result):
    """What an archive run moved, or would move in a dry run.

    Attributes:
        table: its name.
        boundary: newest archived instant of this run; None if none left the timeline.
        instants: number of archived instants.
        batches: number of batches; the lock was taken once for each.
        kept: instants that stay on the timeline.
        stopped_by: why the oldest remaining instant stays.
        merged: new history files of higher levels.
        aborted: records of aborted plans that left the timeline.
        ledgers: removed source ledgers.
        payloads: removed payloads and metadata bundles.
        metadata_instants: instants that left the metadata table's own timeline.
        lock_s: longest time that the lock was held for a batch.
        verdicts: instants with the reasons to stay; only of `explain` and of a dry run.
        measures: those of the table's health that archives mend; only of `explain` and of a dry run.
    """

    table: str
    boundary: str | None
    instants: int = 0
    batches: int = 0
    kept: int = 0
    stopped_by: str = ""
    merged: int = 0
    aborted: int = 0
    ledgers: int = 0
    payloads: int = 0
    metadata_instants: int = 0
    lock_s: float = 0.0
    seconds: float = 0.0
    dry_run: bool = False
    note: str = ""
    verdicts: tuple[Verdict, ...] = ()
    measures: dict[str, float | None] = field(default_factory=dict)
