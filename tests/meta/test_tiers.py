"""The rules of tiers leave no test out for good, the thirds are even, and `bin/test` chooses one by the history it is in.

Goal: a cheap run never means that something is not proved any more. Method: the tests that pytest collects, `tests/durations.tsv`,
and copies of `bin/test` in checkouts of several kinds.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.durations import COSTS, file_of
from tests.groups import THIRDS, group_of, group_of_file, thirds
from tests.guards.table import GUARDS
from tests.tiers import FOLDERS, SOAK_FOLDERS, WHOLE_FOLDER

ROOT = Path(__file__).resolve().parents[2]


PROGRAM = """
import sys
import pytest
from tests.tiers import Run, reasons_to_leave_out

class Printed:
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items):
        for number in range(3):
            left_out = reasons_to_leave_out(items, Run(sys.argv[1], number))
            for item in items:
                if item.nodeid not in left_out:
                    print("held", number, item.nodeid)

options = [f"--tier={sys.argv[1]}", "--collect-only", "-qqs", "-p", "no:cacheprovider"]
sys.exit(pytest.main(options, [Printed()]))
"""


def collected(tier: str) -> list[list[str]]:
    """Return the ids that runs of a tier hold: those of the numbers 0, 1 and 2, from one collection."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, tier], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    held: list[list[str]] = [[], [], []]
    for line in done.stdout.splitlines():
        if match := re.fullmatch(r"held (\d) (tests/.*)", line):
            held[int(match[1])].append(match[2])
    return held


@pytest.mark.full("collects all tests three times")
def test_no_rule_leaves_a_test_out_for_good() -> None:
    # Bounds differ from tier to tier, and with them the cases of some tests: what is compared are the tests without their cases.
    every = without_cases(collected("soak")[0])
    shares, held = collected("full"), collected("quick")
    assert without_cases(shares[0]) == without_cases(shares[1]) == without_cases(shares[2])
    assert without_cases(shares[0]) < every
    assert len(set(shares[0]) & set(shares[1])) < len(set(shares[0]) | set(shares[1]))
    quick = without_cases(held[0])
    assert quick < without_cases(shares[0])
    assert set(held[0]) != set(held[1])
    rules = {test for test in without_cases(shares[0]) - quick if test.startswith(WHOLE_FOLDER)}
    assert rules == {"tests/meta/test_tiers.py::test_no_rule_leaves_a_test_out_for_good"}
    # Two workers; the limit is 270 s, of which they need some to collect the tests.
    assert sum(COSTS.mean_wall_s(file_of(nodeid)) for nodeid in held[0]) / 2 <= 220
    folders = {test.split("/")[1] for test in every} - {test.split("/")[1] for test in quick}
    assert folders <= set(FOLDERS) | set(SOAK_FOLDERS)
    unknown = COSTS.unknown(shares[0])
    assert unknown <= 0.05 * len(shares[0]), "run bin/test --full --record-durations, and commit tests/durations.tsv"


def without_cases(nodeids: list[str]) -> set[str]:
    """Return the tests of these ids, without their cases."""
    return {nodeid.partition("[")[0] for nodeid in nodeids}


def test_the_thirds_are_even_and_hold_every_file() -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    dealt = thirds()
    assert set(dealt) == files
    seconds: Counter[int] = Counter()
    for file, third in dealt.items():
        seconds[third] += round(COSTS.wall_s(file, "full"))
    assert set(seconds) == set(range(THIRDS))
    assert max(seconds.values()) <= 1.2 * min(seconds.values())
    for kind in {group_of_file(file) for file in files} - files:
        assert {dealt[file] for file in files if group_of_file(file) == kind} == set(range(THIRDS)), kind


def test_what_asks_for_a_session_of_spark_shares_a_process(request: pytest.FixtureRequest) -> None:
    asking = {"apache_hudi", "apache_hudi_1_0", "spark"}
    items = [item for item in request.session.items if asking & set(getattr(item, "fixturenames", ()))]
    alone = {item.nodeid for item in items if group_of(item.nodeid) == item.nodeid.partition("::")[0]}
    assert not alone
    version_8 = [item for item in items if "apache_hudi_1_0" in getattr(item, "fixturenames", ())]
    assert len({group_of(item.nodeid) for item in version_8}) <= 1


def test_tests_of_guards_are_in_every_full_run() -> None:
    soak = re.compile(r"^pytestmark = .*\bsoak\(", re.MULTILINE)
    files = {test.partition("::")[0] for guard in GUARDS for test in guard.tests}
    assert len(files) >= 40
    assert [file for file in files if soak.search((ROOT / file).read_text(encoding="utf-8"))] == []


def dry_run(folder: Path, *options: str) -> str:
    """Return what the `bin/test` of a folder would run."""
    done = subprocess.run([folder / "bin" / "test", "--dry-run", *options], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def git(folder: Path, *words: str) -> None:
    """Run git in a folder, with a name for its commits."""
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True, timeout=60)


def test_the_number_of_commits_chooses_the_third(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    (plain / "bin").mkdir(parents=True)
    shutil.copy(ROOT / "bin" / "test", plain / "bin" / "test")
    # A folder above it may be a checkout, which git would find.
    (plain / ".git").write_text("no checkout")
    assert "first third" in dry_run(plain, "--ci")
    assert "third 1 of 3" in dry_run(plain, "--ci")
    (plain / ".git").unlink()
    git(plain, "init", "--quiet")
    git(plain, "add", ".")
    seen = []
    for number in range(1, 6):
        git(plain, "commit", "--quiet", "--allow-empty", "--message", str(number))
        seen.append(re.search(r"third (\d) of 3.*--number (\d)", dry_run(plain, "--ci")).groups())  # type: ignore[union-attr]
    assert seen == [("2", "0"), ("3", "0"), ("1", "1"), ("2", "1"), ("3", "1")]
    assert "third 3 of 3" in dry_run(plain, "--ci", "--third", "3")
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{plain}", "shallow")
    assert "first third" in dry_run(tmp_path / "shallow", "--ci")


@pytest.mark.parametrize(
    "options", [("--third", "4", "--ci"), ("--third", "x"), ("--third", "1"), ("--record-durations",)]
)
def test_wrong_options_are_refused(options: tuple[str, ...]) -> None:
    done = subprocess.run([ROOT / "bin" / "test", *options], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "bin/test: --" in done.stderr
