"""`hudi-ops clean`: delete the files of old slices; plan and execute in one call or two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hudi_ops.cli.arguments import AcceptFutureOption, JsonOption, TableArgument
from hudi_ops.cli.options import with_options
from hudi_ops.cli.output import counted, sized, write, write_table
from hudi_ops.cli.planned import Mode, ModeArgument, ServiceCommand, note_text, tell_measures
from hudi_ops.config.requests import CleanRequest, merged
from hudi_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from hudi_ops.services.base.choice import Verdict
    from hudi_ops.services.base.result import EndedPlans, PlanResult
    from hudi_ops.services.clean.result import CleanOutcome

CLEAN_HELP = """Delete the files that no retained instant needs.

MODE run (the default) goes on with a plan that was left, else makes one and executes it. plan makes one and ends; execute executes
one, ours or Apache Hudi's, and running it again after a failure goes on; explain says of each file what keeps it: the newest
commit, the policy, a savepoint, a pending plan or a hold.

First a clean cancels the plans of other services that are overdue by their own limits, and removes cancelled plans, since these
hold files back. With the table's setting cancel.hard it cancels running ones, too. It names each; --dry-run changes nothing.
`hudi-ops plans TABLE` shows plans and limits.

Reads as of a deleted state are refused afterwards. Savepoints and holds keep theirs; Apache Hudi's own cleaner does not know holds.

\b
hudi-ops clean flights --dry-run
hudi-ops clean flights --policy hours --retain 48
hudi-ops clean flights plan --max-files 10000
hudi-ops clean flights execute --instant 20261121101500123
hudi-ops clean flights explain --file 'origin=JFK/*'
"""


@with_options(CleanRequest, "resume", "policy")
def clean(
    table: TableArgument,
    mode: ModeArgument = Mode.RUN,
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="commits|hours|versions",
            help=f"{CleanRequest.model_fields['policy'].description} Default: commits.",
            show_default=False,
        ),
    ] = None,
    request: CleanRequest,
    accept_future_instants: AcceptFutureOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete the files of old slices."""
    if policy:
        request = merged(CleanRequest, request, {"policy": _one_of(policy)})
    _refuse_files(mode, request)
    _COMMAND.call(table, mode, request, accept_future=accept_future_instants, as_json=as_json)


def _one_of(policies: list[str]) -> str:
    """Return the one policy that was given.

    Raises:
        InvalidRequest: two were given.
    """
    if len(policies) > 1:
        raise InvalidRequest(
            "a clean has one policy",
            expected="one --policy",
            found=" and ".join(policies),
            next_step="leave one of them out; `explain` shows what each keeps",
        )
    return policies[0]


def _refuse_files(mode: Mode, request: CleanRequest) -> None:
    if request.files and mode is not Mode.EXPLAIN:
        raise InvalidRequest(
            "--file is for explain: a clean takes all files that its policy drops",
            expected="`hudi-ops clean TABLE explain --file PATH`",
            found=f"{mode} --file",
        )


def _tell_plan(result: PlanResult, every: bool) -> None:
    for line in _ended_lines(result.ended_first, dry_run=result.dry_run):
        write(f"{result.table}: {line}")
    name = f"clean {result.instant} planned: " if result.instant is not None else ""
    would = "would be deleted: " if result.dry_run and result.planned else ""
    write(f"{result.table}: {name}{would}{result.note}")
    shown = result.verdicts if every else result.planned
    if shown:
        write_table(["partition", "file", "size", "becomes", "why"], list(map(_row, shown)))
    if every:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in result.counts.items() if count)
        write(f"  files: {counts or 'none'}")
    tell_measures(result)


def _row(one: Verdict) -> list[object]:
    file = getattr(one, "file", one.file_id)
    return [one.partition_path or ".", file, sized(one.base_bytes + one.log_bytes), str(one.reason), one.why]


def _ended_lines(ended: EndedPlans, *, dry_run: bool) -> list[str]:
    """Return a line for each plan of another service that was, or would be, ended first."""
    verb = "would be" if dry_run else "was"
    lines = []
    for instant in sorted({*ended.cancelled, *ended.removed, *ended.waiting}):
        is_overdue, stays = instant in ended.cancelled, instant in ended.waiting
        plan = f"overdue plan {instant} {verb} cancelled" if is_overdue else f"cancelled plan {instant}"
        removed = "" if is_overdue else f" {verb} removed"
        lines.append(plan + ("; it stays until its executor stops" if stays else removed))
    return lines


def _done_text(done: CleanOutcome) -> str:
    ended = [f"{done.table}: {line}" for line in _ended_lines(done.ended_first, dry_run=False)]
    return "\n".join([*ended, _cleaned_text(done)])


def _cleaned_text(done: CleanOutcome) -> str:
    if done.note or done.instant is None:
        return note_text(done)
    parts = [
        f"deleted {counted(done.deleted, 'file')} of {counted(done.partitions, 'partition')}, {sized(done.bytes_deleted)}"
    ]
    if done.gone:
        parts.append(f"{counted(done.gone, 'file')} did not exist any more")
    if done.held_back:
        parts.append(f"{counted(done.held_back, 'file')} held back: `explain` says why")
    if done.ring_files:
        parts.append(f"{counted(done.ring_files, 'old ring file')} deleted")
    if done.earliest_retained:
        parts.append(f"instants from {done.earliest_retained} on stay readable")
    return f"{done.table}: clean {done.instant} {'; '.join(parts)}"


_COMMAND = ServiceCommand(lambda table: table.clean, "cleaning", _tell_plan, _done_text)
