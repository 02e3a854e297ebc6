"""Merge-on-read tables that Apache Hudi and we write and compact in turn: both, and the `hudi` package, read the same rows.

Rounds are random but seeded; `--soak` plays more seeds. After every round snapshot, read-optimized and incremental queries of all
must agree with each other, and the first two with a model of dicts. Either plans compactions, and either executes them.
"""

from __future__ import annotations

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
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.verify import verify_table
from tests.bounds import SOAK
from tests.interop.apache_hudi import HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.conftest import HudiRsReader
from tests.interop.game import Game, Rules
from tests.property.merge_on_read_model import SCHEMA, MergeOnReadModel, Row, Shape

ROUNDS = 20 if SOAK else 6
SEEDS = range(6 if SOAK else 1)
OURS = ("upsert", "upsert", "die", "delete", "insert", "compact", "die compacting", "insert_overwrite")
THEIRS = ("upsert", "upsert", "delete", "compact", "we plan, they execute", "they plan, we execute")


def row(number: int, version: int, time: int, *, deleted: bool | None = None) -> Row:
    """A row; key and partition follow from the number."""
    value = number * 1000 + time
    return {"id": f"k{number:02d}", "part": "xy"[number % 2], "value": value, "ts": time, "_hoodie_is_deleted": deleted}


RULES = Rules(
    OURS,
    THEIRS,
    kind="mor",
    buckets=2,
    schema=SCHEMA,
    row=row,
    numbers=range(80),
    first=range(0, 40, 2),
    most=12,
    partition="part",
)
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

    def delete_all(self, paths: Sequence[str], *, ordered: bool = False) -> None:
        """As a disk, until the end."""
        self._refuse()
        super().delete_all(paths, ordered=ordered)

    def _refuse(self) -> None:
        if self._is_dead:
            raise Crash("the process has ended")


class LoggedGame(Game):
    """The game on a merge-on-read table; its model knows which rows lie in log files, and its writers die, plan and compact."""

    def begin(self, *, ours: bool, **settings: Any) -> Table:
        """Make the table by one of the two; the model begins with what lies in it."""
        batches = [self.make(ours=ours, **settings)]
        if not ours:
            batches.append([self.rules.row(0, 0, 1)])
            self.table.ingest(self.batch(batches[1]))
        tagger = Tagger.of(self.table.config, self.table._session.loader.load().log.properties.facts)

        def bucket_of(row: Row) -> int:
            ((_, bucket, _),) = tagger.split(self.batch([row]))
            return int(bucket)

        shape = Shape(("part",), self.rules.ordering, self.rules.buckets)
        self.model = MergeOnReadModel(shape, bucket_of)
        for batch, instant in zip(batches, self.instants(rows=True), strict=True):
            self.model.apply("upsert", batch, instant)
        return self.table

    def turn(self, time: int, *, ours: bool) -> None:
        """One random write or compaction by one of the two, and by the model."""
        operation = self.dice.choice(self.rules.ours if ours else self.rules.theirs)
        if self.model.planned is not None and (
            operation == "die compacting" or (not ours and operation not in {"upsert", "delete"})
        ):
            operation = "upsert"  # one of ours resumes the plan
        self.played.append(f"{'we' if ours else 'they'} {operation}")
        before = set(self.instants())
        if operation in {"compact", "we plan, they execute", "they plan, we execute"}:
            self.compact(operation, ours=ours)
            return
        if operation == "die compacting":
            # Whoever compacts next finds the plan, and what its executor left.
            self.die(lambda dying: dying.compaction.run(), ".parquet")
            if any(instant.action == "compaction" for instant in self.timeline.pending):
                self.model.plan()
            return
        rows = self.rows("upsert" if operation == "die" else operation, time)
        if operation == "die":
            self.die(lambda dying: dying.ingest(self.batch(rows)), "part=")
            return
        if ours:
            self.table.ingest(self.batch(rows), operation)
        else:
            self.theirs(rows, operation)
        new = [instant for instant in self.instants() if instant not in before]
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

    def compact(self, operation: str, *, ours: bool) -> None:
        """Plan and execute, in one of the ways in which the two can share it."""
        before = set(self.instants())
        if operation == "compact" and ours:
            self.table.compaction.run()
        elif operation == "compact":
            self.procedure("schedule", AT_ONCE)
            self.procedure("run", WITHOUT_METADATA)
        elif operation.startswith("we plan"):
            if self.table.compaction.plan().instant is not None:
                self.procedure("run", WITHOUT_METADATA)
        else:
            self.procedure("schedule", AT_ONCE)
            if pending := self.timeline.pending:
                self.table.compaction.run(instant=pending[0].time)
        if new := set(self.instants()) - before:
            self.model.compact(max(new))

    def procedure(self, what: str, options: str) -> None:
        """Apache Hudi's own compaction procedure."""
        self.hudi.sql(f"CALL run_compaction(op=>'{what}', path=>'{self.path}', options=>'{options}')")

    def rows(self, operation: str, time: int) -> list[Row]:
        """Rows that fit the operation: new keys for inserts, keys of any age for the rest; some late, some deleting."""
        numbers, made = self.rules.numbers, self.rules.row
        if operation == "insert":
            shown = {row["id"] for _, row in self.model.snapshot().values()}
            # Not one that a log deletes: such an insert is folded with the delete before it meets the base.
            logged = {name[-1] for name in self.model.log}
            free = [n for n in numbers if made(n, 0, 0)["id"] not in shown | logged]
            return [made(n, 0, time) for n in self.dice.sample(free, min(len(free), 5))]
        chosen = self.dice.sample(numbers, self.dice.randint(1, self.rules.most))
        deletes = (None, None, False, True) if operation == "upsert" else (None,)
        return [made(n, 0, self.dice.choice((time, time, 1)), deleted=self.dice.choice(deletes)) for n in chosen]

    @property
    def timeline(self) -> Timeline:
        """The table's, as it is now."""
        return load_timeline(self.table.context.storage, self.table.config)

    def instants(self, *, rows: bool = False) -> list[str]:
        """Completed writes by completion; `rows`: without the empty first one that every table of ours begins with."""
        timeline = self.timeline
        if not rows:
            return [time for _, time in sorted((done.completion_time, done.time) for done in timeline.completed_writes)]
        commits = self.table._session.commits
        return [done.time for done in timeline.completed_writes if commits.metadata(timeline, done).stats]  # type: ignore[union-attr]

    def check_queries(self, hudi_rs: HudiRsReader) -> None:
        """All queries of all readers agree."""
        snapshot = self.table.read(meta_columns=True)
        assert shown(snapshot, self.model) == self.model.snapshot(), self.said
        assert_same_rows(self.hudi.read(self.path), snapshot, with_meta=True)
        assert_same_rows(hudi_rs(self.path), snapshot, with_meta=True)
        optimized = self.table.read(query="read_optimized", meta_columns=True)
        assert shown(optimized, self.model) == self.model.read_optimized(), self.said
        assert_same_rows(self.hudi.read(self.path, options=READ_OPTIMIZED), optimized, with_meta=True)
        # Up to now: of an earlier end Apache Hudi reads the newest files, and loses what changed in them since.
        completions = sorted(done.completion_time for done in self.timeline.completed_writes)
        begin = self.dice.choice(["000", *completions[:-1]])
        changes = self.table.changes(None if begin == "000" else begin, meta_columns=True).to_arrow()
        assert_same_rows(self.hudi.incremental(self.path, begin), changes, with_meta=True)


def shown(rows: pa.Table, model: MergeOnReadModel) -> dict[Any, tuple[str, Row]]:
    """The rows in the model's form; an identity that shows twice is an error."""
    found = {
        model.identity(row): (row["_hoodie_commit_time"], {name: row[name] for name in SCHEMA.names})
        for row in rows.to_pylist()
    }
    assert len(found) == rows.num_rows, "an identity shows twice"
    return found


@pytest.mark.rotate(shares=3)
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
    game = LoggedGame(tmp_path / "table", replace(RULES, ordering=ordering), seed * 7 + we_begin, apache_hudi)
    for _ in game.play(ROUNDS, we_begin=we_begin, log_format=log_format):
        game.check_queries(hudi_rs)
    print("; ".join(game.played))
    game.refuse_errors()


@pytest.mark.rotate(shares=2)
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
        ours = table.read(meta_columns=True)
        assert dict(zip(ours["id"].to_pylist(), ours["ts"].to_pylist(), strict=True)) == held
        assert ours.num_rows == len(held)
        for read in (apache_hudi.read, hudi_rs):
            assert_same_rows(read(path), ours, with_meta=True)

    written(range(60), 1, mode="overwrite")
    written(range(30), 2)
    written(range(5), 3, "delete")
    refused = Table.open(str(path), buckets=4)
    with pytest.raises(Unsupported, match="services-only"):
        refused.compaction.run()
    table = Table.open(str(path), services_only=True)
    adoption = table.adopt()
    assert (adoption.adopted, adoption.index) == (True, "other")
    assert table.compaction.run().slices == 2
    assert table.scan(query="read_optimized", meta_columns=True).count_rows() == len(held)
    check(table)
    with pytest.raises(Unsupported, match="adopted for services only"):
        table.ingest(pa.Table.from_pylist([], SCHEMA))
    written(range(3, 80), 4)
    written(range(10, 20), 4)
    check(table)
    apache_hudi.sql(f"CALL run_compaction(op=>'schedule', path=>'{path}', options=>'{AT_ONCE}')")
    (planned,) = load_timeline(table.context.storage, table.config).pending
    again = Table.open(str(path))  # the commit log says the rest
    assert again.compaction.execute(instant=planned.time).instant == planned.time
    check(again)
    written(range(50, 90), 5)
    check(again)
    report = verify_table(table.context.storage, deep=True)
    assert report.ok, [str(finding) for finding in report.findings]
