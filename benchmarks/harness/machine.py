"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path


def machine() -> dict[str, str]:
    """Processor, memory, system and date; no names that belong to this machine alone."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{os.cpu_count()} cores, {_field('/proc/cpuinfo', 'model name')}",
        "memory": f"{int(_field('/proc/meminfo', 'MemTotal').split()[0]) / 2**20:.0f} GiB",
        "system": f"{platform.system()}, Python {platform.python_version()}",
    }


def load() -> float:
    """Load average of the last minute."""
    return round(os.getloadavg()[0], 2)


def _field(file: str, name: str) -> str:
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "unknown")
