"""Tell Airflow of this package: it then lists it among its providers."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any


def provider_info() -> dict[str, Any]:
    """Return what Airflow's provider discovery asks for."""
    return {
        "package-name": "hudi-ops",
        "name": "Hudi Ops",
        "description": "Write, read and service Apache Hudi tables.",
        "versions": [version("hudi-ops")],
    }
