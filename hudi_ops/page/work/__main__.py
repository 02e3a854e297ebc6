"""Do one operation on a table in a process of its own; `child.py` starts it.

The request is one JSON object on the standard input. The answer is one line on the standard output: the HTTP status, a blank, and
one JSON object, so that the server passes a large answer on without parsing it. All else goes to the standard error.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from typing import NoReturn

from hudi_ops.cli.without_pandas import leave_pandas_out
from hudi_ops.redaction import RedactingFormatter

END_S = 15
"""Seconds after which this process ends itself, should the server that started it be gone."""


def run() -> NoReturn:
    """Read the request, print the answer, and end the process."""
    signal.alarm(END_S)
    os.nice(19)  # Linux derives the priority of reads and writes from it
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print must not get into the answer
    leave_pandas_out()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    from hudi_ops.page.work.operations import answer  # nothing is loaded before the time is limited

    status, body = answer(json.loads(sys.stdin.buffer.read()))
    text = body if isinstance(body, str) else json.dumps(body, default=str)
    sys.stderr.flush()  # the server reads no more once it has the answer
    with os.fdopen(out, "wb") as answered:
        answered.write(f"{status} {text}\n".encode())
    os._exit(0)  # threads of libraries that wait for storage must not keep the process


if __name__ == "__main__":
    run()
