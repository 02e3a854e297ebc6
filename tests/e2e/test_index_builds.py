"""Processes that build indexes beside a writer are killed or cancelled: the next call goes on, or nothing is left.

A build runs as a Spark application or as the command, while another process commits without pause. In turn an application is killed
at a random moment, and soon after it has announced the index. Once each; with `--soak` ten times. Builds are cancelled at three
random moments, with `--soak` at thirty.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.commit.recover.recover import recover
from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper
from hudi_ops.config.tables_file import locate_table
from hudi_ops.errors import Busy, InvalidRequest, NotFound
from hudi_ops.metadata.records.partitions import FOLDER, TIMELINE_FOLDER
from hudi_ops.services.indexing.service import IndexResult
from hudi_ops.table.table import Table
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.builds import checkpoint as build_checkpoint
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.verify import verify_table
from tests.bounds import bound
from tests.spark_application import DEADLINE_S, Application

KEYS = ("bloom_filters", "record_index")
KILLS = bound(1, 2, 20)
CANCELS = bound(1, 3, 30)
ROWS = 40_000
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("value", pa.int64()), ("ts", pa.int64())])
WRITER = """
import os, sys, time
import pyarrow as pa
from hudi_ops.config.tables_file import locate_table
from hudi_ops.table.table import Table

table, number = Table.at(locate_table("t")), 0
while not os.path.exists(sys.argv[1]):
    number += 1
    ids = [number % 1000, 1_000_000 + time.time_ns() // 1_000_000]
    rows = {"id": ids, "part": [f"p{one % 4}" for one in ids], "value": [number] * 2, "ts": [time.time_ns()] * 2}
    table.ingest(pa.table(rows, schema=table.schema))
    print(number, flush=True)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture
def table(tmp_path: Path, server: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    """A table with a metadata table, beside which another process commits until the test ends; it is verified then."""
    (tmp_path / "tables.yaml").write_text(
        f"lock: zookeeper://{server.hosts}/{tmp_path.name}\n"
        "tables:\n  t: {path: t, record_key: [id], partition_by: [part], ordering: ts, buckets: 2}\n"
    )
    monkeypatch.setenv("HUDI_OPS_TABLES", str(tmp_path / "tables.yaml"))
    created = Table.create(
        str(tmp_path / "t"), name="t", record_key=["id"], schema=SCHEMA, partition_by=["part"], ordering="ts", buckets=2
    )
    with closing(created) as made:
        ids = list(range(ROWS))
        parts = [f"p{one % 4}" for one in ids]
        made.ingest(pa.table({"id": ids, "part": parts, "value": ids, "ts": [1] * ROWS}, schema=SCHEMA))
    stop = tmp_path / "stop"
    with open(tmp_path / "writer.out", "w") as told, open(tmp_path / "writer.err", "w") as errors:
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(stop)], stdout=told, stderr=errors)
    try:
        with closing(Table.at(locate_table("t"))) as opened:
            yield opened
        stop.touch()
        assert writer.wait(timeout=DEADLINE_S) == 0, (tmp_path / "writer.err").read_text()[-3_000:]
        assert int((tmp_path / "writer.out").read_text().split()[-1]) >= 5
        with closing(Table.at(locate_table("t"))) as opened:
            assert verify_table(opened.context.storage, deep=True, index=True).errors == ()
    finally:
        writer.kill()
        writer.wait()


def announced(table: Table) -> bool:
    """Whether the properties name an unfinished partition."""
    return load_config(table.context.storage).metadata_partitions_inflight != ()


def resumed(table: Table, instant: str) -> IndexResult:
    """Execute a plan as soon as its executor counts as dead."""
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            return table.indexing.execute(instant=instant, engine="local")
        except Busy:
            assert time.monotonic() < deadline_s, "the dead executor's lease was waited for"
            time.sleep(0.1)


def built_at(table: Table, plan: str) -> set[str]:
    """The instants at which executors of a plan built its indexes, by their checkpoints."""
    return {one.built_at for one in build_checkpoint.checkpoints_of(table.context.storage, plan)}


def check_built(table: Table) -> None:
    config = load_config(table.context.storage)
    assert {*KEYS} <= {*config.metadata_partitions}
    assert config.metadata_partitions_inflight == ()
    assert [one for one in load_timeline(table.context.storage, config).pending if one.kind == "indexing"] == []
    assert table.context.storage.list(build_checkpoint.FOLDER) == []


def check_gone(table: Table) -> None:
    """Nothing of a build is left."""
    storage = table.context.storage
    config = load_config(storage)
    assert [one for one in load_timeline(storage, config).pending if one.kind == "indexing"] == []
    assert not {*KEYS} & {*config.all_metadata_partitions}
    assert not {*KEYS} & {*storage.list_folder(FOLDER).folders}
    assert storage.list(build_checkpoint.FOLDER) == []
    data = {one.time for one in load_timeline(storage, config)}
    names = [info.name for info in storage.list_folder(TIMELINE_FOLDER).files]
    begun, completed = ({name.partition(mark)[0] for name in names if mark in name} for mark in (".", "_"))
    assert {one for one in begun if "_" not in one} - completed - data == set()


def test_killed_applications_go_on_and_rebuild_nothing_that_was_announced(table: Table, tmp_path: Path) -> None:
    dice, after, amid = random.Random(21), 0, 0
    for number in range(KILLS):
        instant = table.indexing.plan(partitions=KEYS).instant
        assert instant is not None
        app = Application(Path("t"), instant, tmp_path, "index.py")
        try:
            deadline_s = time.monotonic() + DEADLINE_S
            is_late = number % 2 == 1
            while app.process.poll() is None and time.monotonic() < deadline_s:
                if announced(table) if is_late else table.context.storage.list(build_checkpoint.FOLDER):
                    break
                time.sleep(0.002)
            time.sleep(dice.uniform(0, 0.05 if is_late else 1.0))
            app.kill_driver()
            was_announced, built = announced(table), built_at(table, instant)
            result = resumed(table, instant)
            after += was_announced
            amid += bool(result.partitions) and not was_announced
            if was_announced:
                # New base files prove no second build: the writer compacts the metadata table, too.
                assert result.built_at in {*built, ""}, "an announced index was built again"
        finally:
            app.end()
        check_built(table)
        table.indexing.drop(KEYS)
    print(f"killed {amid} times before and {after} times after the announcement")
    assert after >= KILLS // 4, "kills came too late to mean anything"
    table.indexing.run(partitions=KEYS)
    check_built(table)


def test_cancelled_builds_leave_nothing(table: Table, tmp_path: Path) -> None:
    dice, cancelled = random.Random(22), 0
    command = [sys.executable, "-m", "hudi_ops.cli.main", "index", "t", "run", *KEYS, "--json"]
    for _ in range(CANCELS):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as build:
            deadline_s = time.monotonic() + DEADLINE_S
            while not (pending := pending_build(table)) and time.monotonic() < deadline_s and build.poll() is None:
                time.sleep(0.002)
            time.sleep(dice.uniform(0, 1.2))
            state = "completed"
            if pending:
                try:
                    state = table.cancel(pending, reason="asked for").state
                except InvalidRequest as error:  # the build was faster
                    state = "completed" if "completed" in error.what else error.what
            told, errors = build.communicate(timeout=DEADLINE_S)
        recover(table._session)
        if {*KEYS} <= {*load_config(table.context.storage).metadata_partitions}:
            assert (build.returncode, state) == (0, "completed"), errors
            assert {*json.loads(told)["partitions"]} <= {*KEYS}
            table.indexing.drop(KEYS)
            continue
        cancelled += 1
        assert build.returncode != 0
        assert state != "completed", errors
        check_gone(table)
    print(f"cancelled {cancelled} of {CANCELS} builds")
    assert cancelled >= CANCELS // 3, "cancels came too late to mean anything"
    table.indexing.run(partitions=KEYS)
    check_built(table)


def pending_build(table: Table) -> str:
    """The instant of the pending build; empty: none."""
    try:
        timeline = load_timeline(table.context.storage, load_config(table.context.storage))
    except NotFound:
        return ""
    return next((one.time for one in timeline.pending if one.kind == "indexing"), "")
