"""Eight processes migrate the same empty registry, and write the same tables, at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hudi_ops.registry.database import opened
from hudi_ops.registry.store import list_tables, runs_of, table_named
from tests.bounds import bound
from tests.unit.registry.told import content

PROCESSES = 8
TABLES = ("trips", "riders", "cities")
ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import os, random, sys, traceback
from hudi_ops.registry.database import opened
from hudi_ops.registry.migrate import migrate
from hudi_ops.registry.recording import record_picture, record_runs, record_verdict
from hudi_ops.registry.store import list_tables, table_named
from tests.unit.registry.told import NOW_MS, key, picture, told_run, verdict

def work(url, number, rounds):
    migrate(url)
    engine, dice = opened(url), random.Random(number)
    for turn in range(rounds):
        names = ["trips", "riders", "cities"]
        dice.shuffle(names)
        for name in names:
            at_ms = NOW_MS + turn * 1000
            own = told_run(turn, key=f"process-{number}-{turn}", instant="")
            record_runs(engine, key(name, name), [own, told_run(turn), told_run(turn + 1)])
            record_verdict(engine, key(name, name), verdict(4 * (turn % 2), at_ms, NOW_MS, name))
            record_picture(engine, key(name, name), picture(at_ms, digest=f"d{turn}"))
            assert table_named(engine, name) is not None
        assert list_tables(engine).total == 3

children = []
for number in range(int(sys.argv[2])):
    child = os.fork()
    if not child:
        try:
            work(sys.argv[1], number, int(sys.argv[3]))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    children.append(child)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""


def test_eight_processes_lose_nothing_and_have_no_error(empty_url: str) -> None:
    rounds = bound(3, 5, 40)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, empty_url, str(PROCESSES), str(rounds)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.stderr, done.stdout) == ("", f"{[0] * PROCESSES}\n")
    engine = opened(empty_url)
    found = list_tables(engine)
    assert {(one.name, one.table_id) for one in found.rows} == {(name, name) for name in TABLES}
    assert {len(rows) for name, rows in content(engine).items() if name in {"tables", "states", "pictures"}} == {3}
    for one in found.rows:
        runs = runs_of(engine, one.id, 1000)
        keys = [run.key for run in runs]
        assert len(keys) == len(set(keys)) == PROCESSES * rounds + rounds + 1
        details = table_named(engine, one.name)
        assert details is not None
        assert details.picture is not None
        assert details.picture["digest"] == f"d{rounds - 1}"
        assert one.exit_code == 4 * ((rounds - 1) % 2)
