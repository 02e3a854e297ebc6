"""Describe this package for Airflow's list of providers."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

_INTEGRATION = "Apache Hudi tables"
_PACKAGE = "hudi_ops.plugins"


def provider_info() -> dict[str, Any]:
    """Return what Airflow's provider discovery asks for."""
    return {
        "package-name": "hudi-ops",
        "name": "Hudi Ops",
        "description": "Write, read and service Apache Hudi tables.",
        "versions": [version("hudi-ops")],
        "integrations": [
            {"integration-name": _INTEGRATION, "external-doc-url": "https://hudi.apache.org", "tags": ["software"]}
        ],
        "operators": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [f"{_PACKAGE}.hudi_ops_submit", f"{_PACKAGE}.hudi_ops_health"],
            }
        ],
        "extra-links": [f"{_PACKAGE}.hudi_ops_links.TableLink"],
        "asset-uris": [{"schemes": ["hudi"], "handler": None}],
    }
