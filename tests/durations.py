"""Costs of the files of tests: `durations.tsv` is read to order and share them out, and written by `--record-durations`.

A row holds a file and a tier: `quick` for its tests that the quick tier holds, `full` for the others that full holds. CPU seconds
include those of processes that a test started; wall seconds are those of one of two workers. psutil comes with Airflow.
No test fails because of time.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from _pytest.terminal import TerminalReporter

TABLE = Path(__file__).with_name("durations.tsv")
HEAD = "file\ttier\tcpu_s\twall_s\ttests"
FILES, TESTS = 20, 60

Measured = dict[tuple[str, str], list[float]]
"""File and tier -> CPU seconds, wall seconds and number of tests."""


def file_of(nodeid: str) -> str:
    """Return the file of a test, or of a test without its case."""
    return nodeid.partition("::")[0]


@dataclass(frozen=True)
class Costs:
    """What `durations.tsv` says of each file."""

    rows: Measured

    @classmethod
    def read(cls, table: Path = TABLE) -> Costs:
        """Read the table; without one no cost is known."""
        rows: Measured = {}
        for line in table.read_text(encoding="utf-8").splitlines()[1:] if table.exists() else ():
            file, tier, *numbers = line.split("\t")
            rows[file, tier] = [float(number) for number in numbers]
        return cls(rows)

    def mean_wall_s(self, file: str) -> float:
        """Return the mean wall seconds of a test of the file that quick may hold; 0 if it is unknown."""
        _, wall_s, tests = self._sum(file, ("quick",))
        return wall_s / tests if tests else 0.0

    def wall_s(self, file: str, tier: str) -> float:
        """Return the wall seconds of the tests of a file that quick, or else full, holds; 0 if the file is unknown."""
        return self._sum(file, ("quick",) if tier == "quick" else ("quick", "full"))[1]

    def unknown(self, nodeids: Iterable[str]) -> int:
        """Count tests of full that the table lacks, and tests of the table that are gone, file by file."""
        there = Counter(map(file_of, nodeids))
        known = {file: self._sum(file)[2] for file in {file for file, _ in self.rows} | set(there)}
        return int(sum(abs(there[file] - tests) for file, tests in known.items()))

    def _sum(self, file: str, tiers: Iterable[str] = ("quick", "full")) -> tuple[float, float, float]:
        rows = [self.rows.get((file, tier), (0.0, 0.0, 0.0)) for tier in tiers]
        cpu_s, wall_s, tests = (sum(column) for column in zip(*rows, strict=True))
        return cpu_s, wall_s, tests


COSTS = Costs.read()


def write(measured: Measured, table: Path = TABLE) -> None:
    """Write the measured costs, sorted by file."""
    rows = [
        f"{file}\t{tier}\t{cpu:.1f}\t{wall:.1f}\t{int(tests)}"
        for (file, tier), (cpu, wall, tests) in sorted(measured.items())
    ]
    table.write_text("\n".join([HEAD, *rows]) + "\n", encoding="utf-8")


class Recorder:
    """A plugin of pytest that measures each test with its set-up and clean-up, in the process that runs it."""

    def __init__(self, tier_of: dict[str, str]) -> None:
        self.measured: Measured = defaultdict(lambda: [0.0, 0.0, 0])
        self._tier_of = tier_of

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Add the CPU and wall seconds of a test to the row of its file."""
        cpu_s, started = cpu_seconds(), time.monotonic()
        try:
            return (yield)
        finally:
            row = self.measured[file_of(item.nodeid), self._tier_of[item.nodeid]]
            # A process that ends without having been waited for takes its seconds with it.
            for place, amount in enumerate((max(0.0, cpu_seconds() - cpu_s), time.monotonic() - started, 1)):
                row[place] += amount


def cpu_seconds() -> float:
    """Return the CPU seconds of this process, of its running descendants, and of those that they waited for."""
    this = psutil.Process()
    seconds = 0.0
    for process in [this, *this.children(recursive=True)]:
        try:
            seconds += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return seconds


def slowest_files(reports: list[pytest.TestReport]) -> Iterator[str]:
    """Yield a line for each of the slowest files: seconds of set-up, tests and clean-up, and the number of tests."""
    seconds: dict[str, float] = defaultdict(float)
    tests: dict[str, set[str]] = defaultdict(set)
    for report in reports:
        seconds[file_of(report.nodeid)] += report.duration
        tests[file_of(report.nodeid)].add(report.nodeid)
    for file in sorted(seconds, key=seconds.__getitem__, reverse=True)[:FILES]:
        yield f"{seconds[file]:8.1f} s  {file} ({len(tests[file])} tests)"


def slowest_tests(reports: list[pytest.TestReport]) -> Iterator[str]:
    """Yield a line for each of the slowest steps, as `--durations` prints them."""
    for report in sorted(reports, key=lambda report: report.duration, reverse=True)[:TESTS]:
        yield f"{report.duration:8.1f} s  {report.when:8} {report.nodeid}"


def report_durations(terminal: TerminalReporter, kept: Path) -> None:
    """Print the slowest files, and write them and the slowest tests to `kept`."""
    reports = [report for some in terminal.stats.values() for report in some if isinstance(report, pytest.TestReport)]
    files = list(slowest_files(reports))
    terminal.section(f"slowest {len(files)} files; kept in {kept}")
    for line in files:
        terminal.write_line(line)
    kept.parent.mkdir(parents=True, exist_ok=True)
    parts = [f"slowest {FILES} files", *files, "", f"slowest {TESTS} steps", *slowest_tests(reports)]
    kept.write_text("\n".join(parts) + "\n", encoding="utf-8")
