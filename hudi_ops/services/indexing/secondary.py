"""Choose the columns of secondary indexes, and define them before their build is planned.

Apache Hudi defines an index before it plans its build, too: it could not execute a plan whose index has no definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from hudi_ops.commit.session import Session
from hudi_ops.concurrency.lock.locks import hold_lock
from hudi_ops.config.table import INDEX_DEFINITIONS_PATH
from hudi_ops.errors import HudiOpsError, InvalidRequest
from hudi_ops.metadata.definitions import why_not_indexable
from hudi_ops.metadata.index_definitions import (
    IndexDefinition,
    encode_index_definitions,
    secondary_definition,
)
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.records.partitions import SECONDARY_PREFIX, is_secondary
from hudi_ops.services.indexing.choose import pending_builds
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import table_schema


def columns_asked(
    session: Session, state: TableState, names: Sequence[str] | None, wanted: Iterable[str]
) -> dict[str, str]:
    """Return the column of each secondary index among `wanted`.

    It is the one that `names` say (`secondary_index_NAME=COLUMN`), else that of its definition, else NAME.

    Raises:
        InvalidRequest: the column cannot have an index here, or an index of the name has another column.
        Corrupt: the definitions cannot be read. Raised by `load_index_definitions`.
    """
    indexes = [name for name in wanted if is_secondary(name)]
    asked = _asked(state, names)
    # Read in any case: every build needs the definitions, and a rebuild must not drop before it finds them damaged.
    definitions = load_index_definitions(session.ctx.storage)
    if not indexes and not asked:
        return {}
    _refuse_other_columns(state, asked, definitions, indexes)
    schema = table_schema(state.config, state.timeline, session.commits)
    found = {}
    for name in indexes:
        held = definitions.get(name)
        of_definition = held.source_fields[0] if held is not None and held.source_fields else ""
        column = asked.get(name) or of_definition or name.removeprefix(SECONDARY_PREFIX)
        if why := why_not_indexable(column, schema, state.config):
            raise InvalidRequest(
                f"the secondary index {name} cannot be built: {why}",
                table=state.config.name,
                expected="one column of texts or whole numbers that the files hold",
                found=column,
                next_step=f"name the column: {name}=COLUMN; nested columns cannot be indexed",
            )
        found[name] = column
    return found


def with_columns(names: Iterable[str], columns: Mapping[str, str]) -> tuple[str, ...]:
    """Return names of partitions, with the columns of secondary indexes: `NAME=COLUMN`."""
    return tuple(f"{name}={columns[name]}" if name in columns else str(name) for name in names)


def _asked(state: TableState, names: Sequence[str] | None) -> dict[str, str]:
    """Return the columns that `names` state, by index.

    Raises:
        InvalidRequest: two columns for one index.
    """
    found: dict[str, str] = {}
    for name, _, column in (one.partition("=") for one in names or () if "=" in one):
        if found.setdefault(name, column) != column:
            raise InvalidRequest(
                f"{name} is named with two columns",
                table=state.config.name,
                expected="one column for each index",
                found=f"{found[name]} and {column}",
                next_step="give the second index a name of its own",
            )
    return found


def _refuse_other_columns(
    state: TableState,
    asked: Mapping[str, str],
    definitions: Mapping[str, IndexDefinition],
    to_build: Sequence[str],
) -> None:
    """Refuse a stated column if an existing index of the same name has another one.

    Raises:
        InvalidRequest: such an index exists.
    """
    for name, column in asked.items():
        held = definitions.get(name)
        if name in to_build or held is None or not held.source_fields or held.source_fields[0] == column:
            continue
        raise InvalidRequest(
            f"{name} is an index of column {held.source_fields[0]}",
            table=state.config.name,
            expected=f"{name}={held.source_fields[0]}",
            found=f"{name}={column}",
            next_step=f"choose another name, or build it anew with the other column: --rebuild {name}={column}",
        )


@contextmanager
def defined(session: Session, columns: Mapping[str, str]) -> Iterator[None]:
    """Put the definitions of secondary indexes of these columns, for the time of planning.

    They stay if a build of them was planned; else the former ones come back.

    Raises:
        HudiOpsError: the build was not planned.
    """
    before = _put(session, columns)
    try:
        yield
    except HudiOpsError:
        _restore(session, before)
        raise


def _put(session: Session, columns: Mapping[str, str]) -> dict[str, IndexDefinition | None]:
    """Put definitions; return the former ones of those that changed.

    A listed or planned index keeps its own.
    """
    if not columns:
        return {}
    with hold_lock(session.ctx, "define secondary indexes"):
        state = session.loader.load()
        taken = _taken(session, state)
        held = load_index_definitions(session.ctx.storage)
        new = {
            name: secondary_definition(name, column, state.config.version)
            for name, column in columns.items()
            if name not in taken and (name not in held or held[name].source_fields != (column,))
        }
        if new:
            session.ctx.storage.put(INDEX_DEFINITIONS_PATH, encode_index_definitions({**held, **new}))
    return {name: held.get(name) for name in new}


def _restore(session: Session, before: Mapping[str, IndexDefinition | None]) -> None:
    """Put back the former definitions of indexes that are neither listed nor planned."""
    if not before:
        return
    with hold_lock(session.ctx, "take back definitions of secondary indexes"):
        taken = _taken(session, session.loader.load())
        held = load_index_definitions(session.ctx.storage)
        for name, former in before.items():
            if name not in taken:
                held.pop(name, None)
                if former is not None:
                    held[name] = former
        session.ctx.storage.put(INDEX_DEFINITIONS_PATH, encode_index_definitions(held))


def _taken(session: Session, state: TableState) -> set[str]:
    """Return the names of partitions that exist, or that a pending plan builds."""
    planned = {name for _, names in pending_builds(session, state) for name in names}
    return {*state.config.all_metadata_partitions, *planned}
