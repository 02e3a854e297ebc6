"""`hudi-ops resize`: split and merge the buckets of hash rings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hudi_ops.cli.arguments import AcceptFutureOption, JsonOption, TableArgument
from hudi_ops.cli.options import with_options
from hudi_ops.cli.output import counted
from hudi_ops.cli.planned import (
    ServiceCommand,
    cost_lines,
    mode_and_partition,
    note_text,
    rewrite_notes,
    tell_rewrite,
)
from hudi_ops.config.requests import ResizeRequest, merged

if TYPE_CHECKING:
    from hudi_ops.services.resize.service import ResizeResult

RESIZE_HELP = """Split the large buckets of a table with hash rings, and merge the small ones.

MODE run (the default) goes on with a plan that was left, else makes one and executes it. plan makes one and ends; execute
executes one, ours or Apache Hudi's, and running it again after a failure goes on; explain says of each bucket why it would be
resized, or why not. Ingestion goes on all the while: it writes its rows to the old and the new buckets until the plan completes.

PARTITION is a path or a pattern. It and MODE may stand in either order; --partition names further ones, and one that is called
like a mode. A plan takes one partition, the one with most to do, unless --max-partitions says otherwise.

--dry-run shows what a plan would hold and what it would cost; what it did cost, and how far off that was, is said at the end.

\b
hudi-ops resize flights --dry-run
hudi-ops resize flights origin=JFK --split-size 500MB --merge-size 50MB
hudi-ops resize flights plan --max-partitions 20
hudi-ops resize flights execute --instant 20261121101500123
hudi-ops resize flights 'origin=J*' explain
"""

_Word = Annotated[str | None, typer.Argument(metavar="[PARTITION]", show_default=False, help="A path, or a pattern.")]
_Other = Annotated[
    str | None, typer.Argument(metavar="[MODE]", show_default=False, help="run, plan, execute or explain.")
]


@with_options(ResizeRequest, "resume")
def resize(
    table: TableArgument,
    partition: _Word = None,
    mode: _Other = None,
    *,
    request: ResizeRequest,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Split and merge buckets."""
    wanted, path = mode_and_partition((partition, mode))
    if path is not None:
        request = merged(ResizeRequest, request, {"partitions": (path, *request.partitions)})
    _COMMAND.call(table, wanted, request, accept_future=accept_future_instants, as_json=as_json)


def _done_text(done: ResizeResult) -> str:
    if done.actual is None:
        return note_text(done)
    did = [counted(done.splits, "split")] * bool(done.splits) + [counted(done.merges, "merge")] * bool(done.merges)
    return "\n".join([
        f"{done.table}: resize {done.instant} made {counted(done.files, 'bucket')} of {done.replaced:,} by "
        f"{' and '.join(did)}, {counted(done.rows, 'row')}",
        *cost_lines(done),
        *rewrite_notes(done, done.streamed, "rewritten in parts"),
    ])


_COMMAND = ServiceCommand(lambda table: table.resize, "resizing", tell_rewrite("resize"), _done_text)
