"""Read a table: its rows as Arrow, as a scan, what changed in it, and its hash rings."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.commit.session import Session
from hudi_ops.engine.local import LocalEngine
from hudi_ops.read.as_of import instant_meant
from hudi_ops.read.changes import Changes, ChangesRequest, plan_changes
from hudi_ops.read.plan import plan_read, request_of
from hudi_ops.read.scan import Scan
from hudi_ops.services.inspect.rings import RingView, describe_rings
from hudi_ops.table.argument_types import checks_types


@checks_types
class ReadApi:
    """Methods of `hudi_ops.Table` that read."""

    def __init__(self, session: Session, timezone: str | None = None) -> None:
        self._session = session
        self._timezone = timezone

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: str | pc.Expression | None = None,
        as_of: str | None = None,
        limit: int | None = None,
        *,
        query: str = "snapshot",
        listing: str = "auto",
        meta_columns: bool = False,
    ) -> pa.Table:
        """Rows as Arrow.

        Args:
            columns: names, in the order wanted; None for all columns of the table.
            where: a SQL condition, or an Arrow expression.
            as_of: an instant (17 digits) or an ISO time: the table as of the newest write requested at or before it.
            limit: highest number of rows.
            query: `snapshot`: all rows in their newest state; `read_optimized`: base files alone, without what lies in log files.
            listing: `metadata`: the metadata table lists the files, and all its indexes are asked; `storage`: folders are listed,
                and the metadata table is not used; `auto`: what takes less time, by an estimate.
            meta_columns: give Apache Hudi's own columns first (`_hoodie_commit_time`, `_hoodie_record_key`, …), besides `columns`.

        Raises:
            InvalidRequest: an unknown column, instant, query or listing, or a filter that does not parse.
            Unsupported: rows lie in log files, and how they are merged is not known here; or no metadata table can list the files.
        """
        scan = self.scan(columns, where, as_of, limit, query=query, listing=listing, meta_columns=meta_columns)
        return scan.to_arrow()

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | pc.Expression | None = None,
        as_of: str | None = None,
        limit: int | None = None,
        *,
        query: str = "snapshot",
        listing: str = "auto",
        meta_columns: bool = False,
    ) -> Scan:
        """Return a lazy scan of the table, for streams, Polars, DuckDB and others; see `Scan`.

        Args:
            columns: as in `read`.
            where: as in `read`; only a SQL condition leaves out partitions, files and row groups, an expression filters rows.
            as_of: as in `read`.
            limit: as in `read`.
            query: as in `read`.
            listing: as in `read`.
            meta_columns: as in `read`.

        Raises:
            InvalidRequest: as `read` does.
            Unsupported: as `read` does.
        """
        instant = self._instant_of(as_of)
        request = request_of(columns, where, instant, limit, query, listing, meta_columns=meta_columns)
        return Scan(
            plan_read(self._session.ctx.storage, request, self._session.commits, self._session.ctx.clock),
            self._reading_threads,
        )

    @property
    def _reading_threads(self) -> int | None:
        return self._session.ctx.engine.threads if isinstance(self._session.ctx.engine, LocalEngine) else None

    def changes(
        self,
        since: str | None = None,
        until: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: str | pc.Expression | None = None,
        limit: int | None = None,
        fence: bool = False,
        meta_columns: bool = False,
    ) -> Changes:
        """Return the newest state of each row that a write after `since` wrote.

        Keep the rows, then `Changes.checkpoint`, and pass that as `since` of the next call: no completed write is passed over,
        even if writers finish in another order than they began. When the process ends in between, the same rows come again. Deleted
        rows do not come; `Changes.instants` counts them.

        Records of log files come as they were written, merged among those of the interval only, as in Apache Hudi: one that loses
        to an older row with a larger ordering value comes too, though `read` does not show it.

        Args:
            since: a checkpoint; a completion time (17 digits) or an ISO time, after which the interval begins; None or
                `earliest`: every write on the active and the archived timeline.
            until: the same, as the end of the interval, which is in it; None: all that has completed.
            columns: as in `read`.
            where: as in `scan`.
            limit: highest number of rows; then there is no checkpoint.
            fence: stop before the earliest write that may still complete, so that rows also come in the order in which their writes
                were requested. It waits for the slowest writer.
            meta_columns: as in `read`; `_hoodie_commit_time` tells which of `Changes.instants` wrote a row.

        Raises:
            InvalidRequest: as `read` does; or the table no longer knows every write that completed since then.
            Unsupported: the table has no meta columns, or how its log files are merged is not known here.
        """
        rows = request_of(columns, where, None, limit, meta_columns=meta_columns)
        request = ChangesRequest(rows, since, until, fence, self._timezone)
        return Changes(
            plan_changes(self._session.ctx.storage, request, self._session.ctx.clock, self._session.commits),
            self._reading_threads,
        )

    def ring(self, partition: str | Sequence[str] | None = None) -> list[RingView]:
        """Return the hash rings: versions, nodes, file groups, children of pending resizes.

        Args:
            partition: paths such as `origin=JFK`, or patterns such as `origin=J*`; None: all.

        Raises:
            InvalidRequest: the table has no hash rings, or no partition of that name.
            Corrupt: a ring or the plan of a resize cannot be read.
        """
        wanted = (partition,) if isinstance(partition, str) else tuple(partition or ())
        ctx = self._session.ctx
        return describe_rings(ctx.storage, wanted, self._session.commits, ctx.local_engine)

    def _instant_of(self, as_of: str | None) -> str | None:
        return instant_meant(self._session.ctx.storage, as_of, self._timezone) if as_of is not None else None
