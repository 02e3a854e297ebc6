"""Measure one thing in a process of its own; print its figures as JSON.

It is run as a file, with the code of any commit on PYTHONPATH: it imports no other module of the benchmarks, and jobs that compare
commits use only what both have. CPU is user and system time of all threads, without the imports.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

import hudi_ops
from hudi_ops import Table
from hudi_ops.read.plan import Opened, ReadRequest, plan_read
from hudi_ops.read.where import parse_where
from hudi_ops.services.inspect.summary import describe_table

AGAIN = 5
"""How often a plan is made again; the median counts."""

COMMITS, WARM = 40, 5
"""One-row commits that count, and those before them."""

SYNCED_FILES = 16

ONE = "part = 'p00003'"
"""Condition on one partition."""

Figures = dict[str, float]


def cpu_ms(call: Callable[[], object]) -> float:
    """Return the CPU milliseconds of a call; freeing its result is not counted."""
    gc.collect()
    before = time.process_time()
    result = call()
    spent = time.process_time() - before
    del result
    return spent * 1000


def rows(keys: list[str], parts: list[str]) -> pa.Table:
    """Return rows of a table of stand-ins."""
    return pa.table({"id": keys, "part": parts})


def read(path: str) -> Figures:
    """Plan reads: of the whole table, again, and of one partition; measure the memory that the first one takes."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    before, opened = _resident_mb("VmRSS"), list[Table]()

    def plan(where: str | None = None) -> Any:
        opened[:] = opened or [Table.open(path)]
        request = ReadRequest(where=parse_where(where) if where is not None else None)
        return plan_read(opened[0].context.storage, request, opened[0]._session.commits)

    first_ms, peak_mb = cpu_ms(plan), _resident_mb("VmHWM") - before
    gc.collect()
    kept_mb = _resident_mb("VmRSS") - before
    plan(ONE)
    return {
        "first_ms": first_ms,
        "peak_mb": peak_mb,
        "kept_mb": kept_mb,
        "again_ms": median(cpu_ms(plan) for _ in range(AGAIN)),
        "one_ms": median(cpu_ms(lambda: plan(ONE)) for _ in range(AGAIN)),
    }


def planned(service: str, path: str, **request: Any) -> Figures:
    """Plan a service, and again."""
    opened: list[Table] = []

    def plan() -> Any:
        opened[:] = opened or [Table.open(path)]
        return getattr(opened[0], service).plan(dry_run=True, **request)

    return {"first_ms": cpu_ms(plan), "again_ms": median(cpu_ms(plan) for _ in range(AGAIN))}


def write(path: str) -> Figures:
    """Commit one row, to a partition of the table."""
    return {"first_ms": cpu_ms(lambda: Table.open(path).ingest(rows(["k"], ["p00003"])))}


def commits(path: str) -> Figures:
    """Commit one row after another."""
    table = Table.open(path)
    spent = [cpu_ms(lambda: table.ingest(rows(["k"], ["new"]))) for _ in range(WARM + COMMITS)]
    return {"commit_ms": median(spent[WARM:])}


def sync(path: str) -> Figures:
    """Continue the view after commits of a few files, and list the folders of the table."""
    from hudi_ops.read.current_view import current_view
    from hudi_ops.view.columns.kept import kept_view
    from hudi_ops.view.listing import StorageListing

    table, other = Table.open(path), Table.open(path)
    storage, reader = table.context.storage, table._session.commits
    opened = Opened.of(storage, reader)
    current_view(storage, opened.config, opened.timeline, reader)
    parts = [f"p{number:05d}" for number in range(SYNCED_FILES)]
    spent = []
    for number in range(AGAIN):
        other.ingest(rows([f"k{number}"] * len(parts), parts))
        opened = Opened.of(storage, reader)
        spent.append(cpu_ms(partial(kept_view, storage, opened.config, opened.timeline, reader)))
    return {"sync_ms": median(spent), "listing_ms": cpu_ms(StorageListing(storage, is_partitioned=True).walk)}


def view(store: str, path: str) -> Figures:
    """Get the view of the table, from a file beside the table (`disk`) or by its metadata table (`memory`)."""
    from hudi_ops.config.write_settings import ViewSettings
    from hudi_ops.read.current_view import current_view

    table = Table.open(path, view=ViewSettings.model_validate({"store": store, "folder": f"{path}-views"}))
    storage, reader = table.context.storage, table._session.commits
    opened = Opened.of(storage, reader)
    return {"view_ms": cpu_ms(lambda: current_view(storage, opened.config, opened.timeline, reader))}


SERVER_VARIABLE = "BENCHMARK_SERVER"
"""Environment variable with the URL of the timeline server that the job `served` asks."""

CALL_S = 0.02
"""Time that is added to each storage call, as if storage were far away."""


def far_plan(path: str, *, has_server: bool, where: str | None = None) -> Figures:
    """Plan a read, where each storage call takes `CALL_S` longer; return wall milliseconds.

    The server is asked for the whole table, and not where the condition names the folder that is listed.

    Raises:
        RuntimeError: the server was not used for the whole table.
    """
    from hudi_ops.config.write_settings import ViewServer, ViewSettings
    from hudi_ops.storage.local import LocalStorage
    from hudi_ops.view.columns.kept import view_source

    calls = [0]

    def far(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            calls[0] += 1
            time.sleep(CALL_S)
            return call(*given, **named)

        return called

    for name in ("get", "head", "list", "list_folder", "list_new", "open_input"):
        setattr(LocalStorage, name, far(getattr(LocalStorage, name)))
    server = ViewServer(url=os.environ[SERVER_VARIABLE], table="many") if has_server else None
    began_s = time.perf_counter()
    table = Table.open(path, view=ViewSettings(server=server))
    request = ReadRequest(where=parse_where(where) if where is not None else None)
    plan = plan_read(table.context.storage, request, table._session.commits)
    wall_ms = (time.perf_counter() - began_s) * 1000
    source = view_source(table.context.storage)
    if not len(plan.tasks) or (source == "server") is not (has_server and where is None):
        raise RuntimeError(f"{len(plan.tasks)} files, by {source or 'a listing'}")
    return {"wall_ms": wall_ms, "calls": calls[0]}


JOBS: dict[str, Callable[[str], Figures]] = {
    "read": read,
    "show": lambda path: {"first_ms": cpu_ms(lambda: describe_table(Table.open(path).context.storage))},
    "compaction": partial(planned, "compaction"),
    "clean": partial(planned, "clean", retain=1),
    "write": write,
    "commits": commits,
    "sync": sync,
    "built": partial(view, "memory"),
    "stored": partial(view, "disk"),
    "listed": partial(far_plan, has_server=False),
    "served": partial(far_plan, has_server=True),
    "listed-one": partial(far_plan, has_server=False, where=ONE),
    "served-one": partial(far_plan, has_server=True, where=ONE),
}


def _resident_mb(field: str) -> float:
    """Return resident memory: `VmRSS` is that of now, `VmHWM` its peak."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))


def main() -> None:
    """Run one job."""
    parser = argparse.ArgumentParser()
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--table", required=True)
    parser.add_argument("--code", type=Path, required=True, help="checkout whose code is measured")
    options = parser.parse_args()
    if not Path(str(hudi_ops.__file__)).is_relative_to(options.code):
        parser.error(f"the code is that of {hudi_ops.__file__}")
    pa.array(np.zeros(1))  # pyarrow imports pandas now, where it is installed: half a second, for any code
    print(json.dumps(JOBS[options.job](options.table)))


if __name__ == "__main__":
    main()
