"""Measure the processor time of an application.

Counted are this process, Spark's JVM above it, and all that they started.
"""

from __future__ import annotations

import os
from pathlib import Path

_PPID, _TIMES = 1, slice(11, 15)
"""Fields of `stat_of`: parent; time in programs and in the kernel, also of ended children."""


def measured_cpu_s() -> float:
    """Return the processor time so far, in seconds.

    With a remote master it is that of the driver alone. Without /proc it is that of this process and its ended children.
    """
    from hudi_ops.context import Owner, stat_of  # loads Arrow, which an application has by now

    above = Owner.of_process_above("java")
    root = above.pid if above is not None else os.getpid()
    stats = {pid: stat[1] for pid in _pids() if (stat := stat_of(pid)) is not None}
    if root not in stats:
        times = os.times()
        return round(times.user + times.system + times.children_user + times.children_system, 3)
    below: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        below.setdefault(int(fields[_PPID]), []).append(pid)
    ticks, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        ticks += sum(map(int, stats[pid][_TIMES]))
        waiting += below.get(pid, ())
    return round(ticks / os.sysconf("SC_CLK_TCK"), 3)


def _pids() -> list[int]:
    try:
        return [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()]
    except OSError:
        return []
