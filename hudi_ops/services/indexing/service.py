"""Plan index builds as a table service; the result that users get.

Source: RFC-45; docs/protocol §14, §18.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hudi_ops.commit.session import Session
from hudi_ops.commit.support import refuse_unwritable
from hudi_ops.concurrency.lease.lease import read_lease
from hudi_ops.config.requests import IndexRequest
from hudi_ops.engine.protocol import Engine
from hudi_ops.metadata.reader.instants import MetadataInstants, load_metadata_timeline
from hudi_ops.services.base.cost import Cost
from hudi_ops.services.base.result import ServiceResult
from hudi_ops.services.base.service import PlannedService, register
from hudi_ops.services.indexing.choose import IndexChoice, choose, draft_of, empty_choice
from hudi_ops.services.indexing.dropped import unready_count, unready_indexes
from hudi_ops.services.indexing.wanted import partition_named, refuse_unbuildable
from hudi_ops.timeline.content.plans import IndexPlan
from hudi_ops.timeline.state import TableState


@dataclass(frozen=True)
class IndexResult(ServiceResult):
    """Result of an index build.

    `built_at` is its instant on the metadata table's timeline. `partitions` are the new ones, `rounds` counts the rounds that added
    completions. `records` counts the records of the first base files, by partition; `bytes_in` is the size of the files that were
    read. If a record index was built, `doubled_keys` counts the record keys in more than one file group: the index names one of
    the groups, and reads do not rely on it. `verdicts` counts the instants since the announcement: `carried` by their writers,
    `applied` by catch-up, and others. `catch_up_per_s` is the number of completions that catch-up added in a second (None: it added
    none), `ingest_per_s` that of other writers' completions in a second since the announcement. `waited_for` says for which
    foreign writers the build waited, and why.

    One result may tell of several builds: `instant` and the rates are then those of the last one. `rebuilt` are the partitions that
    the call dropped first.
    """

    built_at: str = ""
    partitions: tuple[str, ...] = ()
    files: int = 0
    bytes_in: int = 0
    records: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    rounds: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    doubled_keys: int | None = None
    catch_up_per_s: float | None = None
    ingest_per_s: float | None = None
    waited_for: tuple[str, ...] = ()
    rebuilt: tuple[str, ...] = ()


class IndexBuild(PlannedService[IndexRequest, IndexChoice, IndexPlan]):
    """Build partitions of the metadata table while writers run; `execute.py` executes its plans."""

    action = "indexing"
    command = "hudi-ops index"
    plan_type = IndexPlan
    result_type = IndexResult
    choose = staticmethod(choose)
    draft = staticmethod(draft_of)

    def refuse_table(self, state: TableState) -> None:
        """Refuse tables that cannot be written.

        Raises:
            Unsupported: names the feature.
        """
        refuse_unwritable(state.config)

    def empty_choice(self, request: IndexRequest) -> IndexChoice:
        """Return a choice without partitions."""
        return empty_choice()

    def estimate(self, choice: IndexChoice, engine: Engine) -> Cost:
        """Return no cost: `explain_indexes` measures what a build reads."""
        return Cost(0, 0, 0.0, None)

    def measures(self, session: Session, state: TableState) -> Mapping[str, float | None]:
        """Return the number of indexes that readers cannot use, and that no process builds now."""
        storage = session.ctx.storage
        own = load_metadata_timeline(storage) if state.config.metadata_partitions else None
        behind = MetadataInstants(own, state.timeline, session.commits.archived).missing if own is not None else ()
        found = unready_indexes(session, state, behind, lambda instant: read_lease(storage, instant))
        return {"indexes.unready": unready_count(found)}

    def refuse_plan(self, session: Session, state: TableState, plan: IndexPlan, instant: str) -> None:
        """Refuse a plan of partitions that this library does not build, or that cannot be built now."""
        for name, _ in plan.partitions:
            partition_named(name, state.config.name)
        refuse_unbuildable(session, state)


INDEXING = register(IndexBuild())
"""The service."""
