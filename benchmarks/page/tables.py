"""The tables that the page shows: two on disk, and many rows of the registry that were copied from them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.metadata.stand_ins import make_table
from hudi_ops.health.verdict import HealthVerdict
from hudi_ops.registry.database import opened
from hudi_ops.registry.migrate import migrate
from hudi_ops.registry.picture import Picture
from hudi_ops.registry.recording import record_picture, record_runs, record_verdict
from hudi_ops.registry.refresh import refresh
from hudi_ops.registry.rows import Run, TableKey
from hudi_ops.registry.store import table_named

LARGE, HUGE = "large", "huge"
"""Tables on disk: of many instants, and of many file groups."""

RUNS = 20
"""Runs of each table of the list."""

SEED = 7
_STATES = ("succeeded", "succeeded", "succeeded", "failed")


def make_tables(kept: Path, folder: Path, instants: int, groups: int, huge_groups: int) -> None:
    """Make the tables on disk in the folder `kept`, unless they are there; write `tables.yaml` into the other folder."""
    kept.mkdir(parents=True, exist_ok=True)
    for name, files, commits in ((LARGE, groups, instants), (HUGE, huge_groups, 1)):
        if not (kept / name).exists():
            with closing(make_table(kept / name, files, commits, table_type="mor")):
                pass
    names = "".join(f"  {name}: {{path: {kept / name}, record_key: [id], type: mor}}\n" for name in (LARGE, HUGE))
    (folder / "tables.yaml").write_text(f"tables:\n{names}")


def fill_registry(url: str, tables_file: Path, count: int) -> None:
    """Fill an empty registry: with verdicts and pictures of the tables on disk, and with `count` copies under other names."""
    migrate(url)
    engine = opened(url)
    refresh([LARGE, HUGE], str(tables_file), engine=engine)
    of_large = table_named(engine, LARGE)
    if of_large is None or of_large.verdict is None or of_large.picture is None:
        raise RuntimeError(f"the registry knows no verdict and no picture of {LARGE}")
    drawn = random.Random(SEED)
    small = {**of_large.picture, "timeline": of_large.picture["timeline"][:50]}
    for number in range(count):
        key = TableKey(f"table_{number:04d}", f"file:///data/table_{number:04d}", f"{number:032x}")
        verdict = _verdict(of_large.verdict, key, drawn)
        record_verdict(engine, key, verdict)
        picture = {**small, "name": key.name, "path": key.location, "table_id": key.table_id}
        record_picture(engine, key, Picture.model_validate(picture))
        record_runs(engine, key, [_run(f"{number}-{run}", drawn) for run in range(RUNS)])


def _run(key: str, drawn: random.Random) -> Run:
    begun_ms = 1_790_000_000_000 + drawn.randrange(10**9)
    return Run(key, "compaction", drawn.choice(_STATES), begun_ms, begun_ms + drawn.randrange(600_000))


def _verdict(like: Mapping[str, Any], key: TableKey, drawn: random.Random) -> HealthVerdict:
    """Return a verdict of a table of the list: healthy, or with one or two missed checks."""
    missed = drawn.choices((0, 1, 2), (6, 3, 1))[0]
    checks = [dict(one) for one in like["checks"]]
    for check in drawn.sample(checks, missed):
        check |= {"status": "missed", "since": f"2026-11-{drawn.randrange(1, 29):02d}T00:00:00Z"}
        check["commands"] = [f"hudi-ops compact {key.name}"]
    status = "missed" if any(one["status"] == "missed" for one in checks) else "healthy"
    said = {
        "table": key.name,
        "path": key.location,
        "checks": checks,
        "status": status,
        "exit_code": 4 if missed else 0,
    }
    return HealthVerdict.model_validate({**like, **said})
