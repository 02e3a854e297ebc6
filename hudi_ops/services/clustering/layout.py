"""Order and strategy of a clustering, as plans and commits say them.

Apache Hudi takes the sort columns from a plan, and the curve from the options of its executor (docs/format §6.12). So a plan
of this library holds the whole order in a separate parameter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from hudi_ops.errors import Corrupt, InvalidRequest, Unsupported
from hudi_ops.kernels.sorting.order import UNSORTED, SortOrder
from hudi_ops.services.base.pending import cancel_advice
from hudi_ops.timeline.content.plans import ReplacePlan

SORT_COLUMNS_KEY = "hoodie.clustering.plan.strategy.sort.columns"
ORDER_KEY = "hudi_ops.order"
"""Parameter of a plan's strategy, extra metadata of a replacecommit, and key of a base file's footer: the order of the rows."""

_STRATEGIES = "org.apache.hudi.client.clustering.run.strategy."
SORT_AND_SIZE = f"{_STRATEGIES}SparkSortAndSizeExecutionStrategy"
"""Class with which Apache Hudi sorts the rows of a plan group together and cuts them into files."""

SORT_IN_FILE = f"{_STRATEGIES}SparkSingleFileSortExecutionStrategy"
"""Class with which Apache Hudi sorts each file by itself."""

_SORTING = frozenset({SORT_AND_SIZE, f"{_STRATEGIES}JavaSortAndSizeExecutionStrategy"})


def encode_order(order: SortOrder) -> str:
    """Return an order as text: equal texts for equal orders."""
    return json.dumps({"order": order.curve, "columns": list(order.columns)})


def say_order(order: SortOrder) -> str:
    """Return an order in words, for example `by a, b` or `along z-order of a, b`."""
    columns = ", ".join(order.columns)
    return f"along {order.curve} of {columns}" if order.is_curve else f"by {columns}"


def decode_order(text: str) -> SortOrder | None:
    """Return the order of a text of `encode_order`; None for any other text."""
    try:
        said = json.loads(text)
        return SortOrder(said["order"], tuple(said["columns"]))
    except (ValueError, KeyError, TypeError, InvalidRequest):
        return None


def strategy_params(order: SortOrder) -> dict[str, str]:
    """Return the parameters of a plan's strategy."""
    columns = {SORT_COLUMNS_KEY: ",".join(order.columns)} if order.columns else {}
    return {**columns, ORDER_KEY: encode_order(order)}


def order_of(plan: ReplacePlan, table: str, instant: str) -> SortOrder:
    """Return the order in which a plan, ours or Apache Hudi's, wants its rows.

    Raises:
        Unsupported: its strategy is not known.
        Corrupt: it says an order that cannot be read.
    """
    if plan.strategy not in _SORTING | {SORT_IN_FILE}:
        raise Unsupported(
            f"the plan names the unknown execution strategy {plan.strategy}"
            if plan.strategy
            else "the plan names no execution strategy",
            table=table,
            instant=instant,
            expected=", ".join(name.rpartition(".")[2] for name in sorted(_SORTING | {SORT_IN_FILE})),
            found=plan.strategy,
            next_step="execute the plan with Apache Hudi, or cancel it: "
            f"`hudi-ops cancel TABLE {instant} --force`; then plan again",
        )
    return _said(plan.strategy_params, table, instant)


def _said(params: Mapping[str, str], table: str, instant: str) -> SortOrder:
    if ORDER_KEY in params:
        order = decode_order(params[ORDER_KEY])
        if order is None:
            raise Corrupt(
                f"the plan's {ORDER_KEY} cannot be read",
                table=table,
                instant=instant,
                expected='a text such as {"order": "linear", "columns": ["a"]}',
                found=params[ORDER_KEY][:200],
                next_step=cancel_advice(instant),
            )
        return order
    columns = tuple(name.strip() for name in params.get(SORT_COLUMNS_KEY, "").split(",") if name.strip())
    return SortOrder("linear", columns) if columns else UNSORTED
