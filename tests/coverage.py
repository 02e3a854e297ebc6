"""Measure which lines of `hudi_ops` a run executes: the pytest plugin of `bin/test --coverage`.

It is loaded with `-p tests.coverage` before a test imports the product. Each worker measures its own process; processes that tests
start are not measured. slipcover writes counters into the byte code and takes out those that have been reached, so that a run
takes hardly longer. `python -m slipcover --merge FILE FILE --out FILE` joins the files of several runs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter
from slipcover import FileMatcher, ImportManager, Slipcover, merge_coverage

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ROOT / "hudi_ops"
LEAST_PERCENT = 96.0
"""Share of the lines that a whole run of full, or of the soak, executes at least."""

_MEASURED = Slipcover(source=[str(PRODUCT)])
ImportManager(_MEASURED, FileMatcher(sources=[PRODUCT])).__enter__()
_OF_WORKERS: list[dict[str, Any]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the file that gets the lines."""
    parser.addoption("--coverage", type=Path, required=True, metavar="FILE", help="file that gets the executed lines")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker executed."""
    if "coverage" in getattr(node, "workeroutput", {}):
        _OF_WORKERS.append(json.loads(node.workeroutput["coverage"]))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the lines of a worker, or write those of all; a whole run fails with too few."""
    config, lines = session.config, _MEASURED.get_coverage()
    if hasattr(config, "workeroutput"):
        config.workeroutput["coverage"] = json.dumps(lines)
        return
    for other in _OF_WORKERS:
        merge_coverage(lines, other)
    config.option.coverage.write_text(json.dumps(lines), encoding="utf-8")
    is_whole = config.option.tier in {"full", "soak"} and not config.option.third and not config.option.file_or_dir
    if is_whole and lines["summary"]["percent_covered"] < LEAST_PERCENT:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Print the share of lines, and the least that a whole run has to reach."""
    summary = json.loads(config.option.coverage.read_text(encoding="utf-8"))["summary"]
    executed = summary["covered_lines"]
    terminalreporter.write_line(
        f"executed {summary['percent_covered']:.2f} % of {executed + summary['missing_lines']:,} lines of hudi_ops "
        f"(a whole run at least {LEAST_PERCENT:.0f} %): {config.option.coverage}"
    )
