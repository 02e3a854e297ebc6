"""Check clean installations: `python -m tests.install [NAME ...] [--python PYTHON] [--folder FOLDER]`; bin/check-install starts it.

Prints a row for each environment: bytes, packages, the time of `import hudi_ops`, and what was used. Ends with 1 where a limit or a
check does not hold.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.install.environments import ENVIRONMENTS, HEADER, Installed, build, install, use_airflow, use_core, use_spark
from tests.install.limits import broken_limits


def check(names: list[str], python: str, folder: Path) -> list[str]:
    """Make and use the environments, print their rows; return what does not hold."""
    packages = build(folder)
    print(
        f"{packages[0].name}: {packages[0].stat().st_size} bytes; {packages[1].name}: {packages[1].stat().st_size} bytes"
    )
    print(HEADER, flush=True)
    broken: list[str] = []
    for environment in ENVIRONMENTS:
        if names and environment.name not in names:
            continue
        place = folder / environment.name
        made = install(environment, place, packages, python)
        try:
            use(made)
        except AssertionError as error:
            broken.append(f"{environment.name}: {error}")
        broken += broken_limits(made)
        print(made.line(), flush=True)
        shutil.rmtree(place)  # gigabytes
    return broken


def use(made: Installed) -> None:
    """Use each part that the environment has."""
    use_core(made)
    if made.environment.has_spark:
        use_spark(made)
    if made.environment.has_airflow:
        use_airflow(made)


def main() -> int:
    """Parse the command line, check, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="bin/check-install", description="Install hudi-ops in clean environments and use it."
    )
    parser.add_argument("names", nargs="*", help="default: all")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environments")
    parser.add_argument("--folder", type=Path, help="an empty folder for the environments; default: a temporary one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hudi-ops-install-", dir=given.folder) as folder:
        broken = check(given.names, given.python, Path(folder).resolve())
    for one in broken:
        print(f"does not hold: {one}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
