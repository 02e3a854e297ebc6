"""Request models of the services, one each; every interface takes its options from them.

Imports pydantic only, since DAG files import it. A wrong value is an `InvalidRequest` that says what is allowed.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hudi_ops.config.doors import TEXT, TEXTS, Door
from hudi_ops.errors import InvalidRequest

EngineName: TypeAlias = Literal["auto", "local", "spark"]
StrategyName: TypeAlias = Literal["size", "count", "commits", "age"]
OperationName: TypeAlias = Literal[
    "upsert", "insert", "delete", "bulk_insert", "insert_overwrite", "insert_overwrite_table"
]
MetadataPartitionName: TypeAlias = Literal["files", "column_stats", "partition_stats", "bloom_filters", "record_index"]

_PARTITIONS = {
    # Apache Hudi's writers build the first two themselves; a form that offers one more has something to build.
    "default": ["column_stats", "partition_stats", "bloom_filters"],
    "items": {"type": "string", "enum": list(get_args(MetadataPartitionName))},
    "examples": list(get_args(MetadataPartitionName)),
}

M = TypeVar("M", bound="Request")

_REMOVALS = {"delete_partition": "delete-partition", "truncate": "truncate"}


def checked_engine(name: str) -> str:
    """Return the engine name.

    Raises:
        InvalidRequest: there is no such engine.
    """
    if name not in get_args(EngineName):
        raise InvalidRequest(f"unknown engine {name!r}", expected="auto, local or spark", found=str(name))
    return name


def checked_strategy(name: str) -> str:
    """Return the name of a compaction strategy in lower case.

    Raises:
        InvalidRequest: there is no such strategy.
    """
    names = get_args(StrategyName)
    if str(name).lower() not in names:
        raise InvalidRequest(f"unknown compaction strategy {name!r}", expected=" or ".join(names), found=str(name))
    return name.lower()


def checked_operation(name: str) -> str:
    """Return the name of an operation that brings rows, in lower case.

    Raises:
        InvalidRequest: there is no such operation; names the command, if another one does it.
    """
    names, wanted = get_args(OperationName), str(name).lower()
    if wanted not in names:
        command = _REMOVALS.get(wanted)
        raise InvalidRequest(
            f"unknown operation {name!r}",
            expected=" or ".join(names),
            found=str(name),
            next_step=f"call `hudi-ops {command}`: it takes no rows"
            if command
            else "pass one of these as the operation",
        )
    return wanted


def listed(value: Any) -> Any:
    """Return a single name as a tuple of one, not as a list of its letters."""
    return (value,) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(listed)]


class Request(BaseModel):
    """Base of the requests: frozen, without unknown fields; wrong values raise `InvalidRequest`.

    Attributes:
        renamed: old names of fields that are accepted for one release, and their new names.
        checks: for some fields a function that returns the value to use, or says better than pydantic what is wrong with it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    renamed: ClassVar[Mapping[str, str]] = {}
    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {"engine": checked_engine}

    def __init__(self, **values: Any) -> None:
        found = current_names(values, self.renamed)
        for name, check in self.checks.items():
            if found.get(name) is not None:
                found[name] = check(found[name])
        try:
            super().__init__(**found)
        except ValidationError as error:
            raise invalid_request(error, type(self).model_fields) from None


class CompactionRequest(Request):
    """What a compaction plans, and how its plan is executed."""

    renamed: ClassVar[Mapping[str, str]] = {"least": "threshold"}
    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {**Request.checks, "strategy": checked_strategy}

    strategy: StrategyName = Field(
        default="size",
        title="Strategy",
        description="Which file groups come first: size, most bytes of log files; count, most log files; commits, most delta "
        "commits since they were compacted; age, oldest log file.",
    )
    threshold: float | None = Field(
        default=None,
        ge=0,
        title="Minimum to compact",
        description="Skip file groups below this; the unit depends on the strategy: bytes for size, log files for count, delta "
        "commits for commits, seconds for age. Default: 1 byte, 5, 5, 1 hour.",
    )
    max_bytes: Annotated[int | None, Door(unit="bytes")] = Field(
        default=None,
        ge=1,
        title="Max bytes",
        description="Stop adding file groups once this size is reached (always takes at least one). Default: all.",
    )
    partitions: Annotated[
        Names,
        Door(
            option="partition",
            form=TEXT,
            allows="paths such as origin=JFK or patterns such as origin=J*, separated by commas",
        ),
    ] = Field(
        default=(),
        title="Partitions",
        description="Paths such as origin=JFK, or patterns such as origin=J*. Default: all.",
    )
    instant: Annotated[str | None, Door(form=None)] = Field(
        default=None,
        title="Instant",
        description="Execute this plan. Default: the oldest plan without a live executor.",
    )
    engine: EngineName = Field(
        default="auto",
        title="Engine",
        description="Where the work runs: local is one process, spark the executors; auto chooses by size.",
    )
    memory_bytes: Annotated[int | None, Door(option="memory", unit="bytes", form=None)] = Field(
        default=None,
        ge=1,
        title="Memory",
        description="Memory that one file group may take; larger ones are streamed. Default: by the memory of the process.",
    )
    abandoned: Annotated[bool, Door(form=None)] = Field(
        default=False,
        title="Abandoned",
        description="Apache Hudi began to execute the plan and has ended, although no heartbeat shows it.",
    )
    dry_run: Annotated[bool, Door(form=None, separator=None)] = Field(
        default=False, title="Dry run", description="Show the plan and its cost; change nothing."
    )
    resume: Annotated[bool, Door(form=None, separator=None)] = Field(
        default=False,
        title="Resume",
        description="Return a pending plan without a live executor, if there is one, instead of a new plan.",
    )


class IngestRequest(Request):
    """Which files of a folder an ingest takes, and what it does with their rows."""

    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {**Request.checks, "operation": checked_operation}

    source: Annotated[
        str | None, Door(form=TEXT, allows="a folder such as landing/trips, or a URI such as s3://bucket/landing")
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
    engine: EngineName = Field(
        default="auto",
        title="Engine",
        description="Where the work runs: local is one process, spark the executors; auto chooses by size.",
    )
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
    retake: Annotated[Names, Door(form=TEXTS, separator="\n", allows="paths of files below the source, one a line")] = (
        Field(
            default=(),
            title="Retake files",
            description="Files that were corrected after they were taken: their paths below the source. Upsert only.",
        )
    )
    min_age_s: Annotated[float, Door(option="min-age", unit="seconds", form=None)] = Field(
        default=0.0,
        title="Minimum age",
        description="Leave files that changed more recently for the next run; in seconds.",
    )
    dry_run: Annotated[bool, Door(form=None, separator=None)] = Field(
        default=False, title="Dry run", description="List the files that would be taken; change nothing."
    )


class IndexRequest(Request):
    """Which partitions of the metadata table are built."""

    renamed: ClassVar[Mapping[str, str]] = {"again": "rebuild"}

    partitions: Annotated[tuple[str, ...] | None, BeforeValidator(listed), Door(form=_PARTITIONS)] = Field(
        default=None,
        title="Partitions",
        description="files, column_stats, partition_stats, bloom_filters, record_index; files is built with the others where it is "
        "missing. Without names: the first three.",
    )
    rebuild: bool = Field(
        default=False,
        title="Rebuild existing",
        description="Drop and rebuild the chosen partitions, or all of them where none is chosen. Unavailable until finished.",
    )
    engine: EngineName = Field(
        default="auto",
        title="Engine",
        description="Where files are read: local is one process, spark the executors; auto chooses by size.",
    )
    dry_run: Annotated[bool, Door(form=None, separator=None)] = Field(
        default=False, title="Dry run", description="Show what would be built; change nothing."
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
    "metadata": IndexRequest,
    "verify": VerifyRequest,
    "recover": RecoverRequest,
}
"""Services that Airflow runs, with their requests."""


def merged(model: type[M], given: M | None, keywords: Mapping[str, Any]) -> M:
    """Return the given values, with keywords in place of some of them."""
    if given is not None and not keywords:
        return given
    return model(**{**(dict(given) if given is not None else {}), **current_names(keywords, model.renamed)})


def current_names(values: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Return the values under the current names of their fields, with a warning for an old name.

    Raises:
        InvalidRequest: a value is given by its old and its new name, and they differ.
    """
    found = dict(values)
    for old, new in renamed.items():
        if (value := found.pop(old, None)) is None:
            continue
        if (given := found.get(new)) is not None and given != value:
            raise InvalidRequest(
                f"{new} and its old name {old} are both given, and differ",
                expected="one of them",
                found=f"{new}={given!r} and {old}={value!r}",
                next_step=f"leave {old} out",
            )
        warnings.warn(
            f"{old} is now called {new}; the old name goes with the next release", FutureWarning, stacklevel=4
        )
        found[new] = value
    return found


def invalid_request(error: ValidationError, known: Iterable[str]) -> InvalidRequest:
    """Return the first problem that pydantic found, as the error that callers expect.

    Args:
        error: pydantic's.
        known: names of the fields; the nearest is named for an unknown one.
    """
    problem = error.errors(include_url=False)[0]
    name = ".".join(str(part) for part in problem["loc"])
    value, limits = problem["input"], problem.get("ctx", {})
    if problem["type"] == "extra_forbidden":
        return unknown_keyword(name, known)
    if problem["type"] == "missing":
        return InvalidRequest(f"{name} is missing", expected=f"a value for {name}", next_step=f"pass {name}")
    if "ge" in limits:
        least = limits["ge"]
        return InvalidRequest(
            f"{name} is below {least}", expected=f"at least {least}, or nothing", found=str(value), field=name
        )
    expected = problem["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return InvalidRequest(f"{name} cannot be {value!r}", expected=expected, found=repr(value), field=name)


def refuse_unknown(keywords: Iterable[str], known: Iterable[str], *others: str) -> None:
    """Refuse the first unknown keyword, and name the nearest known one.

    Raises:
        InvalidRequest: there is one.
    """
    names = set(known)
    for keyword in keywords:
        if keyword not in names:
            error: InvalidRequest = unknown_keyword(keyword, [*names, *others])
            raise error


def unknown_keyword(name: str, known: Iterable[str]) -> InvalidRequest:
    """Return the error for a keyword that does not exist; it names the nearest one."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return InvalidRequest(
        f"unknown keyword {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""),
        expected=" or ".join(close or names),
        found=name,
        next_step=f"use {close[0]!r}, or leave it out" if close else "leave it out",
    )
