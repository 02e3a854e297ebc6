"""Run the program at a pseudo-terminal, as a person does who answers its question."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path


def at_terminal(home: Path, typed: str, *arguments: str, asked: str = "[y/N]") -> tuple[int, str]:
    """Run the program, type once it has asked, and return its exit code and what it showed."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hudi_ops.cli.main", *arguments],
        cwd=home,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "COLUMNS": "100", "TERM": "xterm"},
    )
    os.close(terminal)
    seen = b""
    is_typed = False
    while True:
        try:
            part = os.read(controller, 65_536)
        except OSError:  # the last writer closed its end
            break
        if not part:
            break
        seen += part
        if asked.encode() in seen and not is_typed:
            is_typed = True
            os.write(controller, typed.encode())
    os.close(controller)
    return process.wait(60), seen.decode()
