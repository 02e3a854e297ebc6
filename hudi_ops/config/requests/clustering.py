"""Request of the clustering service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import Field

from hudi_ops.config.doors import TEXT, Door
from hudi_ops.config.requests.fields import (
    Abandoned,
    CancelText,
    DryRun,
    Engine,
    MaxBytes,
    Memory,
    Partitions,
    PlanInstant,
    Resume,
    StarvationText,
)
from hudi_ops.config.requests.request import Names, Request, checked_name
from hudi_ops.errors import InvalidRequest

OrderName: TypeAlias = Literal["none", "linear", "z-order", "hilbert"]

TARGET_BYTES = 120 << 20
"""Default size of the files that a clustering writes, in bytes: as large as ingestion lets a base file grow."""

GROUP_BYTES_MAX = 2 << 30
"""Default of the most bytes that are sorted together: Apache Hudi's default."""

CURVE_COLUMNS_MAX = 8
"""Columns of a space-filling curve: each gets at least eight bits of its rank."""


class ClusteringRequest(Request):
    """What a clustering plans, and how its plan is executed."""

    checks: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        **Request.checks,
        "order": partial(checked_name, "order", get_args(OrderName), field="order"),
    }

    sort_by: Annotated[
        Names,
        Door(form=TEXT, allows="columns such as origin, departure, separated by commas"),
    ] = Field(
        default=(),
        title="Sort by",
        description="Columns by which rows are sorted. Default: rows are not sorted, small files are merged.",
    )
    order: OrderName | None = Field(
        default=None,
        title="Order",
        description="How rows are sorted: linear, by the first column, then by the next; z-order or hilbert, by all columns alike, "
        "for filters on any of them; none, small files are merged as they are. Default: linear with sort columns, else none.",
    )
    target_bytes: Annotated[int, Door(option="target-size", unit="bytes")] = Field(
        default=TARGET_BYTES,
        ge=1,
        title="Target size",
        description="Size of the files that are written, in bytes.",
    )
    small_bytes: Annotated[int | None, Door(option="small-file-limit", unit="bytes")] = Field(
        default=None,
        ge=1,
        title="Small file limit",
        description="Files below this are merged, in bytes; it is at most the target size. Default: five sixths of that.",
    )
    group_bytes: Annotated[int, Door(option="group-size", unit="bytes", form=None)] = Field(
        default=GROUP_BYTES_MAX,
        ge=1,
        title="Group size",
        description="Rows of this size are sorted together, in bytes; larger partitions are split.",
    )
    max_bytes: MaxBytes = None
    rewrite: bool = Field(
        default=False,
        title="Rewrite all",
        description="Sort files again that are in this order already.",
    )
    partitions: Partitions = ()
    cancel: CancelText = None
    on_overlap: Literal["shrink", "cancel"] = Field(
        default="shrink",
        title="On overlap",
        description="What a write to file groups of the plan does: shrink, the groups are left out of the plan; cancel, the write "
        "ends the plan first.",
    )
    starvation: StarvationText = None
    instant: PlanInstant = None
    engine: Engine = "auto"
    memory_bytes: Memory = None
    abandoned: Abandoned = False
    dry_run: DryRun = False
    resume: Resume = False

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        """Refuse sizes and orders that contradict each other.

        Raises:
            InvalidRequest: names the two fields.
        """
        wrong = self._contradiction()
        if wrong is not None:
            field, what, expected, found = wrong
            raise InvalidRequest(what, expected=expected, found=found, field=field)

    def _contradiction(self) -> tuple[str, str, str, str] | None:
        """Return a contradiction as field, what is wrong, what is expected and what was found."""
        columns, order = self.sort_by, self.order
        twice = next((name for number, name in enumerate(columns) if name in columns[:number]), None)
        if twice is not None:
            return "sort_by", f"sort column {twice!r} is given twice", "each column once", twice
        if order not in {None, "none"} and not columns:
            return "sort_by", f"order {order} is given without sort columns", "sort_by with columns", "none"
        if order == "none" and columns:
            return "order", "order none is given with sort columns", "another order", ", ".join(columns)
        if order in {"z-order", "hilbert"} and len(columns) > CURVE_COLUMNS_MAX:
            expected = f"at most {CURVE_COLUMNS_MAX} sort columns for {order}"
            return "sort_by", "too many sort columns", expected, str(len(columns))
        if self.small_bytes is not None and self.small_bytes > self.target_bytes:
            expected = f"at most target_bytes, {self.target_bytes}: merged files would be merged again each time"
            return "small_bytes", "small_bytes is above target_bytes", expected, str(self.small_bytes)
        if self.group_bytes < self.target_bytes:
            return (
                "group_bytes",
                "group_bytes is below target_bytes",
                f"at least {self.target_bytes}",
                str(self.group_bytes),
            )
        return None

    @property
    def curve(self) -> OrderName:
        """Return the order, also where only columns are given."""
        return self.order or ("linear" if self.sort_by else "none")

    @property
    def small_limit(self) -> int:
        """Return the size below which a file is small, in bytes."""
        return self.small_bytes if self.small_bytes is not None else self.target_bytes * 5 // 6
