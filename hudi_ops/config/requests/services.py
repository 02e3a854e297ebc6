"""Request models of the services, one each; every interface takes its options from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import Field

from hudi_ops.clock import DURATION_MAX_S
from hudi_ops.config.doors import TEXT, TEXTS, Door
from hudi_ops.config.requests.clustering import ClusteringRequest
from hudi_ops.config.requests.compaction import CompactionRequest
from hudi_ops.config.requests.fields import Abandoned, Engine, PlanInstant, Resume
from hudi_ops.config.requests.indexing import IndexRequest
from hudi_ops.config.requests.request import Paths, PathText, Request, checked_name
from hudi_ops.config.requests.resize import ResizeRequest
from hudi_ops.errors import InvalidRequest

PolicyName: TypeAlias = Literal["commits", "hours", "versions"]
OperationName: TypeAlias = Literal[
    "upsert", "insert", "delete", "bulk_insert", "insert_overwrite", "insert_overwrite_table"
]

_REMOVALS = {"delete_partition": "delete-partition", "truncate": "truncate"}


def checked_operation(name: str) -> str:
    """Return the name of an operation that brings rows, in lower case.

    Raises:
        InvalidRequest: there is no such operation; names the command, if another one does it.
    """
    command = _REMOVALS.get(str(name).lower())
    next_step = f"call `hudi-ops {command}`: it takes no rows" if command else "pass one of these as the operation"
    return checked_name("operation", get_args(OperationName), name, next_step=next_step)


RETAIN_MAX = 2**31 - 1
"""Most commits, hours or slices that a clean retains: Apache Hudi's settings of it are Java integers."""


class CleanRequest(Request):
    """What a clean retains, and how its plan is executed."""

    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "policy": partial(checked_name, "clean policy", get_args(PolicyName), field="policy")
    }

    policy: PolicyName = Field(
        default="commits",
        title="Policy",
        description="What stays readable: commits, the state at each of the newest commits; hours, at any time of the last hours; "
        "versions, the newest slices of each file group.",
    )
    retain: int | None = Field(
        default=None,
        ge=1,
        le=RETAIN_MAX,
        title="Retain",
        description="How many commits, hours or slices are retained. Default: 10 commits, 24 hours, 3 slices.",
    )
    max_files: int | None = Field(
        default=None,
        ge=1,
        title="Max files",
        description="Delete at most this many files; the next clean deletes the others. Default: all.",
    )
    full: bool = Field(
        default=False,
        title="Full",
        description="List all partitions, not only those that writes touched since the last clean.",
    )
    files: Annotated[Paths, Door(option="file", form=None, separator=None)] = Field(
        default=(),
        title="Files",
        description="Explain these files only: paths below the table, or patterns such as origin=JFK/*.",
    )
    instant: PlanInstant = None
    abandoned: Abandoned = False
    dry_run: bool = Field(
        default=False, title="Dry run", description="Show the files that would be deleted; change nothing."
    )
    resume: Resume = False

    @property
    def engine(self) -> str:
        """Return where files are deleted: in this process."""
        return "local"

    @property
    def memory_bytes(self) -> int | None:
        """Return no limit of memory: no file is read."""
        return None


class IngestRequest(Request):
    """Which files of a folder an ingest takes, and what it does with their rows."""

    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {**Request.checks, "operation": checked_operation}

    source: Annotated[
        PathText | None, Door(form=TEXT, allows="a folder such as landing/trips, or a URI such as s3://bucket/landing")
    ] = Field(
        default=None,
        title="Source",
        description="Folder or URI with CSV, JSON lines or Parquet files, or one such file. Default: the source declared in "
        "tables.yaml.",
    )
    operation: OperationName = Field(
        default="upsert",
        title="Operation",
        description="upsert replaces rows with the same key, insert refuses them, delete removes rows by key; bulk_insert adds "
        "rows without looking keys up; insert_overwrite replaces the partitions that the rows touch, insert_overwrite_table all.",
    )
    evolve: bool = Field(
        default=False,
        title="Evolve",
        description="Let the table take new columns and wider types from the files.",
    )
    engine: Engine = "auto"
    max_files: int | None = Field(
        default=None,
        ge=1,
        title="Max files",
        description="Take at most this many files in this commit, by path. Default: all.",
    )
    max_bytes: Annotated[int | None, Door(unit="bytes")] = Field(
        default=None,
        ge=1,
        title="Max bytes",
        description="Stop adding files once this size is reached (always takes at least one). Default: all.",
    )
    retake: Annotated[Paths, Door(form=TEXTS, separator="\n", allows="paths of files below the source, one a line")] = (
        Field(
            default=(),
            title="Retake files",
            description="Files that were corrected after they were taken: their paths below the source. Upsert only.",
        )
    )
    min_age_s: Annotated[float, Door(option="min-age", unit="seconds", form=None)] = Field(
        default=0.0,
        ge=0,
        le=DURATION_MAX_S,
        title="Minimum age",
        description="Leave files that changed more recently for the next run; in seconds.",
    )
    dry_run: Annotated[bool, Door(form=None, separator=None)] = Field(
        default=False, title="Dry run", description="List the files that would be taken; change nothing."
    )


KEEP_MIN: int = Field(
    default=20, ge=1, title="Keep at least", description="Completed writes that stay on the timeline."
)
KEEP_MAX: int = Field(
    default=30,
    ge=1,
    title="Archive above",
    description="Archive once the timeline has more completed writes than this.",
)


class ArchiveRequest(Request):
    """How many writes stay on the timeline when older instants are archived."""

    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}

    keep_min: int = KEEP_MIN
    keep_max: int = KEEP_MAX
    dry_run: bool = Field(default=False, title="Dry run", description="Show what would be archived; change nothing.")


def checked_instant(text: str) -> str:
    """Return an instant.

    Raises:
        InvalidRequest: it is none.
    """
    if not re.fullmatch("[0-9]{17}", str(text)):
        raise InvalidRequest(
            f"{str(text)[:100]!r} is not an instant",
            expected="17 digits",
            found=repr(str(text)[:100]),
            next_step="copy the instant of a pending plan from `hudi-ops plans TABLE`",
            field="instant",
        )
    return text


class CancelRequest(Request):
    """Which plan is cancelled, and why."""

    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {"instant": checked_instant}

    instant: Annotated[str | None, Door(form=TEXT, allows="the instant of a plan, 17 digits")] = Field(
        default=None,
        title="Instant",
        description="Request time of the plan, 17 digits. Default: every plan that is overdue, as a clean does first.",
    )
    reason: Annotated[str | None, Door(form=TEXT, allows="one sentence")] = Field(
        default=None,
        title="Reason",
        description="One sentence; shown to the executor and in the list of plans.",
    )
    wait_s: Annotated[float, Door(option="wait", unit="seconds")] = Field(
        default=30.0,
        ge=0,
        le=3_600,
        title="Wait",
        description="How long to wait for a living executor to stop, in seconds; then the task is tried again.",
    )
    force: bool = Field(
        default=False,
        title="Force",
        description="Also cancel a plan that was not made as cancellable, or one of another program that has surely ended.",
    )

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        given = next((name for name in ("reason", "force") if getattr(self, name)), None)
        if self.instant is None and given is not None:
            raise InvalidRequest(
                f"{given} is given without an instant",
                expected="the instant of a plan",
                found="no instant",
                next_step=f"name the plan, or leave {given} out: then overdue plans are cancelled",
                field="instant",
            )


class VerifyRequest(Request):
    """What a verification of a table looks at."""

    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}

    deep: bool = Field(default=False, title="Deep", description="Read the keys of all files, and compare them.")
    index: bool = Field(default=True, title="Index", description="Compare the metadata table with the files.")
    sample: int | None = Field(
        default=None,
        ge=1,
        title="Sample",
        description="Open about this many files to compare the metadata table. Default: all.",
    )


class RecoverRequest(Request):
    """What a recovery of a table finishes."""

    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}

    abandoned: bool = Field(
        default=False,
        title="Abandoned",
        description="Finish pending rollbacks of Apache Hudi, too: its programs have surely ended.",
    )


SERVICES: Mapping[str, type[Request]] = {
    "ingestion": IngestRequest,
    "compaction": CompactionRequest,
    "clustering": ClusteringRequest,
    "resizing": ResizeRequest,
    "clean": CleanRequest,
    "cancel": CancelRequest,
    "indexing": IndexRequest,
    "archive": ArchiveRequest,
    "verify": VerifyRequest,
    "recover": RecoverRequest,
}
"""Services that Airflow runs, with their requests."""
