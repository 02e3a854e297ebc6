"""Check the code of another commit out, beside the working tree."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def code_of(commit: str) -> Iterator[Path]:
    """Check a commit out into a worktree of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "code"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(path), commit], cwd=ROOT, check=True)
        try:
            yield path
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(path)], cwd=ROOT, check=True)
