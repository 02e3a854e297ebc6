"""`hudi-ops index`: build, plan, show, cancel and drop the indexes of a table."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hudi_ops.cli.arguments import AcceptFutureOption, JsonOption, TableArgument, YesOption, locate, open_table
from hudi_ops.cli.consent import ask
from hudi_ops.cli.options import with_options
from hudi_ops.cli.output import counted, sized, write, write_json, write_table
from hudi_ops.cli.planned import Mode, note_text, refuse_mixed, tell_measures
from hudi_ops.cli.progress import watching, working
from hudi_ops.config.requests import IndexRequest
from hudi_ops.config.requests.schedule import did_you_mean
from hudi_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from hudi_ops.services.base.result import PlanResult
    from hudi_ops.services.indexing.drop import DropResult
    from hudi_ops.services.indexing.service import IndexResult
    from hudi_ops.services.inspect.indexes import IndexCost, IndexState
    from hudi_ops.table.table import Table

INDEX_HELP = """Build, show, cancel and drop the indexes of a table: partitions of its metadata table.

ACTION run (the default) executes plans that were left, then plans and builds NAMES. plan makes a plan and ends; execute executes
one, ours or Apache Hudi's, and running it again after a failure goes on; explain says which indexes the table can have, and what
a build reads; show says the state of each; cancel ends a pending build and removes it; drop removes indexes.

NAMES are files, column_stats, partition_stats, bloom_filters and record_index; none: the first three. A secondary index is named
secondary_index_NAME=COLUMN, or secondary_index_COLUMN, and needs the record index. Others may write all the while: once an index
is announced, writers keep it up to date, and readers use it when nothing is missing in it.

With --rebuild, indexes that are damaged or behind are dropped and built anew; without names, all. drop without NAMES drops the
whole metadata table; at a terminal you are asked first, elsewhere --yes is needed. Apache Hudi's default writers build files,
column_stats and partition_stats again.

\b
hudi-ops index flights run record_index bloom_filters
hudi-ops index flights run record_index --rebuild
hudi-ops index flights plan record_index
hudi-ops index flights run secondary_index_by_tail=tail_number
hudi-ops index flights execute --instant 20261121101500123 --timeout 1h
hudi-ops index flights show
hudi-ops index flights cancel record_index
hudi-ops index flights drop record_index --yes
"""


class Action(enum.StrEnum):
    """Actions of the command."""

    RUN = "run"
    PLAN = "plan"
    EXECUTE = "execute"
    EXPLAIN = "explain"
    SHOW = "show"
    CANCEL = "cancel"
    DROP = "drop"


WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ACTION] [NAMES]...", help=f"One of {', '.join(Action)}; then names.", show_default=False),
]


@with_options(IndexRequest, "resume", "partitions")
def index(
    table: TableArgument,
    words: WordsArgument = None,
    *,
    request: IndexRequest,
    accept_future_instants: AcceptFutureOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Build, show, cancel and drop indexes.

    Raises:
        InvalidRequest: names for an action that takes none, or an unknown action.
    """
    action, names = parsed_words(words or [])
    if action is Action.EXECUTE and names:
        raise InvalidRequest(
            "a plan says which indexes are built",
            expected="execute, alone or with --instant",
            found=f"execute {' '.join(names)}",
            next_step="leave the names out, or build these: `hudi-ops index TABLE run NAMES`",
        )
    given = request.model_copy(update={"partitions": names or None})
    if action in {Action.RUN, Action.PLAN, Action.EXECUTE}:
        refuse_mixed(Mode(action), given)
    location = locate(table)
    with open_table(location, accept_future=accept_future_instants) as opened:
        if action is Action.PLAN or (action is Action.RUN and given.dry_run):
            planned = opened.indexing.plan(given)
            if as_json:
                write_json(planned.as_dict())
            else:
                write(_planned_text(planned))
                tell_measures(planned)
        elif action in {Action.RUN, Action.EXECUTE}:
            with watching(f"building indexes of {location.name}", as_json=as_json) as tell:
                done = (opened.indexing.run if action is Action.RUN else opened.indexing.execute)(given, progress=tell)
            write_json(done.as_dict()) if as_json else write(_done_text(done))
        elif action is Action.EXPLAIN:
            _tell_costs(location.name, opened.indexing.costs(names or None), as_json)
        elif action is Action.SHOW:
            _tell_states(location.name, _named(opened.indexing.show(), names, location.name), as_json)
        elif action is Action.CANCEL:
            _cancel(opened, location.name, names, as_json)
        else:
            _drop(opened, location.name, names or None, dry_run=given.dry_run, yes=yes, as_json=as_json)


def parsed_words(words: list[str]) -> tuple[Action, tuple[str, ...]]:
    """Return the action, run if none is named, and the names.

    Raises:
        InvalidRequest: the first word is nearly an action.
    """
    if words and words[0] in set(Action):
        return Action(words[0]), tuple(words[1:])
    if words and (near := did_you_mean(words[0], map(str, Action))):
        raise InvalidRequest(
            f"there is no action {words[0]!r}. {near}",
            expected=f"one of {', '.join(Action)}, or names of indexes",
            found=words[0],
            next_step="hudi-ops index --help",
        )
    return Action.RUN, tuple(words)


def _named(states: tuple[IndexState, ...], names: tuple[str, ...], table: str) -> tuple[IndexState, ...]:
    """Return the states of the named indexes; all without names.

    Raises:
        InvalidRequest: there is no index of a name.
    """
    known = [one.name for one in states]
    for name in names:
        if name not in known:
            raise InvalidRequest(
                f"there is no index {name}",
                table=table,
                expected=f"some of {', '.join(known)}",
                found=name,
                next_step="`hudi-ops index TABLE show` shows all",
            )
    return tuple(one for one in states if not names or one.name in names)


def _done_text(done: IndexResult) -> str:
    if not done.partitions:
        return note_text(done)
    built = f"{', '.join(done.partitions)} built by plan {done.instant}"
    lines = [f"{done.table}: {built}, of {counted(done.files, 'file')}, {sized(done.bytes_in)}"]
    if done.rebuilt:
        lines.append(f"  dropped first, to be built anew: {', '.join(done.rebuilt)}")
    lines += [
        f"  {name}: {counted(done.records.get(name, 0), 'record')} in {counted(groups, 'file group')}"
        for name, groups in done.groups.items()
    ]
    if done.doubled_keys:
        doubled = counted(done.doubled_keys, "record key")
        lines.append(f"  {doubled} in more than one file group: reads do not ask the index where a key lies")
    rounds = counted(done.rounds, "round")
    lines.append(f"  {done.seconds:.1f} s, engine {done.engine} ({done.engine_reason}), {rounds} of catch-up")
    return "\n".join(lines + _pace_lines(done))


def _pace_lines(done: IndexResult) -> list[str]:
    """Return what catch-up did, how fast, and what it waited for."""
    from hudi_ops.timeline.builds.checkpoint import pace_words  # loads Arrow, which `--help` does not need

    said = [f"{count} {verdict}" for verdict, count in sorted(done.verdicts.items())]
    if said or done.waited_for:
        said += pace_words(done.catch_up_per_s, done.ingest_per_s, None)
    lines = [f"  since the announcement: {', '.join(said)}"] if said else []
    return lines + [f"  {note}" for note in done.waited_for]


def _planned_text(planned: PlanResult) -> str:
    if planned.instant is None:
        would = "" if not planned.dry_run else " (a dry run: nothing was planned)"
        return f"{planned.table}: {planned.note}{would}"
    return f"{planned.table}: index build {planned.instant} planned: {planned.note}"


def _tell_states(table: str, states: tuple[IndexState, ...], as_json: bool) -> None:
    if as_json:
        write_json({"table": table, "indexes": [one.as_dict() for one in states]})
        return
    write_table(
        ["index", "state", "groups", "size", "lag", "plan", "executor", "note"],
        [
            [
                one.name,
                one.state,
                one.file_groups,
                sized(one.bytes),
                "-" if one.lag is None else one.lag,
                one.plan or "-",
                one.executor or "-",
                one.note,
            ]
            for one in states
        ],
    )


def _tell_costs(table: str, costs: tuple[IndexCost, ...], as_json: bool) -> None:
    if as_json:
        write_json({"table": table, "indexes": [one.as_dict() for one in costs]})
        return
    write_table(
        ["index", "supported", "to read", "seconds", "groups", "why"],
        [
            [
                one.name,
                "yes" if one.is_supported else "no",
                sized(one.bytes_in),
                f"{one.seconds:.1f}",
                one.file_groups,
                one.why,
            ]
            for one in costs
        ],
    )


def _cancel(opened: Table, table: str, names: tuple[str, ...], as_json: bool) -> None:
    """Cancel the pending build of some names, or the only one.

    Raises:
        InvalidRequest: there is no such build, or several without a name.
    """
    pending = {one.plan: one.name for one in opened.indexing.show() if one.plan and (not names or one.name in names)}
    if len(pending) != 1:
        raise InvalidRequest(
            "no index build is pending" if not pending else "several index builds are pending",
            table=table,
            expected="one pending build" + (f" of {', '.join(names)}" if names else ""),
            found=", ".join(sorted(pending)) or "none",
            next_step="`hudi-ops index TABLE show` lists them; name one of their indexes",
        )
    (plan,) = pending
    with working(f"cancelling the index build {plan}"):
        done = opened.cancel(plan)
    if as_json:
        write_json(done.as_dict())
    else:
        write(f"{table}: index build {plan} {done.state}{f'; {done.note}' if done.note else ''}")


def _drop(
    opened: Table, name: str, partitions: Sequence[str] | None, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Drop partitions of the metadata table, after asking, and print the result."""
    done = opened.indexing.drop(partitions, dry_run=True)
    if not dry_run:
        if done.dropped or done.files:
            ask("index drop", _dropped_amount(done), done.table, yes=yes, as_json=as_json)
        with working(f"dropping from the metadata table of {name}"):
            done = opened.indexing.drop(partitions)
    write_json(done.as_dict()) if as_json else write(_dropped_text(done))


def _dropped_text(done: DropResult) -> str:
    if done.note:
        return f"{done.table}: {done.note}"
    said = "would be dropped" if done.dry_run else "dropped"
    left = f"; {', '.join(done.left)} stays" if done.left else ""
    ended = f"; the build {', '.join(done.ended_builds)} was cancelled" if done.ended_builds else ""
    return f"{done.table}: {_dropped_amount(done)} {said}{ended}{left}"


def _dropped_amount(done: DropResult) -> str:
    names = ", ".join(done.dropped) or "what an earlier call left"
    return f"{names} ({counted(done.files, 'file')}, {sized(done.bytes)})"
