"""Share the commands of planned services: modes, the call, plan, cost and error."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import typer

from hudi_ops.cli.arguments import locate, open_table
from hudi_ops.cli.output import counted, sized, write, write_json, write_table
from hudi_ops.cli.progress import watching
from hudi_ops.errors import Cancelled, Conflict, InvalidRequest

if TYPE_CHECKING:
    from hudi_ops.services.archive.result import ArchiveResult
    from hudi_ops.services.base.choice import Verdict
    from hudi_ops.services.base.cost import Cost, CostError
    from hudi_ops.services.base.result import PlanResult, ServiceResult
    from hudi_ops.services.compaction.service import CompactResult
    from hudi_ops.services.rewrite.result import RewriteResult
    from hudi_ops.table.services import ServiceApi, ServiceRequest
    from hudi_ops.table.table import Table

D = TypeVar("D", bound="ServiceResult")


class Mode(enum.StrEnum):
    """What the command of a planned service does."""

    RUN = "run"
    PLAN = "plan"
    EXECUTE = "execute"
    EXPLAIN = "explain"


ModeArgument = Annotated[Mode, typer.Argument(metavar="[MODE]", help="run, plan, execute or explain.")]


def mode_and_partition(words: Sequence[str | None]) -> tuple[Mode, str | None]:
    """Return what optional words of a call mean, in either order: a mode and a partition.

    Raises:
        InvalidRequest: two modes, or two words of which none is a mode.
    """
    given = [word for word in words if word is not None]
    modes = [word for word in given if word in set(Mode)]
    others = [word for word in given if word not in modes]
    if len(modes) > 1 or len(others) > 1:
        raise InvalidRequest(
            f"{' and '.join(given)} are not one partition and one mode",
            expected=f"at most one partition, and one of {', '.join(Mode)}, in any order",
            found=" ".join(given),
            next_step="name further partitions, and one that is called like a mode, by --partition",
        )
    return Mode(modes[0]) if modes else Mode.RUN, others[0] if others else None


@dataclass(frozen=True)
class ServiceCommand(Generic[D]):
    """Command that plans, explains, executes or runs a service of a table.

    Attributes:
        service: returns the service of a table.
        doing: its work, for the progress bar: `compacting`.
        tell_plan: prints a plan; its second argument says whether to print all verdicts.
        tell_done: returns the text of an execution.
    """

    service: Callable[[Table], ServiceApi[Any, D]]
    doing: str
    tell_plan: Callable[[PlanResult, bool], None]
    tell_done: Callable[[D], str]

    def call(self, table: str, mode: Mode, request: ServiceRequest, *, accept_future: bool, as_json: bool) -> None:
        """Do what the mode says, and print the result.

        Args:
            table: the TABLE argument.
            mode: what is done.
            request: of the service.
            accept_future: let new instants follow one in the future.
            as_json: print one JSON object, and no text.

        Raises:
            InvalidRequest: options that exclude each other. Raised by `refuse_mixed`.
        """
        refuse_mixed(mode, request)
        location = locate(table)
        with open_table(location, accept_future=accept_future) as opened:
            api = self.service(opened)
            if mode in {Mode.PLAN, Mode.EXPLAIN} or request.dry_run:
                made = api.explain(request) if mode is Mode.EXPLAIN else api.plan(request)
                if as_json:
                    write_json(made.as_dict())
                else:
                    self.tell_plan(made, mode is Mode.EXPLAIN)
                return
            with watching(f"{self.doing} {location.name}", as_json=as_json) as tell:
                try:
                    done = (api.execute if mode is Mode.EXECUTE else api.run)(request, progress=tell)
                except (Cancelled, Conflict) as error:
                    done = api.lost(error)
        if as_json:
            write_json(done.as_dict())
        else:
            write(self.tell_done(done))


def refuse_mixed(mode: Mode, request: ServiceRequest) -> None:
    """Refuse options that a mode does not have.

    Raises:
        InvalidRequest: an instant to plan, or a dry run of an execution.
    """
    if request.instant is not None and (request.dry_run or mode in {Mode.PLAN, Mode.EXPLAIN}):
        raise InvalidRequest(
            "--instant names an existing plan",
            expected="--instant with run or execute",
            found="--dry-run" if request.dry_run else str(mode),
        )
    if request.dry_run and mode is Mode.EXECUTE:
        raise InvalidRequest(
            "an existing plan is executed unchanged",
            expected="--dry-run with run or plan",
            found="execute --dry-run",
            next_step="`hudi-ops plans TABLE` lists pending plans",
        )


def tell_measures(result: PlanResult | ArchiveResult) -> None:
    """Print what the table's health measures of the service's work."""
    from hudi_ops.health.verdict import said_value

    said = [
        f"{name} {said_value(value, 's' if name.endswith('.age') else '')}"
        for name, value in result.measures.items()
        if value is not None
    ]
    if said:
        write(f"  measured: {', '.join(said)}; `hudi-ops health` compares them with their targets")


def tell_rewrite(action: str) -> Callable[[PlanResult, bool], None]:
    """Return a function that prints a plan to rewrite file groups, and its cost."""

    def tell(result: PlanResult, every: bool) -> None:
        if not result.planned:
            write(f"{result.table}: {result.note}")
        else:
            did = f"{action} {result.instant} planned" if result.instant is not None else "would be planned"
            write(f"{result.table}: {did}: {result.note}")
            write(f"  {_cost_text(result.estimate)}, as estimated")
        for ended in result.ended_plans:
            write(f"  cancelled plan {ended}, which works on the same file groups and has a lower priority")
        tell_measures(result)
        shown = result.verdicts if every else result.planned
        if shown:
            head = ["partition", "file group", "logs", "log size", "base size", "becomes", "why"]
            write_table(head, list(map(_row, shown)))

    return tell


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


def cost_lines(done: CompactResult | RewriteResult) -> list[str]:
    """Return the lines that say what a run took, what was expected, and the difference."""
    if done.actual is None or done.estimate is None:
        return []
    return [
        f"  {_cost_text(done.actual)}, engine {done.engine} ({done.engine_reason})",
        f"  estimated {_cost_text(done.estimate)}{_off_text(done.estimate_error)}",
    ]


def rewrite_notes(done: RewriteResult, larger: int, how: str) -> list[str]:
    """Return the notes on an execution: plan groups left out, and log records.

    Args:
        done: its result.
        larger: number of plan groups that did not fit into memory.
        how: what was done with these plan groups: `sorted on disk`.
    """
    notes = []
    if done.left_out:
        planned = counted(done.groups + done.left_out, "plan group")
        notes.append(f"left out {done.left_out:,} of {planned}, which writes touched")
    if done.log_records:
        notes.append(f"log records: {done.log_records:,} merged, {counted(done.deleted, 'row')} deleted")
    if larger:
        notes.append(f"{counted(larger, 'plan group')} {how}, larger than the limit of memory")
    return [f"  {note}" for note in notes]


def note_text(done: ServiceResult) -> str:
    """Return the text of a call that executed nothing: the reason, from its note."""
    at = f" {done.instant}" if done.instant else ""
    return f"{done.table}:{at} {done.note}"


def _cost_text(cost: Cost) -> str:
    memory = f", {sized(cost.memory_bytes)} of memory" if cost.memory_bytes is not None else ""
    return f"{sized(cost.bytes_in)} in, {sized(cost.bytes_out)} out, {cost.seconds:.1f} s{memory}"


def _off_text(error: CostError | None) -> str:
    errors: Mapping[str, float | None] = (
        {"bytes out": error.bytes_out, "seconds": error.seconds, "memory": error.memory_bytes} if error else {}
    )
    parts = [f"{name} {value:+.0%}" for name, value in errors.items() if value is not None]
    return f"; off by {', '.join(parts)}" if parts else ""
