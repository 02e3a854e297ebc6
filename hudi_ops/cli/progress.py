"""Show progress of long work: a bar on a terminal, lines in pipes and logs.

The standard error shows it. With `--json` there is no bar, but the lines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from hudi_ops.redaction import redacted

if TYPE_CHECKING:
    from rich.progress import TaskID

    from hudi_ops.engine.progress import Progress

Tell: TypeAlias = "Callable[[Progress], None]"


def _quiet(progress: Progress) -> None:
    """Show nothing."""


def _say(line: str) -> None:
    sys.stderr.write(redacted(line) + "\n")
    sys.stderr.flush()


@contextmanager
def watching(what: str, *, as_json: bool = False) -> Iterator[Tell]:
    """Show a bar while something long runs, and yield the function that moves it.

    Before the first call it is a spinner. Without a terminal, lines replace bar and spinner.
    """
    if not sys.stderr.isatty():
        from hudi_ops.engine.progress import ProgressLines

        with ProgressLines(what, _say) as lines:
            yield lines.tell
        return
    if as_json:
        yield _quiet
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress as Bars,
        SpinnerColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text

    class Size(DownloadColumn):
        def render(self, task: Task) -> Text:
            return super().render(task) if task.fields.get("has_bytes") else Text()

    class Rate(TransferSpeedColumn):
        def render(self, task: Task) -> Text:
            return super().render(task) if task.fields.get("has_bytes") else Text()

    bars = Bars(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        Size(),
        Rate(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=Console(stderr=True),
        transient=True,
    )
    tasks: dict[str, TaskID] = {}

    def tell(progress: Progress) -> None:
        has_bytes = progress.bytes_in > 0
        done, total = (progress.bytes_done, progress.bytes_in) if has_bytes else (progress.done, progress.total)
        said = f"{progress.what} {progress.done:,} of {progress.total:,}{f': {progress.note}' if progress.note else ''}"
        if progress.what not in tasks:
            tasks[progress.what] = bars.add_task(said, total=total, has_bytes=has_bytes)
            bars.update(waiting, visible=False)
        bars.update(tasks[progress.what], completed=done, total=total, description=said)

    with bars:
        waiting = bars.add_task(redacted(what), total=None)
        yield tell


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show a spinner while something long runs, or lines where there is no terminal."""
    if not sys.stderr.isatty():
        with watching(what):
            yield
        return
    from rich.console import Console

    with Console(stderr=True).status(redacted(what)):
        yield
