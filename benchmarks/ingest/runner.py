"""One variant as the comparison sees it: a process of its own that stays alive between runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

from benchmarks.ingest import process_tree

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    "local": ["benchmarks.ingest.run_ours", "--engine", "local"],
    "spark": ["benchmarks.ingest.run_ours", "--engine", "spark"],
    "hudi": ["benchmarks.ingest.run_hudi"],
}


class RunnerFailed(Exception):
    """The runner ended; the text tells where its output lies."""


class Runner:
    """Starts one variant's process and measures what its whole tree does during a command.

    Args:
        variant: a key of `MODULES`.
        python: interpreter that has what the variant needs.
        work: folder for its tables and its log.
        extra: further arguments of the runner.
    """

    def __init__(self, variant: str, python: Path, work: Path, extra: list[str]) -> None:
        self.variant = variant
        self._prepared = work / variant / "prepared"
        self.table = work / variant / "table"
        scratch = work / variant / "scratch"
        scratch.mkdir(parents=True)
        self._log = work / variant / "runner.log"
        # Another Spark's home or worker Python, inherited from the caller, would be used instead of the runner's own.
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTHON"))}
        with open(self._log, "w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [str(python), "-m", *MODULES[variant], "--work", str(scratch), *extra],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=scratch,
                env={**env, "PYTHONPATH": str(ROOT)},
                text=True,
            )
        self.versions: dict[str, str] = self._answer()["versions"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def prepare(self, source: Path) -> None:
        """Make the table that every run begins from."""
        self._call("prepare", self._prepared, source)

    def restore(self) -> None:
        """Put the prepared table back; what it made dirty goes to the disk now, not in the measured time."""
        shutil.rmtree(self.table, ignore_errors=True)
        shutil.copytree(self._prepared, self.table)
        os.sync()

    def upsert(self, source: Path) -> dict[str, float]:
        """One measured run: wall and CPU seconds, peak resident bytes."""
        pid = self._process.pid
        process_tree.reset_peaks(pid)
        before = process_tree.cpu_times(pid)
        wall_s = self._call("upsert", self.table, source)["wall_s"]
        cpu_s, ended = process_tree.cpu_between(before, process_tree.cpu_times(pid))
        return {
            "wall_s": round(wall_s, 3),
            "cpu_s": round(cpu_s, 2),
            "ended_processes": ended,
            "peak_rss_mb": round(process_tree.peak_rss_bytes(pid) / 1e6),
        }

    def _call(self, command: str, table: Path, source: Path) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(
                json.dumps({"command": command, "table": str(table), "source": str(source)}) + "\n"
            )
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the missing answer says it
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            tail = "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])
            raise RunnerFailed(
                f"the runner of {self.variant} ended with {self._process.wait()}; its last words:\n{tail}"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer
