"""Build partitions of the metadata table beside ongoing writes.

Files are written at an instant of the metadata table that no write ever gets, and no reader uses them. Completions during the build
are added in rounds, until a decision of the commit log finds no new one and names the partitions. Source: docs/protocol.md §18.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hudi_ops.commit.checks import refuse_changed_columns, refuse_pending_restore
from hudi_ops.commit.recover.recover import finish_unfinished
from hudi_ops.commit.session import Session
from hudi_ops.config.requests import checked_engine
from hudi_ops.config.table import INDEX_DEFINITIONS, INDEX_DEFINITIONS_PATH
from hudi_ops.engine.progress import Progress
from hudi_ops.engine.protocol import Engine
from hudi_ops.errors import NOTHING_LANDED, Cancelled, Conflict, HudiOpsError
from hudi_ops.metadata.definitions import statistics_of, with_definitions
from hudi_ops.metadata.index_definitions import encode_index_definitions
from hudi_ops.metadata.reader.instants import load_metadata_timeline
from hudi_ops.metadata.reader.layout import load_index_definitions
from hudi_ops.metadata.records.partitions import TIMELINE_FOLDER, MetadataPartition
from hudi_ops.metadata.records.records import Records
from hudi_ops.metadata.writer.begin import Beginning, begin_groups, complete_beginning, put_properties
from hudi_ops.metadata.writer.building import Building, group_count
from hudi_ops.metadata.writer.commit import ACTION
from hudi_ops.metadata.writer.delta import log_files
from hudi_ops.services.base.engine import choose_by_bytes
from hudi_ops.services.base.result import Result
from hudi_ops.services.indexing.diff import TableSnapshot, diff, snapshot
from hudi_ops.services.indexing.drop import drop_metadata, without_partitions
from hudi_ops.services.indexing.rebuild import dropped_before, partitions_to_rebuild, say_dropped
from hudi_ops.services.indexing.reserve import clear_build, refuse_unbuildable, reserve_build, wanted_partitions
from hudi_ops.services.indexing.tasks import FactReader
from hudi_ops.timeline.completed import changing, digest_of
from hudi_ops.timeline.content.commit_metadata import WriteStat
from hudi_ops.timeline.log.entries import Entry, Properties, cancel_of
from hudi_ops.timeline.log.reserve import newest_known
from hudi_ops.timeline.log.unique_keys import counted_until
from hudi_ops.timeline.names import completed_name
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import TableState
from hudi_ops.view.schema import table_schema

logger = logging.getLogger(__name__)

ROUNDS_MAX = 20
"""Number of rounds that add new completions before the build gives up."""


@dataclass(frozen=True)
class BuildResult(Result):
    """Result of a build, or of its dry run.

    `partitions` are the added ones, `again` those that were dropped and rebuilt. `rounds` counts the rounds with new completions.
    `records` counts the records of the first base files, by partition; `bytes_in` is the size of the table's files that were read.
    If a record index was built, `doubled_keys` counts the record keys in more than one file group: the index names one of the
    groups, and reads do not rely on it.
    """

    table: str
    instant: str | None
    partitions: tuple[str, ...]
    files: int = 0
    bytes_in: int = 0
    records: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    rounds: int = 0
    engine: str = ""
    engine_reason: str = ""
    seconds: float = 0.0
    dry_run: bool = False
    note: str = ""
    again: tuple[str, ...] = ()
    doubled_keys: int | None = None


@dataclass
class _Build:
    """A running build; `completed` is the path of its own completed instant, once it was put."""

    session: Session
    partitions: tuple[MetadataPartition, ...]
    begun: TableState
    instant: str
    building: Building
    reader: FactReader
    groups: dict[MetadataPartition, int] = field(default_factory=dict)
    stats: list[WriteStat] = field(default_factory=list)
    records: dict[str, int] = field(default_factory=dict)
    completed: str = ""


def build_metadata(
    session: Session,
    partitions: Sequence[str] | None = None,
    *,
    engine: str = "auto",
    progress: Callable[[Progress], None] = lambda progress: None,
    dry_run: bool = False,
    rebuild: bool = False,
) -> BuildResult:
    """Build partitions of the metadata table, and name them in the properties for readers.

    Partitions to rebuild are dropped first, by a decision that names them: until the build has ended, readers do without. After a
    crash the same call goes on; so does a build without `rebuild`, which restores what was dropped.

    Args:
        partitions: names; None: those that a rebuild dropped and did not build, else the defaults of Apache Hudi's tables. `files`
            and what a rebuild dropped are added where they are missing.
        engine: `auto`, `local` or `spark`: reads the files.
        dry_run: return the result that a build would have; change nothing.
        rebuild: rebuild existing partitions; with `partitions` None all of them.

    Raises:
        InvalidRequest: an unknown partition, or one that the table cannot have.
        Unsupported: the table cannot be written.
        Busy: another build is running, a cancelled resize is being removed, or the lock is held.
        Conflict: writes completed in all rounds, or another process changed the metadata table.
        Cancelled: another process took the build for dead.
    """
    checked_engine(engine)
    started_s = session.ctx.clock.monotonic_s()
    state = session.loader.load() if dry_run else finish_unfinished(session)
    refuse_unbuildable(session, state)
    dropped: tuple[str, ...] = ()
    restored = dropped_before(state)
    if rebuild:
        partitions, dropped = partitions_to_rebuild(session, state, partitions)
    elif restored:
        partitions = tuple(sorted({*(partitions or ()), *restored}))
    after = replace(state, config=without_partitions(state.config, dropped))
    wanted = wanted_partitions(after, partitions)
    if not wanted:
        note = f"nothing to build, {', '.join(state.config.metadata_partitions)} exist; --rebuild rebuilds them"
        return BuildResult(state.config.name, None, (), dry_run=dry_run, note=note)
    first = snapshot(session, state)
    chosen = choose_by_bytes(engine, first.size_bytes, session.ctx.engine, "to read")
    result = BuildResult(
        state.config.name,
        None,
        tuple(map(str, wanted)),
        files=len(first.described),
        bytes_in=first.size_bytes,
        engine=chosen[0].name,
        engine_reason=chosen[1],
        dry_run=dry_run,
        again=dropped,
    )
    if not dry_run:
        session.loader.seed()
        gone = dropped or restored
        if dropped:
            drop_metadata(session, dropped, to_build=tuple(map(str, wanted)))
        try:
            result = _build(session, wanted, chosen[0], progress, result)
        except HudiOpsError as error:
            raise (say_dropped(session, error, gone) if gone else error) from error
    if restored:
        result = replace(result, note=f"restores what a rebuild dropped and did not build: {', '.join(restored)}")
    return replace(result, seconds=round(session.ctx.clock.monotonic_s() - started_s, 3))


def _build(
    session: Session,
    wanted: tuple[MetadataPartition, ...],
    engine: Engine,
    progress: Callable[[Progress], None],
    result: BuildResult,
) -> BuildResult:
    reserved = reserve_build(session, wanted)
    try:
        with session.keep(reserved.instant, "build") as keeper:
            state = reserved.state
            schema = table_schema(state.config, state.timeline, session.commits)
            definitions = load_index_definitions(session.ctx.storage)
            statistics = statistics_of(schema, state.config, definitions)
            building = Building(state.config.version, reserved.instant, statistics)
            reader = FactReader(session, state, engine, keeper, progress, schema, wanted, statistics)
            build = _Build(session, wanted, state, reserved.instant, building, reader)
            put_properties(session.ctx.storage, state.config, session.ctx.clock.now_ms())
            seen = snapshot(session, state)
            _begin(build, seen)
            defined = with_definitions(definitions, wanted, statistics.columns, state.config.version)
            session.ctx.storage.put(INDEX_DEFINITIONS_PATH, encode_index_definitions(defined))
            rounds = _complete(build, seen, keeper.check)
    except NOTHING_LANDED as error:  # after any other error the next build removes the files
        clear_build(session, reserved)
        raise error.at(table=result.table) from error
    session.drop_name(reserved.instant)
    return replace(
        result,
        instant=reserved.instant,
        records=build.records,
        groups={str(partition): count for partition, count in build.groups.items()},
        rounds=rounds,
        doubled_keys=build.reader.doubled_keys(),
    )


def _begin(build: _Build, seen: TableSnapshot) -> None:
    """Put the first files of all partitions, with the content of a snapshot."""
    files = list(seen.described.values())
    facts = build.reader.facts(files)
    keys = build.reader.located(list(seen.slices.values()))
    now_ms = build.session.ctx.clock.now_ms()
    for partition in build.partitions:
        records = build.building.whole(partition, seen.files, facts, keys)
        build.records[str(partition)] = len(records.keys)
        build.groups[partition] = group_count(partition, len(records.keys))
        beginning = Beginning(partition, build.instant, groups=build.groups[partition], records=records)
        build.stats += begin_groups(build.session.ctx.storage, beginning, now_ms)


def _complete(build: _Build, seen: TableSnapshot, check: Callable[[], None]) -> int:
    """Add new completions until a decision finds none; return the number of rounds.

    Raises:
        Conflict: too many rounds; or another process changed the metadata table, or the table's columns.
    """
    for rounds in range(ROUNDS_MAX):
        if _decided(build, seen):
            return rounds
        check()
        state = build.session.loader.load()
        refuse_changed_columns(build.session, build.begun, state)
        after = snapshot(build.session, state, seen)
        _add(build, seen, after, rounds + 1)
        seen = after
    raise Conflict(
        f"the metadata table could not be built: writes completed faster than they were added, {ROUNDS_MAX} times",
        expected="a round without a completed write",
        found=f"{ROUNDS_MAX} rounds, each with a completed write",
        next_step="run the same call again at a quieter time",
    )


def _add(build: _Build, before: TableSnapshot, after: TableSnapshot, number: int) -> None:
    """Put a log file of the build's instant into each group that changed."""
    change = diff(before, after)
    build.reader.state = after.state
    facts = build.reader.facts(list(change.new))
    keys, gone = build.reader.moved(change.slices)
    logger.info("building the metadata table: round %s adds %s files", number, len(change.new))
    for partition in build.partitions:
        records = build.building.changed(partition, change.files, facts, keys, gone)
        if records:
            _put_logs(build, records, number)


def _put_logs(build: _Build, records: Records, number: int) -> None:
    found = log_files(
        records,
        build.groups[records.partition],
        instant=build.instant,
        log_version=number + 1,  # the first version begins the group
        token="0-0-0",  # noqa: S106 - a write token
    )
    for path, body, stat in found:
        build.session.ctx.storage.put(path, body)
        build.stats.append(stat)


def _decided(build: _Build, seen: TableSnapshot) -> bool:
    """Name the partitions, and return True, if no instant completed since the snapshot."""
    session = build.session
    doubled = build.reader.doubled_keys()

    def prepare(state: TableState, slot: int) -> Entry | None:
        refuse_pending_restore(state)
        _refuse_changed(build, state)
        if changing(state.timeline) != seen.completed or seen.undone_ahead(state):
            return None
        own = load_metadata_timeline(session.ctx.storage)
        _refuse_cleared(build, state, own.find(build.instant) is not None)
        if build.completed:
            # An earlier try lost its slot, so no reader uses its completed instant.
            session.ctx.storage.delete(build.completed)
        known = newest_known(state.timeline, state.log) | {own.newest_time}
        completion = session.next_time(known, state)
        build.completed = f"{TIMELINE_FOLDER}/{completed_name(build.instant, ACTION, completion)}"
        complete_beginning(session.ctx.storage, state.config.version, build.instant, completion, build.stats)
        return Properties(
            **session.entry(state, f"build metadata {build.instant}"),
            set={INDEX_DEFINITIONS: INDEX_DEFINITIONS_PATH},
            adds=tuple(map(str, build.partitions)),
            built_at=build.instant,
            to_build=tuple(sorted(set(dropped_before(state)) - {*build.partitions})),
            upon=digest_of(changing(state.timeline)),
            facts=state.log.properties.facts,
            doubled_keys=doubled,
            counted_until=counted_until(state.timeline),
            settings=session.settings(state),
        )

    if session.decide(prepare, "name the new partitions of the metadata table") is None:
        return False
    _refuse_unnamed(build)
    return True


def _refuse_unnamed(build: _Build) -> None:
    """Refuse a decision that a foreign change of the properties annulled.

    See `commit.apply.properties`.

    Raises:
        Conflict: the properties lack a partition.
    """
    config = load_config(build.session.ctx.storage)
    missing = sorted({*map(str, build.partitions)} - {*config.metadata_partitions})
    if missing:
        raise Conflict(
            "a foreign writer changed the table before the new partitions of its metadata table could be named",
            table=config.name,
            instant=build.instant,
            expected=", ".join(build.partitions),
            found=f"without {', '.join(missing)}",
            next_step="run the same call again; if it repeats, look at the ZooKeeper session time-out",
        )


def _refuse_changed(build: _Build, state: TableState) -> None:
    """Refuse to complete a build if its conditions no longer hold.

    Raises:
        Cancelled: another process took it for dead.
        Conflict: the metadata table got or lost partitions.
        Busy: an index is being built, or a cancelled resize is being removed.
    """
    if cancel_of(state.log.fate(build.instant)) is not None:
        raise Cancelled(
            "the build of the metadata table was taken for dead",
            instant=build.instant,
            next_step="run the same call again; if it repeats, find out why this process stops for so long",
        )
    had = build.begun.config.all_metadata_partitions
    if state.config.all_metadata_partitions != had:
        raise Conflict(
            "the metadata table got or lost partitions during the build",
            table=state.config.name,
            expected=", ".join(had) or "none",
            found=", ".join(state.config.all_metadata_partitions) or "none",
            next_step="run the same call again",
        )
    refuse_unbuildable(build.session, state)


def _refuse_cleared(build: _Build, state: TableState, is_there: bool) -> None:
    if not is_there:
        raise Conflict(
            "another process removed the files of this build",
            table=state.config.name,
            instant=build.instant,
            expected="its instant on the metadata table's timeline",
            found="none",
            next_step="run the same call again",
        )
