"""Share fields among the requests of planned services: types, checks and descriptions."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field

from hudi_ops.config.doors import TEXT, Door
from hudi_ops.config.requests.cancel import checked_cancel
from hudi_ops.config.requests.request import EngineName, Names
from hudi_ops.config.requests.starvation import checked_guard

MaxBytes: TypeAlias = Annotated[
    int | None,
    Door(unit="bytes"),
    Field(
        ge=1,
        title="Max bytes",
        description="Stop adding file groups once this size is reached (always takes at least one). Default: all.",
    ),
]
CancelText: TypeAlias = Annotated[
    str | None,
    BeforeValidator(checked_cancel),
    Door(
        form={
            **TEXT,
            "examples": ["never", "cancellable", "after 6h", "after 50 instants", "after 6h or 50 instants"],
        },
        allows="never, cancellable, or a limit such as after 6h or 50 instants",
    ),
    Field(
        title="Cancel",
        description="Whether a cancel may end the plan: never, cancellable, or cancellable and overdue after a limit, such as "
        "after 6h, after 50 instants, after 6h or 50 instants. Default: cancellable for clusterings and resizes; for "
        "compactions as the table declares, else never.",
    ),
]
StarvationText: TypeAlias = Annotated[
    str | None,
    BeforeValidator(checked_guard),
    Door(
        form={**TEXT, "examples": ["halve after 3", "colder after 3", "wait 60s after 3"]},
        allows="halve after 3, colder after 3, or wait 60s after 3",
    ),
    Field(
        title="Starvation guard",
        description="What a plan does about file groups of which writes cancelled a number of plans, such as 3: halve after 3, "
        "half of them are planned; colder after 3, those of the partitions written last are left out; wait 60s after 3, writes "
        "that would cancel the plan wait for it up to 60 s. Default: nothing.",
    ),
]
Partitions: TypeAlias = Annotated[
    Names,
    Door(
        option="partition",
        form=TEXT,
        allows="paths such as origin=JFK or patterns such as origin=J*, separated by commas",
    ),
    Field(title="Partitions", description="Paths such as origin=JFK, or patterns such as origin=J*. Default: all."),
]
PlanInstant: TypeAlias = Annotated[
    str | None,
    Door(form=None),
    Field(title="Instant", description="Execute this plan. Default: the oldest plan without a live executor."),
]
Engine: TypeAlias = Annotated[
    EngineName,
    Field(
        title="Engine",
        description="Where the work runs: local is one process, spark the executors; auto chooses by size.",
    ),
]
Memory: TypeAlias = Annotated[
    int | None,
    Door(option="memory", unit="bytes", form=None),
    Field(
        ge=1,
        title="Memory",
        description="Memory that one file group, plan group or bucket may take; larger ones are streamed or go to disk. Default: "
        "by the memory of the process.",
    ),
]
Abandoned: TypeAlias = Annotated[
    bool,
    Door(form=None),
    Field(
        title="Abandoned",
        description="Apache Hudi began to execute the plan and has ended, although no heartbeat shows it.",
    ),
]
DryRun: TypeAlias = Annotated[
    bool,
    Field(title="Dry run", description="Show the plan and its cost; change nothing."),
]
Resume: TypeAlias = Annotated[
    bool,
    Door(form=None, separator=None),
    Field(
        title="Resume",
        description="Return a pending plan without a live executor, if there is one, instead of a new plan.",
    ),
]
