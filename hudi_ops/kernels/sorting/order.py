"""Order of rows: sorted by columns, along a space-filling curve, or as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from hudi_ops.errors import InvalidRequest

Curve: TypeAlias = Literal["linear", "z-order", "hilbert", "none"]
CURVES: tuple[Curve, ...] = get_args(Curve)
CURVE_COLUMNS_MAX = 8
"""Most columns of a curve: each gets at least 8 of the 64 bits of a key."""


@dataclass(frozen=True)
class SortOrder:
    """Order of rows.

    `linear` sorts by the first column, then by the next; `z-order` and `hilbert` give all columns the same weight; `none` keeps
    the order in which rows are read.

    Raises:
        InvalidRequest: an unknown curve, a column twice, or a number of columns that does not fit the curve.
    """

    curve: Curve
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.curve not in CURVES:
            raise InvalidRequest(
                f"{self.curve!r} is not an order of rows",
                expected=", ".join(CURVES),
                next_step="name one of them",
            )
        repeated = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if repeated:
            raise InvalidRequest(
                f"the sort columns name {', '.join(repeated)} twice",
                expected="each column once",
                next_step="leave out the repetition",
            )
        least, most = self._columns_allowed
        if not least <= len(self.columns) <= most:
            raise InvalidRequest(
                f"the order {self.curve} does not fit its sort columns",
                expected="no column" if not most else f"{least} to {most} columns" if self.is_curve else "a column",
                found=", ".join(self.columns) or "no column",
                next_step="name other columns, or another order",
            )

    @property
    def is_curve(self) -> bool:
        """Whether rows are sorted along a space-filling curve."""
        return self.curve in {"z-order", "hilbert"}

    @property
    def _columns_allowed(self) -> tuple[int, int]:
        if self.curve == "none":
            return 0, 0
        return 1, CURVE_COLUMNS_MAX if self.is_curve else len(self.columns) + 1


UNSORTED = SortOrder("none")
