"""Look at tables, and bring the registry up to date with what is found.

A look judges a table with the facts of its last verdict. Only if the state of the table moved since its last picture, it takes a
new one, and asks for the runs that the table tells of. So an unchanged table costs eight reads at most. What changes with
time alone needs a new picture, too: a picture `changes_with_time` if it has pending plans, leases, holds, a held lock or errors.
The lock of a table without any of them is seen at the next change.

All reads of tables happen outside of SQL transactions. An error in a picture never hides the verdict.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, select

from hudi_ops.config.tables_file import TableLocation, TablesFile, find_tables_file, load_tables, locate_table
from hudi_ops.errors import HudiOpsError
from hudi_ops.health.many import LIMIT_S
from hudi_ops.redaction import redacted, redacted_values
from hudi_ops.registry.database import answering
from hudi_ops.registry.identity import kept_name
from hudi_ops.registry.picture import Picture, known_rows, picture_from, picture_of
from hudi_ops.registry.recording import record_look
from hudi_ops.registry.rows import Found, TableKey, TimelineRuns
from hudi_ops.registry.runs import runs_of_look
from hudi_ops.registry.schema import PICTURES, RUNS, TABLES, VERDICTS

if TYPE_CHECKING:
    from hudi_ops.health.verdict import HealthVerdict

logger = logging.getLogger(__name__)

NAMES_AT_ONCE = 500
"""Tables that one statement asks for."""


@dataclass(frozen=True)
class Before:
    """What the registry has of a table before a look.

    Attributes:
        of_table: number of its row.
        verdict: the newest, with the facts for the next one.
        digest: of the state that the picture shows; empty: there is no picture.
        changes_with_time: whether the picture changes although the table does not.
    """

    of_table: int
    verdict: Mapping[str, Any]
    digest: str = ""
    changes_with_time: bool = False


@dataclass(frozen=True)
class Pictured:
    """What the registry shows of a table before a look.

    Attributes:
        picture: the newest; None: there is none.
        ended: instants of its runs that ended, and need not be asked for again.
        recorded: instants of all runs from its timeline.
    """

    picture: Mapping[str, Any] | None = None
    ended: frozenset[str] = frozenset()
    recorded: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Kept:
    """How a look reaches the registry: directly, or without ever failing (`best_effort`).

    Attributes:
        load: returns what is known of tables, by their names.
        load_picture: returns the last picture of a table, and its runs, by the number of its row.
        save: keeps what a look found.
    """

    load: Callable[[Sequence[str]], Mapping[str, Before]]
    load_picture: Callable[[int], Pictured]
    save: Callable[[Found], None]


@dataclass
class _Judging:
    """Judging of tables, several at a time."""

    kept: Kept
    before: Mapping[str, Before]
    anew: bool
    taken: dict[str, tuple[Picture | None, TimelineRuns | None]] = field(default_factory=dict)

    def then(self, name: str, location: TableLocation, verdict: HealthVerdict) -> None:
        """Take a picture and ask for runs, if the state moved; called in the thread of the table."""
        before = self.before.get(name)
        seen = verdict.seen
        if before is not None and seen is not None and before.digest == seen.digest and not before.changes_with_time:
            return
        try:
            self.taken[name] = self._taken(location, before)
        except HudiOpsError as error:
            logger.warning("no picture of %s: %s", name, error)
        except BaseException:
            # The edge of a thread: a fault on one table must not hide its verdict, nor other tables.
            logger.exception("no picture of %s", name)

    def _taken(self, location: TableLocation, before: Before | None) -> tuple[Picture, TimelineRuns | None]:
        from hudi_ops.health.look import Look
        from hudi_ops.health.many import session_at

        # Before the table is read: a run that is recorded later cannot be missed on a timeline that was read earlier.
        last = self.kept.load_picture(before.of_table) if before is not None else Pictured()
        look = Look.at(session_at(location))
        storage, table_id = look.session.ctx.storage, look.state.log.table_id
        picture = picture_of(location, last.picture, look)
        rows = known_rows(picture, storage.uri, table_id)
        same = picture_from(last.picture)
        known = last.ended if same is not None and same.table_id == table_id else frozenset[str]()
        try:
            runs = runs_of_look(look, known=known, rows=rows, archived=self.anew)
            return picture, replace(runs, recorded=last.recorded)
        except HudiOpsError as error:
            logger.warning("the runs of %s are not known: %s", location.name, error)
            return picture.model_copy(update={"changes_with_time": True}), None  # the next look asks again


def refresh(
    names: Sequence[str],
    tables_file: str | None = None,
    *,
    engine: Engine,
    limit_s: float = LIMIT_S,
    tell: Callable[[int, str], None] = lambda done, name: None,
) -> list[HealthVerdict]:
    """Judge tables, keep verdicts, pictures and runs, and return the verdicts.

    They are in the order of the names.

    Args:
        names: of tables.yaml, folders or URIs.
        tables_file: None: the one in force.
        engine: the registry.
        limit_s: seconds after which a table counts as unreachable.
        tell: called after each table with their number so far, and the name.

    Raises:
        InvalidRequest: the tables file cannot be read.
        Unavailable: the registry does not answer.
    """
    return look_at(names, tables_file, registry_at(engine), limit_s=limit_s, tell=tell)


def rebuild(
    names: Sequence[str],
    tables_file: str | None = None,
    *,
    engine: Engine,
    limit_s: float = LIMIT_S,
    tell: Callable[[int, str], None] = lambda done, name: None,
) -> list[HealthVerdict]:
    """Measure tables anew, and replace all that the registry has of them.

    Arguments and result are those of `refresh`. Each table is replaced in one transaction, so readers always find it.

    Raises:
        InvalidRequest: the tables file cannot be read.
        Unavailable: the registry does not answer.
    """
    return look_at(names, tables_file, registry_at(engine, anew=True), limit_s=limit_s, tell=tell, anew=True)


def look_at(
    names: Sequence[str],
    tables_file: str | None,
    kept: Kept,
    previous: Mapping[str, HealthVerdict | Mapping[str, Any]] | None = None,
    *,
    limit_s: float = LIMIT_S,
    tell: Callable[[int, str], None] = lambda done, name: None,
    anew: bool = False,
) -> list[HealthVerdict]:
    """Judge tables, and keep what is found; return the verdicts in the order of the names.

    Args:
        names: of tables.yaml, folders or URIs.
        tables_file: None: the one in force.
        kept: the registry.
        previous: last verdicts, by name; the registry's count only for the other tables.
        limit_s: seconds after which a table counts as unreachable.
        tell: called after each table with their number so far, and the name.
        anew: use nothing that was found before.

    Raises:
        InvalidRequest: the tables file cannot be read.
        Unavailable: the registry does not answer, and `kept` says so.
    """
    from hudi_ops.health.many import judged

    file = find_tables_file(tables_file)
    declared = load_tables(file) if file is not None else None
    wanted = list(dict.fromkeys(names))
    keys = {name: key_of(name, declared) for name in wanted}
    before = {} if anew else _by_given(kept.load([key.name for key, _ in keys.values()]), keys)
    judging = _Judging(kept, before, anew)
    found: dict[str, HealthVerdict] = {}
    known = {name: one.verdict for name, one in before.items()} | {
        name: one for name, one in (previous or {}).items() if one
    }
    for verdict in judged(
        {name: lambda name=name: locate_table(name, declared) for name in wanted},  # type: ignore[misc]
        known,
        limit_s=limit_s,
        then=judging.then,
    ):
        name = verdict.table
        found[name] = verdict
        (key, settings), (picture, runs) = keys[name], judging.taken.pop(name, (None, None))
        kept.save(Found(_read_as(key, verdict), verdict, settings, picture, runs))
        tell(len(found), name)
    return [found[name] for name in names]


def key_of(name: str, declared: TablesFile | None) -> tuple[TableKey, Mapping[str, Any] | None]:
    """Return the key and the settings of the table of a name; its id is not read.

    Settings are those of tables.yaml; None: it does not declare the table. The name of a table that tables.yaml does not
    declare is its location. So it never takes the place of one that is.
    """
    try:
        return key_at(locate_table(name, declared))
    except HudiOpsError:
        return TableKey(kept_name(name), name), None


def key_at(location: TableLocation) -> tuple[TableKey, Mapping[str, Any] | None]:
    """Return the key and the settings of the table at a location, as `key_of`."""
    from hudi_ops.read.current_view import storage_at

    try:
        uri = storage_at(location).uri
    except HudiOpsError:
        uri = location.path
    if location.declaration is None:
        return TableKey(kept_name(redacted(uri)), redacted(uri)), None
    settings = location.declaration.model_dump(mode="json", exclude_unset=True)
    return TableKey(location.name, redacted(uri)), redacted_values(settings)


def registry_at(engine: Engine, *, anew: bool = False) -> Kept:
    """Return the registry for looks whose failures are those of the caller."""
    return Kept(partial(load_before, engine), partial(load_look, engine), partial(record_look, engine, anew=anew))


def load_before(engine: Engine, names: Sequence[str]) -> dict[str, Before]:
    """Return what the registry has of tables before a look, by their names.

    Raises as `database.answering`.
    """
    found: dict[str, Before] = {}
    later = VERDICTS.alias()
    newest = (
        select(later.c.id)
        .where(later.c.of_table == TABLES.c.id)
        .order_by(later.c.at_ms.desc(), later.c.id.desc())
        .limit(1)
        .correlate(TABLES)
        .scalar_subquery()
    )
    joined = TABLES.join(PICTURES, PICTURES.c.of_table == TABLES.c.id).join(VERDICTS, VERDICTS.c.id == newest)
    kept = (PICTURES.c.seen, PICTURES.c.digest, PICTURES.c.changes_with_time)
    asked = select(TABLES.c.id, TABLES.c.name, *kept, VERDICTS.c.verdict).select_from(joined)
    with answering(), engine.connect() as connection:
        for start in range(0, len(names), NAMES_AT_ONCE):
            some = TABLES.c.name.in_([kept_name(name) for name in names[start : start + NAMES_AT_ONCE]])
            for row in connection.execute(asked.where(TABLES.c.is_current, some)):
                verdict = {**row.verdict, "seen": row.seen}
                found[row.name] = Before(row.id, verdict, row.digest, row.changes_with_time)
    return found


def load_look(engine: Engine, of_table: int) -> Pictured:
    """Return the last picture of a table, and its runs.

    Raises as `database.answering`.
    """
    asked = select(RUNS.c.instant, RUNS.c.state).where(RUNS.c.of_table == of_table, RUNS.c.run_key == RUNS.c.instant)
    with answering(), engine.connect() as connection:
        picture = connection.execute(select(PICTURES.c.picture).where(PICTURES.c.of_table == of_table)).scalar()
        states = {row.instant: row.state for row in connection.execute(asked)}
    ended = frozenset(instant for instant, state in states.items() if state in {"succeeded", "cancelled"})
    return Pictured(picture, ended, frozenset(states))


def _by_given(before: Mapping[str, Before], keys: Mapping[str, tuple[TableKey, Any]]) -> dict[str, Before]:
    """Return what is known of tables by the names that they are asked for."""
    return {name: before[key.name] for name, (key, _) in keys.items() if key.name in before}


def _read_as(key: TableKey, verdict: HealthVerdict) -> TableKey:
    """Return the key with the id that a verdict read.

    None: the table could not be judged, so its id is unknown.
    """
    is_read = verdict.error is None and verdict.seen is not None
    return TableKey(key.name, key.location, verdict.seen.table_id if is_read and verdict.seen is not None else None)
