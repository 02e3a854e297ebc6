"""Get the view of a table from a timeline server, and check it (RFC-03).

A server that is dead, slow or wrong costs one deadline. It never fails an operation and never changes a result. It is not asked
while the table's lock is held.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from hudi_ops.concurrency.lock.locks import is_lock_held
from hudi_ops.config.table import TableConfig
from hudi_ops.errors import HudiOpsError
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.completed import state_digest
from hudi_ops.timeline.log.commit_log import read_slot
from hudi_ops.timeline.state import CommitReader
from hudi_ops.view.columns.files import FileColumns, offsets_of
from hudi_ops.view.columns.kept import keep_view, kept_settings, may_ask, note_served
from hudi_ops.view.columns.table_view import View
from hudi_ops.view.listing import Keep
from hudi_ops.view.remote.checks import Checked, Question, checked
from hudi_ops.view.remote.client import Client, Deadline, NoAnswer, client_of
from hudi_ops.view.remote.wire import UNKNOWN_STATE, BadAnswer, decode, question, state_path

logger = logging.getLogger(__name__)

_told: set[str] = set()
"""What was logged once: tables that a server does not have, and why it is not asked."""


class _Unknown(Exception):
    """The server does not know the state."""


@dataclass(frozen=True)
class Wish:
    """What a caller wants of a view.

    Attributes:
        wanted: returns which partitions are wanted; None: all.
        is_newest: only the newest slices are wanted. Such a view is not kept.
        may_be_later: the caller can go on with a later reading of the timeline, which the view then has.
    """

    wanted: Keep | None = None
    is_newest: bool = False
    may_be_later: bool = False


def served_view(
    storage: Storage, config: TableConfig, timeline: Timeline, commits: CommitReader, wish: Wish | None = None
) -> View | None:
    """Return the view that a server tells of a reading of the timeline; None: build it.

    A view of some partitions has the paths of all partitions, and the files of those that are wanted.

    Raises:
        Corrupt: slot 0 of the commit log cannot be read.
    """
    server, wish = kept_settings(storage).server, wish or Wish()
    if server is None or not may_ask(storage) or is_lock_held():
        return None
    if config.layout != 2 or not timeline.start or any(one.action == "restore" for one in timeline.pending):
        return None
    if not (client := client_of(server)).is_open:
        note_served(storage, "", "not by the timeline server: it failed shortly before")
        return None
    first = read_slot(storage, 0)
    if first is None:
        _tell_once(f"{storage.uri} has no commit log, so that no server is asked for its view")
        return None
    asked = _Asked(storage, server.table or config.name, Question(first.table_id, "", config, timeline, commits), wish)
    found, kind, why = _asked_at(client, asked)
    client.counts[kind] += 1
    if found is None:
        if kind != "unknown":
            level = logging.ERROR if kind == "bad" else logging.WARNING
            logger.log(level, "the timeline server %s is not used for %s: %s", server.url, asked.table, why)
        note_served(storage, "", f"not by the timeline server: {why}")
    elif wish.wanted is None and not wish.is_newest:
        keep_view(storage, found, "server")
    else:
        note_served(storage, "server", "")
    return found


def _asked_at(client: Client, asked: _Asked) -> tuple[View | None, str, str]:
    """Return the view, how the question ended, and why there is no view."""
    try:
        with client.asking() as deadline:
            return asked.at(deadline, asked.about.timeline), "answers", ""
    except BadAnswer as error:
        client.fail()
        return None, "bad", f"its answer is wrong: {error}"
    except NoAnswer as error:
        return None, "no answer", str(error)
    except _Unknown as error:
        return None, "unknown", str(error)
    except HudiOpsError as error:  # of the timeline or the history, which the build may not need
        return None, "error", str(error)


@dataclass(frozen=True)
class _Asked:
    """A question about a table, at one reading of its timeline or a later one."""

    storage: Storage
    table: str
    about: Question
    wish: Wish

    def at(self, deadline: Deadline, timeline: Timeline) -> View:
        """Return the view at a reading of the timeline, or at a later one if that state is unknown.

        Raises:
            NoAnswer: the server does not answer.
            BadAnswer: its answer is wrong.
            _Unknown: it does not know the state, or the table.
        """
        try:
            return self._view(deadline, timeline)
        except _Unknown as error:
            if str(error) != UNKNOWN_STATE or not self.wish.may_be_later:
                raise
            later = load_timeline(self.storage, self.about.config)
            if later is timeline or any(one.action == "restore" for one in later.pending):
                raise
        return self._view(deadline, later)

    def _view(self, deadline: Deadline, timeline: Timeline) -> View:
        asked = replace(self.about, timeline=timeline, digest=state_digest(self.about.table_id, timeline))
        with _no_fault_but_bad(self.table):
            return self._view_of(deadline, asked)

    def _view_of(self, deadline: Deadline, asked: Question) -> View:
        if self.wish.wanted is None:
            return self._ask(deadline, replace(asked, is_newest=self.wish.is_newest)).view
        paths = self._ask(deadline, replace(asked, has_rows=False)).paths
        flags = self.wish.wanted(paths) if paths else ()
        kept = tuple(path for path, is_wanted in zip(paths, flags, strict=True) if is_wanted)
        if not kept:
            return _with_all(self._ask_none(asked), paths)
        wanted = replace(asked, partitions=kept, is_newest=self.wish.is_newest)
        return _with_all(self._ask(deadline, wanted).view, paths)

    @staticmethod
    def _ask_none(asked: Question) -> View:
        return View(asked.config, asked.timeline, asked.commits, FileColumns((), offsets_of([]), ()))

    def _ask(self, deadline: Deadline, asked: Question) -> Checked:
        what = "files" if asked.has_rows else "partitions"
        path = state_path(self.table, asked.table_id, asked.timeline.start, asked.digest, what)
        body = question(asked.partitions or (), is_newest=asked.is_newest) if asked.has_rows else None
        reply = deadline.request("POST" if asked.has_rows else "GET", path, body)
        if reply.status == 200:
            return checked(asked, decode(reply.body))
        if reply.status in {404, 409, 413}:
            if reply.reason != UNKNOWN_STATE:
                _tell_once(f"the timeline server does not serve {self.table}: {reply.status} {reply.reason}")
            raise _Unknown(reply.reason or str(reply.status))
        raise NoAnswer(f"it answered {reply.status} {reply.reason}".rstrip())


@contextmanager
def _no_fault_but_bad(table: str) -> Iterator[None]:
    """Turn unexpected errors into a bad answer, so that none ends the operation.

    Raises:
        BadAnswer: there was such an error, which is logged.
        NoAnswer: as the block raised it.
        HudiOpsError: as the block raised it.
        _Unknown: as the block raised it.
    """
    try:
        yield
    except (BadAnswer, NoAnswer, _Unknown, HudiOpsError):
        raise
    except Exception as error:
        logger.exception("an answer of the timeline server about %s ended in an error", table)
        raise BadAnswer(f"{type(error).__name__}: {error}") from error


def _with_all(view: View, paths: Sequence[str]) -> View:
    """Return the view of some partitions with the paths of all."""
    held = dict(zip(view.files.partitions, np.diff(view.files.offsets).tolist(), strict=True))
    offsets = offsets_of([held.get(path, 0) for path in paths])
    return view.with_files(FileColumns(tuple(paths), offsets, view.files.chunks))


def _tell_once(text: str) -> None:
    if text not in _told:
        _told.add(text)
        logger.warning("%s; the view is built here", text)
