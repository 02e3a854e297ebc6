"""CPU time and peak memory of a process and all that it started, from /proc: a JVM and Python workers hide nothing there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the command's closing bracket, counted from 0: see proc(5).
_PPID, _UTIME, _CSTIME, _START = 1, 11, 14, 19


CpuTimes = dict[tuple[int, str], float]
"""User and system seconds by process, which is its id and its start: ids are used again."""


def cpu_times(root: int) -> CpuTimes:
    """What each process of the tree has used so far; its waited-for children count as its own."""
    times = {}
    for pid in tree(root):
        if fields := _stat(pid):
            times[pid, fields[_START]] = sum(int(ticks) for ticks in fields[_UTIME : _CSTIME + 1]) / _TICKS_PER_S
    return times


def cpu_between(before: CpuTimes, after: CpuTimes) -> tuple[float, int]:
    """Seconds used between two readings, and how many processes ended meanwhile.

    A reading with ended processes is not exact: Spark's Python daemon does not wait for its workers, so that their time is
    lost, and time from before the first reading comes back through a parent that did wait.
    """
    used_s = sum(seconds - before.get(process, 0.0) for process, seconds in after.items())
    return used_s, len(before.keys() - after.keys())


def reset_peaks(root: int) -> None:
    """Let every process of the tree forget its peak memory."""
    for pid in tree(root):
        try:
            Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
        except ProcessLookupError:
            continue


def peak_rss_bytes(root: int) -> int:
    """Sum of the processes' own peaks: an upper bound, for they need not fall together, and shared pages count twice."""
    return _status_bytes(root, "VmHWM")


def rss_bytes(root: int) -> int:
    """Sum of what the processes hold now."""
    return _status_bytes(root, "VmRSS")


def _status_bytes(root: int, name: str) -> int:
    total = 0
    for pid in tree(root):
        try:
            status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(name))
    return total


def tree(root: int) -> list[int]:
    """The process and its descendants."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields:
                yield int(entry.name), int(fields[_PPID])


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()
