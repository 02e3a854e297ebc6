"""Merge-on-read tables that Apache Hudi and we write and compact in turn: both, and the `hudi` package, read the same rows.

Rounds are random but seeded; `--soak` plays more seeds. After every round snapshot, read-optimized and incremental queries of all
must agree with each other, and the first two with a model of dicts. Either plans compactions, and either executes them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.concurrency.lock.in_process import in_process_lock
from hudi_ops.config.write_settings import LogFormat
from hudi_ops.context import Owner, TableContext
from hudi_ops.errors import Unsupported
from hudi_ops.index.simple_bucket import Tagger
from hudi_ops.storage.local import LocalStorage
from hudi_ops.testing.faults import Crash
from hudi_ops.timeline.active import load_timeline
from hudi_ops.verify import verify_table
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.property.merge_on_read_model import SCHEMA, MergeOnReadModel, Row, Shape

HudiRsReader = Callable[..., pa.Table]

ROUNDS = 20 if os.environ.get("HUDI_OPS_SOAK") else 6
SEEDS = range(6 if os.environ.get("HUDI_OPS_SOAK") else 1)
OURS = ("upsert", "upsert", "die", "delete", "insert", "compact", "die compacting", "insert_overwrite")
THEIRS = ("upsert", "upsert", "delete", "compact", "we plan, they execute", "they plan, we execute")
READ_OPTIMIZED = {"hoodie.datasource.query.type": "read_optimized"}
WITHOUT_METADATA = "hoodie.metadata.enable=false"
AT_ONCE = f"{WITHOUT_METADATA},hoodie.compact.inline.max.delta.commits=1"


class DyingStorage(LocalStorage):
    """A disk whose process ends after the first data file that it puts, for good."""

    def __init__(self, root: str, point: str) -> None:
        super().__init__(root)
        self._point, self._is_dead = point, False

    def put(self, path: str, body: bytes | pa.Buffer) -> None:
        """As a disk, until the end."""
        self._refuse()
        super().put(path, body)
        self._is_dead = self._point in path and not path.startswith(".hoodie/")
        self._refuse()

    def put_if_absent(self, path: str, body: bytes) -> None:
        """As a disk, until the end."""
        self._refuse()
        super().put_if_absent(path, body)

    def delete(self, path: str) -> None:
        """As a disk, until the end."""
        self._refuse()
        super().delete(path)

    def delete_all(self, paths: Sequence[str]) -> None:
        """As a disk, until the end."""
        self._refuse()
        super().delete_all(paths)

    def _refuse(self) -> None:
        if self._is_dead:
            raise Crash("the process has ended")


class Game:
    """One table, its model, and the dice."""

    def __init__(self, path: Path, shape: Shape, seed: int, apache_hudi: HudiPeer) -> None:
        self.path, self.shape, self.apache_hudi = path, shape, apache_hudi
        self.dice = random.Random(seed)
        self.played: list[str] = []
        self.completions: list[str] = []

    def begin(self, *, ours: bool, log_format: LogFormat) -> Table:
        """The table, made by one of the two, with some rows written by its maker."""
        rows = [self.row(number, 0) for number in range(0, 40, 2)]
        if ours:
            table = Table.create(
                str(self.path),
                name="turns",
                record_key=["id"],
                schema=SCHEMA,
                partition_by=self.shape.partitions,
                ordering=self.shape.ordering,
                table_type="mor",
                buckets=self.shape.buckets,
                log_format=log_format,
                metadata=False,
            )
            table.ingest(self.delivered(rows))
        else:
            self.hudi("upsert", rows, mode="overwrite", options=self.creation())
            table = Table.open(str(self.path), buckets=self.shape.buckets, log_format=log_format)
            table.ingest(self.delivered([self.row(0, 1)]))
        facts = table._session.loader.load().log.properties.facts
        tagger = Tagger.of(table.config, facts)

        def bucket_of(row: Row) -> int:
            ((_, bucket, _),) = tagger.split(self.delivered([row]))
            return int(bucket)

        self.model = MergeOnReadModel(self.shape, bucket_of)
        for batch, instant in zip(
            [rows] if ours else [rows, [self.row(0, 1)]], self.instants(table, rows=True), strict=True
        ):
            self.model.apply("upsert", batch, instant)
        return table

    def creation(self) -> dict[str, str]:
        """What Apache Hudi has to be told of a new table."""
        return {
            "hoodie.table.name": "turns",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": ",".join(self.shape.partitions),
            "hoodie.datasource.write.hive_style_partitioning": "true",
            **({"hoodie.datasource.write.precombine.field": self.shape.ordering} if self.shape.ordering else {}),
        }

    def turn(self, table: Table, time: int, *, ours: bool) -> None:
        """One random write or compaction by one of the two, and by the model."""
        operation = self.dice.choice(OURS if ours else THEIRS)
        if self.model.planned is not None and (
            operation == "die compacting" or (not ours and operation not in {"upsert", "delete"})
        ):
            operation = "upsert"  # one of ours resumes the plan
        self.played.append(f"{'we' if ours else 'they'} {operation}")
        before = set(self.instants(table))
        if operation in {"compact", "we plan, they execute", "they plan, we execute"}:
            self.compact(table, operation, ours=ours)
            return
        if operation == "die compacting":
            # Whoever compacts next finds the plan, and what its executor left.
            self.die(lambda dying: dying.compact(), ".parquet")
            if any(one.action == "compaction" for one in load_timeline(table.context.storage, table.config).pending):
                self.model.plan()
            return
        rows = self.rows("upsert" if operation == "die" else operation, time)
        if operation == "die":
            self.die(lambda dying: dying.ingest(self.delivered(rows)), "part=")
            return
        if ours:
            table.ingest(self.delivered(rows), operation)
        else:
            self.hudi(operation, rows)
        new = [one for one in self.instants(table) if one not in before]
        if new:
            self.model.apply(operation, rows, new[0])

    def die(self, run: Callable[[Table], object], point: str) -> None:
        """A process of ours ends right after its first data file; nothing of it shows, and the next of ours clears it away."""
        dying = DyingStorage(str(self.path), point)
        context = TableContext(
            storage=dying, locks=in_process_lock(dying.uri), owner=replace(Owner.of_this_process(), started="1")
        )
        with suppress(Crash):
            run(Table(context))

    def compact(self, table: Table, operation: str, *, ours: bool) -> None:
        """Plan and execute, in one of the ways in which the two can share it."""
        before = set(self.instants(table))
        if operation == "compact" and ours:
            table.compact()
        elif operation == "compact":
            self.procedure("schedule", AT_ONCE)
            self.procedure("run", WITHOUT_METADATA)
        elif operation.startswith("we plan"):
            if table.plan_compaction().instant is not None:
                self.procedure("run", WITHOUT_METADATA)
        else:
            self.procedure("schedule", AT_ONCE)
            pending = load_timeline(table.context.storage, table.config).pending
            if pending:
                table.compact(pending[0].time)
        if new := set(self.instants(table)) - before:
            self.model.compact(max(new))

    def procedure(self, what: str, options: str) -> None:
        """Apache Hudi's own compaction procedure."""
        self.apache_hudi.sql(f"CALL run_compaction(op=>'{what}', path=>'{self.path}', options=>'{options}')")

    def hudi(
        self, operation: str, rows: list[Row], mode: str = "append", options: dict[str, str] | None = None
    ) -> None:
        """A write of Apache Hudi's."""
        self.apache_hudi.write(
            self.path, self.delivered(rows), operation, mode=mode, buckets=self.shape.buckets, options=options
        )

    def rows(self, operation: str, time: int) -> list[Row]:
        """Rows that fit the operation: new keys for inserts, keys of any age for the rest; some late, some deleting."""
        numbers = range(80)
        if operation == "insert":
            shown = {row["id"] for _, row in self.model.snapshot().values()}
            # Not one that a log deletes: such an insert is folded with the delete before it meets the base.
            logged = {name[-1] for name in self.model.log}
            free = [n for n in numbers if self.row(n, 0)["id"] not in shown | logged]
            return [self.row(n, time) for n in self.dice.sample(free, min(len(free), 5))]
        chosen = self.dice.sample(numbers, self.dice.randint(1, 12))
        deletes = (None, None, False, True) if operation == "upsert" else (None,)
        return [self.row(n, self.dice.choice((time, time, 1)), self.dice.choice(deletes)) for n in chosen]

    def row(self, number: int, time: int, deleted: bool | None = None) -> Row:
        """A row; key and partition follow from the number."""
        part = ("x", "y")[number % 2]
        return {
            "id": f"k{number:02d}",
            "part": part,
            "value": number * 1000 + time,
            "ts": time,
            "_hoodie_is_deleted": deleted,
        }

    def delivered(self, rows: list[Row]) -> pa.Table:
        """Rows as they are given to either."""
        return pa.Table.from_pylist(rows, SCHEMA)

    def instants(self, table: Table, *, rows: bool = False) -> list[str]:
        """Completed writes by completion; `rows`: without the empty first one that every table of ours begins with."""
        timeline = load_timeline(table.context.storage, table.config)
        found = sorted((one.completion_time, one.time) for one in timeline.completed_writes)
        self.completions = [completion for completion, _ in found]
        times = [time for _, time in found]
        if not rows:
            return times
        commits = table._session.commits
        return [one.time for one in timeline.completed_writes if commits.metadata(timeline, one).stats]  # type: ignore[union-attr]

    def check(self, table: Table, hudi_rs: HudiRsReader) -> None:
        """All queries of all readers agree."""
        said = f"after {'; '.join(self.played)}"
        snapshot = table.read()
        assert shown(snapshot, self.model) == self.model.snapshot(), said
        assert_same_rows(self.apache_hudi.read(self.path), snapshot, with_meta=True)
        assert_same_rows(hudi_rs(self.path), snapshot, with_meta=True)
        optimized = table.read(query="read_optimized")
        assert shown(optimized, self.model) == self.model.read_optimized(), said
        assert_same_rows(self.apache_hudi.read(self.path, options=READ_OPTIMIZED), optimized, with_meta=True)
        self.instants(table)
        # Up to now: of an earlier end Apache Hudi reads the newest files, and loses what changed in them since.
        begin = self.dice.choice(["000", *self.completions[:-1]])
        changes = table.changes(None if begin == "000" else begin).to_arrow()
        assert_same_rows(self.apache_hudi.incremental(self.path, begin), changes, with_meta=True)


def shown(rows: pa.Table, model: MergeOnReadModel) -> dict[Any, tuple[str, Row]]:
    """The rows in the model's form; an identity that shows twice is an error."""
    found = {
        model.identity(row): (row["_hoodie_commit_time"], {name: row[name] for name in SCHEMA.names})
        for row in rows.to_pylist()
    }
    assert len(found) == rows.num_rows, "an identity shows twice"
    return found


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("we_begin", "ordering", "log_format"),
    [(True, "ts", "parquet"), (False, "ts", "avro"), (True, None, "avro")],
    ids=["we begin, event time, parquet", "they begin, event time, avro", "we begin, commit time, avro"],
)
def test_the_table_stays_one(
    we_begin: bool,
    ordering: str | None,
    log_format: LogFormat,
    seed: int,
    tmp_path: Path,
    apache_hudi: HudiPeer,
    hudi_rs: HudiRsReader,
) -> None:
    shape = Shape(("part",), ordering, 2, log_format)
    game = Game(tmp_path / "table", shape, seed * 7 + we_begin, apache_hudi)
    table = game.begin(ours=we_begin, log_format=log_format)
    for number in range(1, ROUNDS + 1):
        game.turn(table, number * 10, ours=(number % 2 == 0) == we_begin)
        game.check(table, hudi_rs)
    print("; ".join(game.played))
    assert {play.split()[0] for play in game.played} == {"we", "they"}
    report = verify_table(table.context.storage, deep=True)
    assert report.ok, [str(finding) for finding in report.findings]


@pytest.mark.parametrize(("index", "log_format"), [("SIMPLE", "avro"), ("BLOOM", "parquet")])
def test_tables_of_another_index_are_compacted_for_apache_hudi(
    index: str, log_format: str, tmp_path: Path, apache_hudi: HudiPeer, hudi_rs: HudiRsReader
) -> None:
    path = tmp_path / "t"
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.index.type": index,
        "hoodie.logfile.data.block.format": log_format,
    }
    held: dict[str, int] = {}

    def written(numbers: range, time: int, operation: str = "upsert", mode: str = "append") -> None:
        rows = [
            {"id": f"k{n:03d}", "part": "xy"[n % 2], "value": n, "ts": time, "_hoodie_is_deleted": None}
            for n in numbers
        ]
        apache_hudi.write(path, pa.Table.from_pylist(rows, SCHEMA), operation, mode=mode, options=options)
        for one in rows:
            held[one["id"]] = time
            if operation == "delete":
                del held[one["id"]]

    def check(table: Table) -> None:
        ours = table.read()
        assert dict(zip(ours["id"].to_pylist(), ours["ts"].to_pylist(), strict=True)) == held
        assert ours.num_rows == len(held)
        for read in (apache_hudi.read, hudi_rs):
            assert_same_rows(read(path), ours, with_meta=True)

    written(range(60), 1, mode="overwrite")
    written(range(30), 2)
    written(range(5), 3, "delete")
    refused = Table.open(str(path), buckets=4)
    with pytest.raises(Unsupported, match="services-only"):
        refused.compact()
    table = Table.open(str(path), services_only=True)
    adoption = table.adopt()
    assert (adoption.adopted, adoption.index) == (True, "other")
    assert table.compact().slices == 2
    assert table.scan(query="read_optimized").count_rows() == len(held)
    check(table)
    with pytest.raises(Unsupported, match="adopted for services only"):
        table.ingest(pa.Table.from_pylist([], SCHEMA))
    written(range(3, 80), 4)
    written(range(10, 20), 4)
    check(table)
    apache_hudi.sql(f"CALL run_compaction(op=>'schedule', path=>'{path}', options=>'{AT_ONCE}')")
    (planned,) = load_timeline(table.context.storage, table.config).pending
    again = Table.open(str(path))  # the commit log says the rest
    assert again.execute_compaction(planned.time).instant == planned.time
    check(again)
    written(range(50, 90), 5)
    check(again)
    report = verify_table(table.context.storage, deep=True)
    assert report.ok, [str(finding) for finding in report.findings]
