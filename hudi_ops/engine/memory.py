"""Memory limit of this process: the machine, its container, or the process's limits."""

from __future__ import annotations

import os
import resource
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


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
