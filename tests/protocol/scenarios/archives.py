"""The product's archiver as an actor, beside writers and the dead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hudi_ops.commit.session import Session
from hudi_ops.config.requests import ArchiveRequest
from hudi_ops.context import TableContext
from hudi_ops.services.archive.run import archive
from hudi_ops.storage.memory import MemoryStorage
from tests.protocol.scenarios.actors import Landed, Writes
from tests.protocol.scenarios.cases import EVERYTHING, Case
from tests.protocol.scenarios.check import Oracle
from tests.protocol.scenarios.worlds import Job, small_table
from tests.tables import NOW_MS

REQUEST = ArchiveRequest(keep_min=1, keep_max=1)


@dataclass(frozen=True)
class ArchivesOld:
    """Archives all completed writes but the newest."""

    def __call__(self, ctx: TableContext) -> str | None:
        """Do it, once."""
        return archive(Session(ctx), REQUEST).boundary


@dataclass(frozen=True)
class WritesThenArchives:
    """Writes, then archives all but the newest write: also another's whose applier sleeps."""

    job: Job

    def __call__(self, ctx: TableContext) -> Landed:
        """Do both."""
        landed = Writes(self.job)(ctx)
        ArchivesOld()(ctx)
        return landed


def of_archivers(
    name: str,
    runs: Mapping[str, Callable[[TableContext], object]],
    jobs: Mapping[str, Job],
    base: Callable[[], MemoryStorage] = small_table,
    start_ms: int = NOW_MS,
) -> Case:
    """Actors of which some archive; all is archived once more before it is judged."""
    return Case(
        name, runs, Oracle(dict(jobs), finish=(ArchivesOld(),)), base=base, troubles=EVERYTHING, start_ms=start_ms
    )
