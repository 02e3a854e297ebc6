"""For every test: the tables that Apache Hudi itself wrote, the settings of Hypothesis, the tiers, what keeps a run short."""

from __future__ import annotations

import gc
import logging
import os
import zipfile
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import settings

from tests.durations import COSTS, Measured, Recorder, file_of, report_durations, write
from tests.tiers import TIERS, Run, reason_to_leave_out, reasons_to_leave_out

# Examples are bounded in number, not in time: a slow machine is no bug in the code under test.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")

# Two processes of tests share two cores: Arrow's own threads gain nothing on tables of some rows. Our engine keeps its threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Of every Spark that a test starts: sessions of a minute never earn back what Java's second compiler costs two cores.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Tests kill processes but never cut the power, so written files survive without a sync.
os.fsync = lambda descriptor: None

_TESTS = Path(__file__).parent
_ZIPS = _TESTS / "fixtures" / "apache-hudi-tables"


@pytest.fixture(scope="session")
def hudi_fixtures(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Name of a fixture -> base directory of the unpacked table; shared by all tests, hence only to be read."""
    unpacked: dict[str, Path] = {}

    def base_directory(name: str) -> Path:
        if name not in unpacked:
            target = tmp_path_factory.mktemp(name)
            with zipfile.ZipFile(_ZIPS / f"{name}.zip") as archive:
                # Some were packed on a Mac, whose shadow files look like data files.
                archive.extractall(target, [each for each in archive.namelist() if not each.startswith("__MACOSX/")])
            (unpacked[name],) = target.iterdir()
        return unpacked[name]

    return base_directory


@pytest.fixture(scope="session")
def hudi_fixture_names() -> list[str]:
    """Names of all fixtures."""
    return sorted(path.stem for path in _ZIPS.glob("*.zip"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what bin/test says of a run: its tier, its third, its number, and where its durations go."""
    group = parser.getgroup("hudi_ops")
    group.addoption("--tier", choices=TIERS, help="bounds of the tests (default: full), and which of them run")
    group.addoption(
        "--third", type=int, choices=(1, 2, 3), help="full: run only the files of this third; quick: the others"
    )
    group.addoption("--number", type=int, default=0, help="number of the run: chooses the share of rotated cases")
    group.addoption("--keep-durations", type=Path, metavar="FILE", help="print the slowest files and keep them in FILE")
    group.addoption("--record-durations", action="store_true", help="write tests/durations.tsv from this run")


def pytest_configure(config: pytest.Config) -> None:
    """Set the tier before a test module reads it, and keep the order of collection.

    Workers would get files by their number of tests, and the longest file would come last.
    """
    if config.option.tier:
        os.environ["HUDI_OPS_TIER"] = config.option.tier
    if config.option.tier == "soak":
        os.environ["HUDI_OPS_SOAK"] = "1"
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without looking for garbage: what is collected stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files of other thirds alone: they are not even imported."""
    if not config.option.third or not collection_path.match("test_*.py"):
        return None
    from tests.groups import thirds

    is_of_third = thirds().get(str(collection_path.relative_to(_TESTS.parent))) == config.option.third - 1
    return True if is_of_third == (config.option.tier == "quick") else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Group tests by the table of `tests/groups.py` for `--dist=loadgroup`."""
    from tests.groups import GroupScheduling

    return GroupScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


_LEFT_OUT: Counter[tuple[str, str]] = Counter()
_UNKNOWN: list[int] = []
_MEASURED: Measured = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the tier does not hold, and put groups of files that take long first.

    All workers are to end at the same time. Within a file nothing changes its place.
    """
    from tests.groups import longest_first

    tier = config.option.tier
    if tier:
        if not config.option.third and len(items) > 1_000:
            _UNKNOWN.append(COSTS.unknown(item.nodeid for item in items if not reason_to_leave_out(item, "full")))
        reasons = reasons_to_leave_out(items, Run(tier, config.option.number))
        _LEFT_OUT.update((nodeid.split("/")[1], reason) for nodeid, reason in reasons.items())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in reasons])
        items[:] = [item for item in items if item.nodeid not in reasons]
    keys = longest_first({file_of(item.nodeid) for item in items}, tier or "full")
    items.sort(key=lambda item: keys[file_of(item.nodeid)])
    if config.option.record_durations:
        quick = reasons_to_leave_out(items, Run("quick", config.option.number))
        tier_of = {item.nodeid: "full" if item.nodeid in quick else "quick" for item in items}
        config.pluginmanager.register(Recorder(tier_of), "recorder")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send what a worker left out and measured to the process that prints it."""
    recorder = session.config.pluginmanager.get_plugin("recorder")
    measured = list(recorder.measured.items()) if recorder else []
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput |= {"left_out": list(_LEFT_OUT.items()), "unknown": _UNKNOWN, "measured": measured}
    else:
        _add_measured(measured)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker left out and measured; every worker collects the same tests."""
    sent = getattr(node, "workeroutput", {})
    _LEFT_OUT.update({
        tuple(place): count for place, count in sent.get("left_out", []) if tuple(place) not in _LEFT_OUT
    })
    _UNKNOWN.extend(sent.get("unknown", []))
    _add_measured(sent.get("measured", []))


def _add_measured(rows: list[tuple[tuple[str, str], list[float]]]) -> None:
    for (file, tier), amounts in rows:
        _MEASURED[file, tier] = [
            sum(pair) for pair in zip(_MEASURED.get((file, tier), [0.0, 0.0, 0]), amounts, strict=True)
        ]


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Print what the tier left out, the slowest files, and how far the known durations fit; write new ones if asked to."""
    if _LEFT_OUT:
        terminalreporter.section(
            f"left out by the tier {config.option.tier}: {_LEFT_OUT.total()} tests; bin/test --soak has all"
        )
        for (folder, reason), count in sorted(_LEFT_OUT.items()):
            terminalreporter.write_line(f"{count:6}  tests/{folder}: {reason}")
    if config.option.keep_durations:
        report_durations(terminalreporter, config.option.keep_durations)
    if any(_UNKNOWN):
        terminalreporter.write_line(
            f"tests/durations.tsv lacks, or knows without need, {_UNKNOWN[0]} tests; bin/test --full --record-durations corrects it"
        )
    if config.option.record_durations and _MEASURED:
        write(_MEASURED)
        terminalreporter.write_line("wrote tests/durations.tsv")


def pytest_collection_finish() -> None:
    """What was loaded so far stays until the end: looking through it for garbage again and again would take a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure() -> None:
    """pytest's streams are closed by now, and py4j still has farewells to log; they would follow the closing line."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.raiseExceptions = False  # it says some of them to the root logger
