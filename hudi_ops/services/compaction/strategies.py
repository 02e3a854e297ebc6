"""Strategies of compaction: size, number or age of log files, or commits since the last one.

A new strategy also needs its name in `config.requests.StrategyName`, its unit in `cli/services/compact.py: _amount`, and its row in
docs/tables.md.
"""

from __future__ import annotations

from hudi_ops.config.requests import checked_strategy
from hudi_ops.services.base.choice import Strategy

STRATEGIES = {
    strategy.name: strategy
    for strategy in (
        Strategy("size", lambda group, now_ms: group.log_bytes, "bytes", 1),
        Strategy("count", lambda group, now_ms: len(group.logs), "log files", 5),
        Strategy("commits", lambda group, now_ms: group.commits, "delta commits", 5),
        Strategy("age", lambda group, now_ms: (now_ms - group.oldest_ms) / 1000, "s", 3600),
    )
}
"""By name; the first is the default. The largest measure comes first."""


def parse_strategy(name: str) -> Strategy:
    """Return the strategy of that name.

    Raises:
        InvalidRequest: no strategy has this name.
    """
    return STRATEGIES[checked_strategy(name)]
