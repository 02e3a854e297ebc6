"""Say which services the page offers, with the command and the DAG of each.

The API server imports this module, so it loads neither the command line nor Arrow.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hudi_ops.config.places import PROGRAM
from hudi_ops.config.requests import SERVICES as REQUESTS, Request

WORDS_MAX, WORD_MAX = 64, 1_000
"""Most words of a command that is previewed, and most characters of a word."""


@dataclass(frozen=True)
class Service:
    """Service that a DAG runs, with the command that does the same.

    Attributes:
        dag: id of its DAG; that of a table with a schedule is `DAG__TABLE`.
        command: of `hudi-ops`.
        title: for a menu.
        does: what it does, in a few words.
        fits: tells of the facts of `hudi-ops show` whether the table can need it.
        previews: whether the command has a dry run.
    """

    dag: str
    command: str
    title: str
    does: str
    # The page compares what it shows by its repr: that of a function differs from process to process.
    fits: Callable[[Mapping[str, Any]], bool] = field(default=lambda about: True, repr=False)
    previews: bool = True

    @property
    def request(self) -> type[Request]:
        """Return the model of its request."""
        return REQUESTS[self.dag]


SERVICES: Mapping[str, Service] = {
    one.dag: one
    for one in (
        Service(
            "compaction",
            "compact",
            "Compact",
            "Merge log files into new base files",
            lambda about: about.get("type", "MERGE_ON_READ") == "MERGE_ON_READ",
        ),
        Service("clustering", "cluster", "Cluster", "Merge small files and sort rows"),
        Service(
            "resizing",
            "resize",
            "Resize",
            "Split and merge the buckets of hash rings",
            lambda about: about.get("index", "") in {"", "consistent_bucket", "extendible_bucket"},
        ),
        Service("clean", "clean", "Clean", "Delete the files that no retained instant needs"),
        Service("archive", "archive", "Archive", "Move old instants into the history"),
        Service("indexing", "index", "Build indexes", "Build indexes that are missing"),
        Service("recover", "recover", "Recover", "Clear away what dead writers left", previews=False),
    )
}
"""Services that the page previews and runs, by the id of their DAG."""

BY_COMMAND: Mapping[str, Service] = {one.command: one for one in SERVICES.values()}
"""The same services, by their command."""


def menu(about: Mapping[str, Any]) -> tuple[Service, ...]:
    """Return the services that a table can need.

    Args:
        about: facts of `hudi-ops show`; empty: unknown, then all.
    """
    return tuple(one for one in SERVICES.values() if one.fits(about))


def service_of(words: Sequence[str]) -> Service | None:
    """Return the service of a command's words, without the program; None: no DAG does the same."""
    service = BY_COMMAND.get(words[0]) if words else None
    # Of the actions of `index`, DAGs have these; a name of an index may stand in place of an action.
    is_other = service is not None and service.command == "index" and words[2:3] in (["drop"], ["cancel"], ["show"])
    return None if is_other else service


def words_of(command: str) -> list[str]:
    """Return the words of a verdict's command, without the program; empty: it cannot be read."""
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    return words[1:] if words[:1] == [PROGRAM] else words


def dag_ids(service: Service, table: str) -> tuple[str, str]:
    """Return the ids of the DAGs that may run a service on a table, the preferred first."""
    return f"{service.dag}__{table}", service.dag
