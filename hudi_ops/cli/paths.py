"""`hudi-ops paths`: where the installed DAGs, plugins and applications are."""

from __future__ import annotations

from typing import Annotated

import typer

from hudi_ops.cli.arguments import JsonOption
from hudi_ops.cli.output import write, write_facts, write_json
from hudi_ops.config.places import FOLDERS, folder
from hudi_ops.errors import InvalidRequest

PATHS_HELP = """
Print where the DAGs, plugins and Spark applications of this installation are.

\b
  export AIRFLOW__CORE__DAGS_FOLDER=$(hudi-ops paths dags)
"""


def paths(
    name: Annotated[str | None, typer.Argument(help=f"One of {', '.join(FOLDERS)}. Default: all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the folders of the installation.

    Raises:
        InvalidRequest: an unknown name.
    """
    if name is not None and name not in FOLDERS:
        raise InvalidRequest(f"unknown folder {name!r}", expected=f"one of {', '.join(FOLDERS)}", found=name)
    found = {one: str(folder(one)) for one in FOLDERS if name in (None, one)}
    if as_json:
        write_json(found)
    elif name is not None:
        write(found[name])
    else:
        write_facts(found)
