"""`hudi-ops cluster`: merge small files and sort rows; plan and execute in one call or two."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from hudi_ops.cli.arguments import AcceptFutureOption, JsonOption, TableArgument, split_names
from hudi_ops.cli.options import with_options
from hudi_ops.cli.output import counted
from hudi_ops.cli.planned import Mode, ModeArgument, ServiceCommand, cost_lines, note_text, rewrite_notes, tell_rewrite
from hudi_ops.config.requests import ClusteringRequest

if TYPE_CHECKING:
    from hudi_ops.services.clustering.service import ClusterResult

CLUSTER_HELP = """Merge the small files of a table into larger ones, and sort its rows by columns.

MODE run (the default) goes on with a plan that was left, else makes one and executes it. plan makes one and ends; execute executes
one, ours or Apache Hudi's, and running it again after a failure goes on; explain says of each file group why it would be
planned, or why not. Ingestion goes on all the while: the plan groups that it writes to are left out, and the others complete.

--dry-run shows what a plan would hold and what it would cost; what it did cost, and how far off that was, is said at the end.

\b
hudi-ops cluster flights --dry-run
hudi-ops cluster flights --sort-by origin,departure --order z-order
hudi-ops cluster flights plan --target-size 256MB --partition 'origin=J*'
hudi-ops cluster flights execute --instant 20261121101500123
hudi-ops cluster flights explain
"""


def _request(**values: Any) -> ClusteringRequest:
    """Return the request; `--sort-by` takes several columns, and may be given several times."""
    if "sort_by" in values:
        values["sort_by"] = tuple(chain.from_iterable(split_names(one, "--sort-by") or () for one in values["sort_by"]))
    return ClusteringRequest(**values)


@with_options(ClusteringRequest, "resume", make=_request)
def cluster(
    table: TableArgument,
    mode: ModeArgument = Mode.RUN,
    *,
    request: ClusteringRequest,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Merge small files and sort rows."""
    _COMMAND.call(table, mode, request, accept_future=accept_future_instants, as_json=as_json)


def _done_text(done: ClusterResult) -> str:
    if done.actual is None:
        return note_text(done)
    return "\n".join([
        f"{done.table}: clustering {done.instant} rewrote {counted(done.replaced, 'file group')} into "
        f"{counted(done.files, 'file')}, {counted(done.rows, 'row')}",
        *cost_lines(done),
        *rewrite_notes(done, done.spilled, "sorted on disk"),
    ])


_COMMAND = ServiceCommand(lambda table: table.clustering, "clustering", tell_rewrite("clustering"), _done_text)
