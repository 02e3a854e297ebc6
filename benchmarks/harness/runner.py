"""One engine as a comparison sees it: a process of its own that stays alive between runs, and its tables."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow.parquet as pq

from benchmarks.harness import process_tree
from benchmarks.harness.places import ROOT

_FILTER = b"org.apache.hudi.bloomfilter"


class RunnerFailed(Exception):
    """An engine's process ended; the text holds its last words."""


class Runner:
    """Starts one engine's process and measures what its whole tree does during a command.

    Args:
        engine: its name, for messages and its folder.
        command: module and arguments.
        python: interpreter that has what the engine needs.
        work: folder for its tables and its log.
        extra: further arguments of the process.
    """

    def __init__(self, engine: str, command: Sequence[str], python: Path, work: Path, extra: Sequence[str]) -> None:
        self.engine = engine
        self._folder = work / engine
        scratch = self._folder / "scratch"
        scratch.mkdir(parents=True)
        self._log = self._folder / "runner.log"
        # Another Spark's home or worker Python, inherited from the caller, would be used instead of the runner's own.
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTHON"))}
        with open(self._log, "w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [str(python), "-m", *command, "--work", str(scratch), *extra],
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
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def table(self) -> Path:
        """The table that measured commands work on."""
        return self._folder / "table"

    def prepared(self, name: str) -> Path:
        """A table that runs begin from."""
        return self._folder / name

    def prepare(self, name: str, request: Mapping[str, Any]) -> None:
        """Make the table that runs begin from, once."""
        prepared = self.prepared(name)
        if not prepared.exists():
            self.call("prepare", prepared, request)
            prepared.mkdir(parents=True, exist_ok=True)

    def restore(self, name: str) -> None:
        """Put the prepared table back; what it made dirty goes to the disk now, not in the measured time."""
        shutil.rmtree(self.table, ignore_errors=True)
        shutil.copytree(self.prepared(name), self.table)
        os.sync()

    def measured(self, command: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """One command on the table: wall and CPU seconds, peak resident bytes of the process tree, what the command found."""
        pid = self.pid
        process_tree.reset_peaks(pid)
        before = process_tree.cpu_times(pid)
        answer = self.call(command, self.table, request)
        cpu_s, ended = process_tree.cpu_between(before, process_tree.cpu_times(pid))
        return {
            "wall_s": round(answer["wall_s"], 4),
            "cpu_s": round(cpu_s, 2),
            "ended_processes": ended,
            "peak_rss_mb": round(process_tree.peak_rss_bytes(pid) / 1e6),
            "found": answer["found"],
        }

    def call(self, command: str, table: Path, request: Mapping[str, Any]) -> dict[str, Any]:
        """One command and its answer: `wall_s`, and what the command found."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"command": command, "table": str(table), **request}) + "\n")
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


Stamps = dict[Path, int]


def data_files(table: Path) -> Stamps:
    """Base and log files of a table, with the times of their last change."""
    return {
        path: path.stat().st_mtime_ns
        for path in table.rglob("*")
        if path.suffix == ".parquet" or (".log." in path.name and path.suffix != ".crc" and ".hoodie" not in path.parts)
    }


def written_since(table: Path, there: Stamps) -> dict[str, int]:
    """Files that were written since, their bytes, and those of their bloom filters apart."""
    written = [path for path, stamp in data_files(table).items() if there.get(path) != stamp]
    bases = [path for path in written if path.suffix == ".parquet"]
    filter_bytes = sum(len((pq.read_metadata(path).metadata or {}).get(_FILTER, b"")) for path in bases)
    data_bytes = sum(path.stat().st_size for path in written) - filter_bytes
    return {"files": len(written), "data_bytes": data_bytes, "filter_bytes": filter_bytes}
