"""The slowest tests and files of a run, printed before its closing line and kept in a file. No test fails because of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

TESTS, FILES = 60, 20


def slowest_files(reports: list[pytest.TestReport]) -> Iterator[str]:
    """Yield a line for each of the slowest files: seconds of set-up, tests and clean-up, and the number of tests."""
    seconds: dict[str, float] = defaultdict(float)
    tests: dict[str, set[str]] = defaultdict(set)
    for report in reports:
        file = report.nodeid.partition("::")[0]
        seconds[file] += report.duration
        tests[file].add(report.nodeid)
    for file in sorted(seconds, key=seconds.__getitem__, reverse=True)[:FILES]:
        yield f"{seconds[file]:8.1f} s  {file} ({len(tests[file])} tests)"


def slowest_tests(reports: list[pytest.TestReport]) -> Iterator[str]:
    """Yield a line for each of the slowest steps, as `--durations` prints them."""
    for report in sorted(reports, key=lambda one: one.duration, reverse=True)[:TESTS]:
        yield f"{report.duration:8.1f} s  {report.when:8} {report.nodeid}"


def report_durations(terminal: TerminalReporter, kept: Path) -> None:
    """Print the slowest files, and write them and the slowest tests to `kept`."""
    reports = [one for some in terminal.stats.values() for one in some if isinstance(one, pytest.TestReport)]
    files = list(slowest_files(reports))
    terminal.section(f"slowest {len(files)} files; kept in {kept}")
    for line in files:
        terminal.write_line(line)
    kept.parent.mkdir(parents=True, exist_ok=True)
    parts = [f"slowest {FILES} files", *files, "", f"slowest {TESTS} steps", *slowest_tests(reports)]
    kept.write_text("\n".join(parts) + "\n")
