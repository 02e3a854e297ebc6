"""Memory limit of this process, its shares, and the return of freed memory."""

from __future__ import annotations

import ctypes
import os
import resource
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

_CGROUPS = Path("/sys/fs/cgroup")
_RUNS_A_THREAD = 4
"""Runs that a thread holds at a time: it reads one, has one, splits it, and waits with one."""
RUN_BYTES_MIN = 16 << 10
"""Smallest run: below, each run costs more than its rows."""


def memory_bytes_min(threads: int) -> int:
    """Return the smallest limit, in bytes, with which threads can read and split rows."""
    return threads * _RUNS_A_THREAD * RUN_BYTES_MIN


def run_bytes_of(memory_bytes: int, threads: int, most_bytes: int) -> int:
    """Return the bytes of one run of rows, so that the runs of all threads fit into a limit."""
    return min(most_bytes, max(RUN_BYTES_MIN, memory_bytes // (threads * _RUNS_A_THREAD)))


def release_memory() -> None:
    """Give freed memory back to the system.

    Allocators keep it for later, and what they keep counts as memory of the process.
    """
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    """Return glibc's `malloc_trim`; None where another C library is in use."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None


def memory_limit_bytes() -> int:
    """Return the memory limit in bytes, of machine, control groups (v1, v2) and `ulimit`."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_cgroup_limits()]
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft = resource.getrlimit(kind)[0]
        if soft != resource.RLIM_INFINITY:
            limits.append(soft)
    return min(limits)


def _cgroup_limits() -> list[int]:
    # A container sees its own group at the top; elsewhere the group is a folder below, and its parents' limits apply too.
    own = next((line[3:] for line in _lines(Path("/proc/self/cgroup")) if line.startswith("0::")), "/")
    folder = _CGROUPS / own.strip("/")
    files = [place / "memory.max" for place in (folder, *folder.parents) if place.is_relative_to(_CGROUPS)]
    files.append(_CGROUPS / "memory" / "memory.limit_in_bytes")
    return [int(line) for file in files for line in _lines(file) if line.isdecimal()]


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []  # another system, or another version of control groups
