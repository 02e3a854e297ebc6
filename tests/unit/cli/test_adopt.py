"""`hudi-ops adopt`: what it proposes, checks and keeps; and how `ingest` and `show` treat such a table."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_ops.clock import SystemClock
from hudi_ops.metadata.records.partitions import KEEPS_INDEXES
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.timeline.names import ms_of_instant, parse_file_name
from tests.protocol.foreign_table import make_foreign, set_properties
from tests.unit.cli.terminal import at_terminal

Call = Callable[..., Any]


@pytest.fixture
def foreign(trips: Path) -> Callable[[bool], Path]:
    """The table `trips` as if Apache Hudi had made it."""

    def made(with_metadata_table: bool) -> Path:
        storage = MemoryStorage("trips", SystemClock())
        for file in trips.rglob("*"):
            if file.is_file():
                storage.put(file.relative_to(trips).as_posix(), file.read_bytes())
        shutil.rmtree(trips)
        return make_foreign(storage, with_metadata_table=with_metadata_table).dump(trips)

    return made


def test_a_table_is_adopted_once(foreign: Callable[[bool], Path], call: Call, tree: Callable[[Path], Any]) -> None:
    table = foreign(False)
    before = tree(table)
    assert call("show", table, "--json").json["commit_log"] == "none"
    would = call("adopt", table, "--buckets", 2, "--dry-run", "--json").json
    assert (would["adopted"], would["dry_run"], would["buckets"], would["checked_keys"]) == (True, True, 2, 3)
    assert tree(table) == before
    said = call("adopt", table, "--buckets", 2)
    assert (said.code, said.out.splitlines()) == (
        0,
        [
            "trips adopted: 2 buckets by id, checked against 3 keys in 3 files; instants in UTC",
            f"  its writers of Apache Hudi must set {KEEPS_INDEXES}: else they drop indexes, or leave them behind",
        ],
    )
    shown = call("show", table, "--json").json
    assert (shown["commit_log"], shown["writable"], shown["hash_fields"], shown["timezone"]) == (
        "since the table was adopted, newest slot 0",
        True,
        ["id"],
        "UTC",
    )
    after = tree(table)
    assert "has a commit log already" in call("adopt", table).out
    wrong = call("adopt", table, "--buckets", 3)
    assert (wrong.code, "expected 2, found 3" in wrong.err) == (2, True)
    assert tree(table) == after
    assert call("verify", table, "--deep", "--json").json["findings"] == []


def test_without_a_number_the_fitting_ones_are_named(foreign: Callable[[bool], Path], call: Call, home: Path) -> None:
    table = foreign(False)
    (home / "tables.yaml").unlink()
    answer = call("adopt", table, "--json")
    assert answer.code == 2
    assert 2 in answer.json["counts"]
    wrong = call("adopt", table, "--buckets", 5, "--json").json
    assert {"file", "record_key", "bucket"} <= wrong.keys()
    assert call("adopt", table, "--buckets", 2, "--hash-fields", "city").code == 2
    assert call("adopt", table, "--buckets", 2, "--timezone", "Europe/Berlin").code == 2
    assert call("adopt", table, "--buckets", 0).code == 2


def test_ingest_takes_the_number_that_is_declared(
    foreign: Callable[[bool], Path], call: Call, home: Path, rows: Callable[..., pa.Table]
) -> None:
    table = foreign(True)
    pq.write_table(rows("d@Rome"), home / "landing" / "second.parquet")
    refused = call("ingest", "trips")
    assert (refused.code, "--drop-metadata-table" in refused.err) == (3, True)
    assert (table / ".hoodie" / "metadata").exists()
    done = call("ingest", "trips", "--drop-metadata-table", "--json")
    assert done.code == 0, done.err
    assert not list((table / ".hoodie" / "metadata").iterdir())
    assert len(call("read", "trips", "--json").json["rows"]) == 4
    assert call("show", "trips", "--json").json["buckets"] == 2


def test_a_table_whose_index_is_asked_is_adopted_by_the_name_of_its_index(
    hudi_fixtures: Callable[[str], Path], tmp_path: Path, call: Callable[..., Any]
) -> None:
    table = shutil.copytree(hudi_fixtures("v9_mor_pending_compaction_clustering"), tmp_path / "table")
    assert call("adopt", table).code == 2
    said = call("adopt", table, "--index", "simple")
    assert (said.code, said.err) == (0, "")
    assert "adopted: index simple, checked against 12 keys in 2 files; instants in UTC" in said.out
    assert call("show", table, "--json").json["index"] == "simple"
    assert call("adopt", table, "--index", "bloom").code == 2


def in_local_time(table: Path, hours: int | None) -> Path:
    """The table in local time, its files changed as by writers so many hours east of UTC; None: copied later."""
    set_properties(LocalStorage(str(table)), {"hoodie.table.timeline.timezone": "LOCAL"})
    for file in (table / ".hoodie/timeline").iterdir():
        named = parse_file_name(file.name, 2)
        if named is not None and named.completion_time:
            late_s = 200_000 if hours is None else 1 - 3_600 * hours
            at_s = ms_of_instant(named.completion_time) / 1000 + late_s
            os.utime(file, (at_s, at_s))
    return table


@pytest.mark.parametrize(("hours", "said"), [(2, "suggest UTC+02:00"), (None, "fit no time zone")])
def test_a_table_in_local_time_is_adopted_with_a_zone_alone(
    foreign: Callable[[bool], Path], call: Call, tree: Callable[[Path], Any], hours: int | None, said: str
) -> None:
    table = in_local_time(foreign(False), hours)
    before = tree(table)
    for more in ((), ("--dry-run",)):
        told = call("adopt", table, "--buckets", 2, "--json", *more)
        assert (told.code, told.json["error"]) == (2, "InvalidRequest")
        assert said in told.json["found"]
        assert "--timezone" in told.json["next_step"]
        assert (told.json["evidence"]["confidence"] == "none") == (hours is None)
    assert tree(table) == before
    assert (
        call("adopt", table, "--buckets", 2, "--timezone", "Europe/Berlin", "--json").json["timezone"]
        == "Europe/Berlin"
    )


@pytest.mark.full("asks at a terminal of its own")
def test_at_a_terminal_the_zone_is_asked_about(
    foreign: Callable[[bool], Path], home: Path, tree: Callable[[Path], Any]
) -> None:
    table = in_local_time(foreign(False), 2)
    arguments = ("adopt", str(table), "--buckets", "2")
    question = "that write it"
    before = tree(table)
    code, shown = at_terminal(home, "Nowhere\n", *arguments, asked=question)
    assert (code, "not a time zone" in shown) == (2, True)
    assert tree(table) == before
    code, shown = at_terminal(home, "\n", *arguments, asked=question)
    assert code == 0, shown
    assert "suggest UTC+02:00 (low confidence)" in " ".join(shown.split())
    assert "instants in Africa/" in shown or "instants in Europe/" in shown
