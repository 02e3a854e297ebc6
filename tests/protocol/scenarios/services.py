"""Table services as actors: the product's clustering, and an archiver that is careless about everything but the protocol."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from hudi_ops.commit.decide.archive_boundary import HistoryFile, archive_boundary
from hudi_ops.commit.recover.recover import recover
from hudi_ops.commit.session import Session
from hudi_ops.config.requests import ClusteringRequest
from hudi_ops.context import TableContext
from hudi_ops.errors import InvalidRequest
from hudi_ops.services.base.execute import execute
from hudi_ops.services.base.plan import plan
from hudi_ops.services.base.service import Execution
from hudi_ops.services.clustering.service import CLUSTERING
from tests.protocol.scenarios.actors import Landed
from tests.protocol.scenarios.worlds import Job

HISTORY = ".hoodie/.scenario_history"


@dataclass(frozen=True)
class Plans:
    """Plans to sort the files of a job's partitions; returns the plan's instant, None without anything to plan."""

    job: Job
    on_overlap: Literal["shrink", "cancel"] = "shrink"
    cancel: str = "never"

    def __call__(self, ctx: TableContext) -> str | None:
        """Do it, once."""
        request = ClusteringRequest(
            sort_by=("id",), rewrite=True, partitions=self.job.paths, on_overlap=self.on_overlap, cancel=self.cancel
        )
        return plan(Session(ctx), CLUSTERING, request).instant


@dataclass(frozen=True)
class Executes:
    """Executes the oldest plan without a live executor, a job's; None when nothing of it completed."""

    job: Job

    def __call__(self, ctx: TableContext) -> Landed | None:
        """Do it, once."""
        result = execute(Session(ctx), CLUSTERING, None, Execution("local"))
        return Landed(result.instant, self.job) if result.completion_time and not result.note else None


@dataclass(frozen=True)
class Archived:
    """An archiver's end: what it was told had left the timeline."""

    boundary: str


@dataclass(frozen=True)
class Archives:
    """Archives all completed writes but the newest ones, its history first; None when there is nothing to archive.

    Args:
        keeps: how many completed writes stay.
        is_late: it writes the history last, as nobody should.
    """

    keeps: int = 1
    is_late: bool = False

    def __call__(self, ctx: TableContext) -> Archived | None:
        """Do it, once."""
        session = Session(ctx)
        recover(session)
        timeline = session.loader.load().timeline
        if len(timeline.completed_writes) <= self.keeps:
            return None
        boundary = timeline.completed_writes[-1 - self.keeps].time
        kept = frozenset(one.time for one in timeline if one.time <= boundary)
        path = f"{HISTORY}/{boundary}"
        if not self.is_late:
            ctx.storage.put(path, json.dumps(sorted(kept)).encode())
        try:
            archive_boundary(session, boundary, HistoryFile(path, kept))
        except InvalidRequest:
            if not self.is_late:
                raise
            return None
        if self.is_late:
            ctx.storage.put(path, json.dumps(sorted(kept)).encode())
        return Archived(boundary)
