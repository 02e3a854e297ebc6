"""One engine as the comparison sees it: a process of its own that stays alive between runs, and the tables of its variants."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

import pyarrow.parquet as pq

from benchmarks.ingest import process_tree
from benchmarks.ingest.cases import MODULES, Case, Variant

ROOT = Path(__file__).resolve().parents[2]
_FILTER = b"org.apache.hudi.bloomfilter"


class RunnerFailed(Exception):
    """An engine's process ended; the text holds its last words."""


class Runner:
    """Starts one engine's process and measures what its whole tree does during a command.

    Args:
        engine: a key of `MODULES`.
        python: interpreter that has what the engine needs.
        work: folder for its tables and its log.
        extra: further arguments of the process.
    """

    def __init__(self, engine: str, python: Path, work: Path, extra: list[str]) -> None:
        self.engine = engine
        self._folder = work / engine
        scratch = self._folder / "scratch"
        scratch.mkdir(parents=True)
        self._log = self._folder / "runner.log"
        # Another Spark's home or worker Python, inherited from the caller, would be used instead of the runner's own.
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTHON"))}
        with open(self._log, "w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [str(python), "-m", *MODULES[engine], "--work", str(scratch), *extra],
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

    @property
    def table(self) -> Path:
        """Where the measured write goes."""
        return self._folder / "table"

    def prepare(self, variant: Variant, case: Case, base: Path | None) -> None:
        """Make the table that every run of the case begins from, once for all cases of its layout."""
        prepared = self._prepared(variant, case)
        if not prepared.exists():
            self._call("prepare", prepared, base, variant, case)
            prepared.mkdir(parents=True, exist_ok=True)

    def restore(self, variant: Variant, case: Case) -> None:
        """Put the prepared table back; what it made dirty goes to the disk now, not in the measured time."""
        shutil.rmtree(self.table, ignore_errors=True)
        shutil.copytree(self._prepared(variant, case), self.table)
        os.sync()

    def write(self, variant: Variant, case: Case, source: Path) -> dict[str, Any]:
        """One measured run: wall and CPU seconds, peak resident bytes; files written, their bytes with and without filters."""
        pid = self._process.pid
        there = {path: path.stat().st_mtime_ns for path in self.table.rglob("*.parquet")}
        process_tree.reset_peaks(pid)
        before = process_tree.cpu_times(pid)
        wall_s = self._call("write", self.table, source, variant, case)["wall_s"]
        cpu_s, ended = process_tree.cpu_between(before, process_tree.cpu_times(pid))
        peak_bytes = process_tree.peak_rss_bytes(pid)
        written = [path for path in self.table.rglob("*.parquet") if there.get(path) != path.stat().st_mtime_ns]
        filter_bytes = sum(len((pq.read_metadata(path).metadata or {}).get(_FILTER, b"")) for path in written)
        return {
            "wall_s": round(wall_s, 4),
            "cpu_s": round(cpu_s, 2),
            "ended_processes": ended,
            "peak_rss_mb": round(peak_bytes / 1e6),
            "files": len(written),
            "data_bytes": sum(path.stat().st_size for path in written) - filter_bytes,
            "filter_bytes": filter_bytes,
        }

    def count(self, variant: Variant, case: Case, source: Path) -> dict[str, int]:
        """Storage calls of one write, by name; not measured otherwise."""
        found: dict[str, int] = self._call("count", self.table, source, variant, case)["found"]
        return found

    def _prepared(self, variant: Variant, case: Case) -> Path:
        return self._folder / f"{variant.name}-{case.layout}"

    def _call(self, command: str, table: Path, source: Path | None, variant: Variant, case: Case) -> dict[str, Any]:
        request = {
            "command": command,
            "table": str(table),
            "source": None if source is None else str(source),
            "options": dict(variant.options),
            **case.settings(),
        }
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
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
                f"the process of {self.engine} ended with {self._process.wait()}; its last words:\n{tail}"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer
