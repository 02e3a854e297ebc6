"""`hudi-ops compact`: merge log files into base files; plan and execute in one call or two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hudi_ops.cli.arguments import AcceptFutureOption, JsonOption, TableArgument, parse_bytes, parse_seconds
from hudi_ops.cli.options import with_options
from hudi_ops.cli.output import counted
from hudi_ops.cli.planned import Mode, ModeArgument, ServiceCommand, cost_lines, note_text, tell_rewrite
from hudi_ops.config.requests import CompactionRequest
from hudi_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from hudi_ops.services.compaction.service import CompactResult

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
    mode: ModeArgument = Mode.RUN,
    *,
    request: CompactionRequest,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Merge log files into new base files."""
    _COMMAND.call(table, mode, request, accept_future=accept_future_instants, as_json=as_json)


def _done_text(done: CompactResult) -> str:
    if done.actual is None:
        return note_text(done)
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
        *cost_lines(done),
        *(f"  {note}" for note in notes),
    ])


_COMMAND = ServiceCommand(lambda table: table.compaction, "compacting", tell_rewrite("compaction"), _done_text)
