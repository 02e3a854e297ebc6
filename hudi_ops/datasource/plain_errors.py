"""Raise errors of `hudi_ops` in Spark's Python workers without a stack trace around them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hudi_ops.errors import HudiOpsError

_HIDE = "SPARK_HIDE_TRACEBACK"
_OF_A_WORKER = ("PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_PORT")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Let Spark show an error of `hudi_ops` by its message alone.

    A worker that raised an error ends, so the setting reaches no later function of a user.

    Raises:
        HudiOpsError: as raised in the block.
    """
    try:
        yield
    except HudiOpsError:
        if any(name in os.environ for name in _OF_A_WORKER):
            os.environ[_HIDE] = "1"
        raise
