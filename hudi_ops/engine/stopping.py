"""Stop tasks that run: a signal for engines, and a check for the loops of a task.

An engine returns soon after its signal is given. A task ends itself at its next check, in this process or on an executor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

I = TypeVar("I")  # noqa: E741 - input of a task
R = TypeVar("R")


def _run_on() -> None:
    """Do nothing: no signal stops this task."""


_check: ContextVar[Callable[[], None]] = ContextVar("check_of_task", default=_run_on)


def check_stop() -> None:
    """Check between two steps of a task whether the task must end.

    Raises:
        HudiOpsError: the reason; the rest of the task's work is not needed.
    """
    _check.get()()


@contextmanager
def checked_by(check: Callable[[], None]) -> Iterator[None]:
    """Let `check_stop` call `check` in this thread until the context ends."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


class StopSignal:
    """Signal that work is to end; given once, by any thread.

    Args:
        refuse: raises the reason, once the signal was given.
    """

    def __init__(self, refuse: Callable[[], None]) -> None:
        self._refuse = refuse
        self._given: Future[None] = Future()

    def give(self) -> None:
        """Give the signal; one thread calls this."""
        if not self._given.done():
            self._given.set_result(None)

    @property
    def is_given(self) -> bool:
        """Whether the signal was given."""
        return self._given.done()

    def check(self) -> None:
        """Check whether the signal was given.

        Raises:
            HudiOpsError: the reason.
        """
        if self._given.done():
            self._refuse()

    def ends(self, task: Callable[[I], R]) -> Callable[[I], R]:
        """Return a task that ends itself at its next `check_stop` once the signal is given."""

        def run(value: I) -> R:
            with checked_by(self.check):
                self.check()
                return task(value)

        return run

    def wait_for(self, future: Future[R]) -> None:
        """Wait until a future is done, or the signal is given."""
        either: list[Future[Any]] = [future, self._given]
        wait(either, return_when=FIRST_COMPLETED)

    def results(self, futures: Sequence[Future[R]], grace_s: float) -> list[R]:
        """Return the results of futures in their order, or raise the first error.

        Once the signal is given, running ones get `grace_s` seconds to end; the others are cancelled.

        Raises:
            HudiOpsError: the reason of the signal, or a future's own error.
        """
        found = []
        for future in futures:
            self.wait_for(future)
            if self.is_given:
                wait([one for one in futures if not one.cancel()], grace_s)
                self.check()
            found.append(future.result())
        return found
