"""Marks: the branches of the protocol that a suite of simulations reached.

A suite that tests nothing fails for lack of marks.

Product code carries no marks of its own. What it logs is one already: `hudi_ops.concurrency.transaction: slot %s was taken by
another writer`. Guards are functions of modules: `watched` counts their calls and what they raised.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

_PRODUCT = "hudi_ops"


@contextmanager
def logged_marks() -> Iterator[Counter[str]]:
    """Count what the product logs at INFO and above, as `logger: text without values`.

    Until the context ends, handlers of the root logger do not get these lines: thousands of simulated crashes would fill any log.
    """
    logger = logging.getLogger(_PRODUCT)
    marks: Counter[str] = Counter()
    handler = _Counting(marks)
    before = (logger.level, logger.propagate)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield marks
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


@contextmanager
def watched(*functions: Callable[..., Any]) -> Iterator[Counter[str]]:
    """Count calls of functions as `module.name`, and errors as `module.name!Conflict`.

    Until the context ends, each module of the product that defines or imports a function has a counting wrapper in its place.

    Args:
        functions: functions of modules, not methods.
    """
    marks: Counter[str] = Counter()
    replaced: list[tuple[Any, str, Callable[..., Any]]] = []
    try:
        for function in functions:
            counting = _counted(function, marks)
            for module in [one for name, one in sys.modules.items() if name.split(".")[0] == _PRODUCT]:
                for name in [name for name, value in vars(module).items() if value is function]:
                    replaced.append((module, name, function))
                    setattr(module, name, counting)
        yield marks
    finally:
        for module, name, function in replaced:
            setattr(module, name, function)


def refuse_unreached(wanted: Iterable[str], marks: Counter[str]) -> None:
    """Check that a suite reached the wanted marks.

    Args:
        wanted: marks, in full or the beginning of one.
        marks: what was counted.

    Raises:
        AssertionError: names every wanted mark that was not reached, and all that were.
    """
    missing = [one for one in wanted if not any(mark.startswith(one) and count for mark, count in marks.items())]
    if missing:
        reached = "\n".join(f"  {count:>7} {mark}" for mark, count in sorted(marks.items()))
        raise AssertionError(f"never reached: {'; '.join(missing)}\nreached:\n{reached}")


class _Counting(logging.Handler):
    def __init__(self, marks: Counter[str]) -> None:
        super().__init__()
        self._marks = marks

    def emit(self, record: logging.LogRecord) -> None:
        self._marks[f"{record.name}: {record.msg}"] += 1


def _counted(function: Callable[..., Any], marks: Counter[str]) -> Callable[..., Any]:
    name = f"{function.__module__}.{function.__qualname__}".removeprefix(f"{_PRODUCT}.")

    @functools.wraps(function)
    def counting(*args: Any, **kwargs: Any) -> Any:
        marks[name] += 1
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            marks[f"{name}!{type(error).__name__}"] += 1
            raise

    return counting
