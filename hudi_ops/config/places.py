"""Find the folders `dags`, `plugins` and `spark_apps` in a checkout or an installation."""

from __future__ import annotations

import os
from pathlib import Path

from hudi_ops.errors import Internal

PROGRAM = "hudi-ops"
"""Name of the command line, and of the package in registries."""

HOME_VARIABLE = "HUDI_OPS_HOME"
REGISTRY_VARIABLE = "HUDI_OPS_REGISTRY"
"""Environment variable with the URL of the registry's database."""

REGISTRY_FILE = "registry.db"
"""Its file beside `tables.yaml`, if the variable is not set."""

FOLDERS = ("dags", "plugins", "spark_apps")
_PACKAGE = Path(__file__).resolve().parents[1]


def folder(name: str) -> Path:
    """Return a folder of the package or of the checkout; HUDI_OPS_HOME wins.

    Raises:
        Internal: it is in none of them.
    """
    home = os.environ.get(HOME_VARIABLE)
    candidates = [*([Path(home)] if home else []), _PACKAGE, _PACKAGE.parent]
    for place in candidates:
        if (place / name).is_dir():
            return place / name
    raise Internal(
        f"the folder {name} of hudi-ops is missing",
        expected=f"{name} in one of {', '.join(map(str, candidates))}",
        next_step=f"install hudi-ops again, or point {HOME_VARIABLE} at a checkout",
    )


def cache_folder() -> Path:
    """Return the folder of what may be made again, of this user: $XDG_CACHE_HOME/hudi-ops.

    Raises:
        RuntimeError: the variable is not set, and the user has no home.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if given.startswith("/") else Path("~/.cache").expanduser()) / "hudi-ops"


def home() -> Path:
    """Return the folder of `tables.yaml`: HUDI_OPS_HOME, the checkout, else AIRFLOW_HOME."""
    given = os.environ.get(HOME_VARIABLE)
    if given:
        return Path(given)
    if (_PACKAGE.parent / "spark_apps").is_dir():
        return _PACKAGE.parent
    return Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
