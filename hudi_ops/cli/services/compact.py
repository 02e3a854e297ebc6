"""`hudi-ops compact`: merge log files into base files; plan and execute in one call or two."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudi_ops.cli.arguments import (
    AcceptFutureOption,
    JsonOption,
    TableArgument,
    locate,
    open_table,
    parse_bytes,
    parse_seconds,
)
from hudi_ops.cli.options import with_options
from hudi_ops.cli.output import counted, sized, write, write_json, write_table
from hudi_ops.cli.progress import watching
from hudi_ops.config.requests import CompactionRequest
from hudi_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from hudi_ops.services.base.choice import Verdict
    from hudi_ops.services.base.cost import Cost
    from hudi_ops.services.base.result import PlanResult
    from hudi_ops.services.compaction.result import CompactResult

COMPACT_HELP = """Merge the log files of a merge-on-read table into new base files.

MODE run (the default) goes on with a plan that was left, else makes one and executes it. plan makes one and ends; execute executes
one, ours or Apache Hudi's, and running it again after a failure goes on; explain says of each file group why it would be
planned, or why not. Ingestion goes on all the while, and at most one process executes a plan.

--dry-run shows what a plan would hold and what it would cost; what it did cost, and how far off that was, is said at the end.

\b
hudi-ops compact flights --dry-run
hudi-ops compact flights --strategy commits --threshold 10 --max-bytes 50GB
hudi-ops compact flights plan --partition 'origin=J*'
hudi-ops compact flights execute --instant 20261121101500123
hudi-ops compact flights explain
"""


class Mode(enum.StrEnum):
    """What `hudi-ops compact` does."""

    RUN = "run"
    PLAN = "plan"
    EXECUTE = "execute"
    EXPLAIN = "explain"


def _amount(values: dict[str, Any], text: str, option: str) -> float:
    """Parse a threshold in the strategy's unit.

    Raises:
        InvalidRequest: it is none.
    """
    strategy = str(values["strategy"] or "size").lower()
    if strategy == "size":
        return parse_bytes(text, option)
    if strategy == "age":
        return parse_seconds(text, option)
    try:
        return float(int(text))
    except ValueError:
        raise InvalidRequest(f"{option} is not a number", expected="for example 10", found=repr(text)) from None


@with_options(CompactionRequest, "resume", threshold=_amount)
def compact(
    table: TableArgument,
    mode: Annotated[Mode, typer.Argument(metavar="[MODE]", help="run, plan, execute or explain.")] = Mode.RUN,
    *,
    request: CompactionRequest,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Merge log files into new base files."""
    _refuse_mixed(mode, request.instant, request.dry_run)
    location = locate(table)
    with open_table(location, accept_future=accept_future_instants) as opened:
        if mode in {Mode.PLAN, Mode.EXPLAIN} or request.dry_run:
            is_real = mode is Mode.PLAN and not request.dry_run
            planned = opened.compaction.plan(request, dry_run=not is_real)
            _tell_plan(planned, as_json, every=mode is Mode.EXPLAIN)
            return
        with watching(f"compacting {location.name}", as_json=as_json) as tell:
            work = opened.compaction.execute if mode is Mode.EXECUTE else opened.compaction.run
            done = work(request, progress=tell)
    if as_json:
        write_json(done.as_dict())
    else:
        write(_done_text(done))


def _refuse_mixed(mode: Mode, instant: str | None, dry_run: bool) -> None:
    if instant is not None and (dry_run or mode in {Mode.PLAN, Mode.EXPLAIN}):
        raise InvalidRequest(
            "--instant names an existing plan",
            expected="--instant with run or execute",
            found="--dry-run" if dry_run else str(mode),
        )
    if dry_run and mode is Mode.EXECUTE:
        raise InvalidRequest(
            "an existing plan is executed unchanged",
            expected="--dry-run with run or plan",
            found="execute --dry-run",
            next_step="`hudi-ops timeline TABLE` shows what a pending plan holds",
        )


def _tell_plan(result: PlanResult, as_json: bool, *, every: bool) -> None:
    if as_json:
        write_json(result.as_dict())
        return
    did = "planned" if result.instant is not None else "would be planned"
    if not result.planned:
        write(f"{result.table}: {result.note}")
    else:
        name = f"compaction {result.instant} " if result.instant is not None else ""
        write(f"{result.table}: {name}{did}: {result.note}")
        write(f"  {_cost_text(result.estimate)}, as estimated")
    shown = result.verdicts if every else result.planned
    if shown:
        write_table(
            ["partition", "file group", "logs", "log size", "base size", "becomes", "why"], list(map(_row, shown))
        )


def _row(one: Verdict) -> list[object]:
    return [
        one.partition_path or ".",
        one.file_id,
        one.log_files,
        sized(one.log_bytes),
        sized(one.base_bytes),
        str(one.reason),
        one.why,
    ]


def _cost_text(cost: Cost) -> str:
    memory = f", {sized(cost.memory_bytes)} of memory" if cost.memory_bytes is not None else ""
    return f"{sized(cost.bytes_in)} in, {sized(cost.bytes_out)} out, {cost.seconds:.1f} s{memory}"


def _done_text(done: CompactResult) -> str:
    if done.actual is None or done.estimate is None:
        at = f" {done.instant}" if done.instant else ""
        return f"{done.table}:{at} {done.note}"
    counts = ", ".join(f"{getattr(done, what):,} {what}" for what in ("updated", "deleted", "inserted", "ignored"))
    notes = []
    if done.replaced:
        notes.append(f"{counted(done.replaced, 'file group')} left out: replaced since it was planned")
    if done.corrupt_blocks:
        notes.append(f"{counted(done.corrupt_blocks, 'damaged block')} of log files passed over, as Apache Hudi does")
    if done.streamed:
        notes.append(f"{counted(done.streamed, 'file group')} streamed, larger than its limit of memory")
    return "\n".join([
        f"{done.table}: compaction {done.instant} merged {counted(done.log_files, 'log file')} of "
        f"{counted(done.slices, 'file group')}, {counted(done.rows, 'row')}",
        f"  log records: {counts}",
        f"  {_cost_text(done.actual)}, engine {done.engine} ({done.engine_reason})",
        f"  estimated {_cost_text(done.estimate)}{_off_text(done)}",
        *(f"  {note}" for note in notes),
    ])


def _off_text(done: CompactResult) -> str:
    if done.estimate_error is None:
        return ""
    parts = [
        f"{name} {value:+.0%}"
        for name, value in (
            ("bytes out", done.estimate_error.bytes_out),
            ("seconds", done.estimate_error.seconds),
            ("memory", done.estimate_error.memory_bytes),
        )
        if value is not None
    ]
    return f"; off by {', '.join(parts)}" if parts else ""
