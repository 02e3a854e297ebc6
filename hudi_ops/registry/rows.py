"""Say what the registry has of tables and runs, as values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hudi_ops.context import Owner
    from hudi_ops.health.verdict import HealthVerdict
    from hudi_ops.registry.picture import Picture

NAME_MAX = 200
"""Most characters of a table's name in the registry; tables.yaml allows no more."""

LOST_MS = 12 * 3_600_000
"""Time after which a run that never ended counts as lost: no task of a DAG may take longer."""


@dataclass(frozen=True)
class TableKey:
    """A table as the registry knows it.

    Attributes:
        name: that of tables.yaml, or the location.
        location: URI of the table.
        table_id: of its commit log; empty: it was not adopted; None: it could not be read.
    """

    name: str
    location: str
    table_id: str | None = None


@dataclass(frozen=True)
class Run:
    """A run of a service, or another action on a table.

    A run whose `key` is its instant is from the timeline: a later look finds it again. The others are known by their process alone.

    Attributes:
        key: the instant, or a name of the process; a second record of it replaces the first.
        service: as its DAG is called, such as `compaction`; of other actions the action, such as `rollback`.
        state: `running`, `succeeded`, `failed`, `cancelled`, `skipped` (there was nothing to do), `planned` (it made a plan
            that another run executes), or `lost`: it never ended.
        begun_ms: in ms since 1970; of an instant its request time, or the time at which its last executor took it over.
        ended_ms: in ms since 1970; of an instant its completion time; None: it runs.
        instant: of the table that it made or executed; empty: none yet.
        cpu_s: processor time of the process, in s.
        bytes: written.
        rows: written.
        note: one sentence.
        error: as other commands print it.
        dag_run: DAG, task and run of Airflow with slashes between them; empty: none.
        requester: who asked for it or for its cancel; empty: unknown.
    """

    key: str
    service: str
    state: str
    begun_ms: int
    ended_ms: int | None = None
    instant: str = ""
    cpu_s: float | None = None
    bytes: int | None = None
    rows: int | None = None
    note: str = ""
    error: Mapping[str, Any] | None = None
    dag_run: str = ""
    requester: str = ""

    @property
    def is_from_timeline(self) -> bool:
        """Whether the table itself tells of it."""
        return bool(self.instant) and self.key == self.instant


def process_mark(owner: Owner) -> str:
    """Return the text by which the key of a run names its process."""
    return hashlib.sha256(f"{owner.host} {owner.pid} {owner.started}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class TimelineRuns:
    """Runs that the timeline of a table tells of.

    Attributes:
        runs: those that the registry does not know yet.
        instants: all instants of the timeline, also of the runs that it knows.
        since: instant from which on the timeline has all writes; empty: it has some only.
        recorded: instants that the registry had before the timeline was read. One of them that vanished was undone; one that was
            recorded later is only too new.
        dead: marks of processes that ended without completing their instants, with the newest of these.
    """

    runs: Sequence[Run] = ()
    instants: frozenset[str] = frozenset()
    since: str = ""
    recorded: frozenset[str] = frozenset()
    dead: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """What a look at a table found.

    Attributes:
        key: the table; its id None: it is the table that was at the location last.
        verdict: on it, with `seen`, the facts for the next verdict.
        settings: of tables.yaml; None: those that are kept stay.
        picture: None: the table did not change, or it could not be taken.
        runs: None: as for the picture.
    """

    key: TableKey
    verdict: HealthVerdict
    settings: Mapping[str, Any] | None = None
    picture: Picture | None = None
    runs: TimelineRuns | None = None


@dataclass(frozen=True)
class TableRow:
    """One table of the list.

    Attributes:
        id: number of its row.
        name: that of tables.yaml, or the location.
        location: URI of the table.
        table_id: of its commit log; empty: it was not adopted, or never read.
        seen_ms: when a process last told of it, in ms since 1970.
        at_ms: time of the newest verdict; None: it was never judged.
        status: `healthy`, `missed` or `unknown`; empty: it was never judged.
        exit_code: of the newest verdict.
        since: since when it is not healthy, as ISO time; empty: it is.
        checks: name, status and since of each check.
        error: why it cannot be judged, in one line; empty: it can.
        run: newest run: service, state, instant, begun_ms, ended_ms, dag_run; None: none is known.
        is_current: whether no other table has its location or name now.
    """

    id: int
    name: str
    location: str
    table_id: str
    seen_ms: int
    at_ms: int | None
    status: str
    exit_code: int
    since: str
    checks: Sequence[Mapping[str, Any]]
    error: str
    run: Mapping[str, Any] | None
    is_current: bool = True


@dataclass(frozen=True)
class TablePage:
    """A page of the list of tables.

    Attributes:
        rows: of the page.
        total: number of tables that the search finds.
        counts: their number by status; `""` stands for tables that were never judged.
        page: number of the page, from 1.
        size: most rows of a page.
    """

    rows: Sequence[TableRow]
    total: int
    counts: Mapping[str, int]
    page: int
    size: int


@dataclass(frozen=True)
class TableDetails:
    """All that the registry has of one table.

    Attributes:
        row: as in the list.
        verdict: newest verdict, as `hudi-ops health --json` prints it; None: it was never judged.
        picture: newest picture (`picture.Picture`); None: none was taken.
        picture_at_ms: when it was taken, in ms since 1970.
        settings: of tables.yaml.
        earlier: other tables that were at this location or had this name, the newest first.
    """

    row: TableRow
    verdict: dict[str, Any] | None = None
    picture: dict[str, Any] | None = None
    picture_at_ms: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    earlier: Sequence[TableRow] = ()
