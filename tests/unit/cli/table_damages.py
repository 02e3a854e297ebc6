"""Ways in which the table of `test_verify_advice.py` is damaged, each with the findings of `verify` that it leads to."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from hudi_ops import Table
from hudi_ops.commit.recover.rollback_bodies import plan_bytes
from hudi_ops.config.table import BACKUP_PATH, PROPERTIES_PATH
from hudi_ops.errors import Cancelled
from hudi_ops.storage.local import LocalStorage
from hudi_ops.timeline.active import Timeline, load_timeline
from hudi_ops.timeline.cancel.aborted import AbortedPlan, queue_path
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import slot_path
from hudi_ops.timeline.names import State, aborted_name, inflight_name, instant_of_ms, ms_of_instant, requested_name
from hudi_ops.timeline.settings.properties_file import load_config
from tests.protocol.archived_history import put_history
from tests.tables import TIMELINE

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.int64()), ("city", pa.string())])
LONG_AGO, LATER = "20200101000000000", "20990101000000000"
THEIRS = "11111111-1111-4111-8111-111111111111-0"
"""The file group of the dead write of Apache Hudi."""


def rows(numbers: range, ts: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": f"k{n}", "ts": ts, "v": ts, "city": f"c{n % 2}"} for n in numbers], SCHEMA)


def nothing(_: Path) -> None:
    """The table is damaged as it is."""


@dataclass(frozen=True)
class Damage:
    """What is done to a table, and ids of findings on the way to a whole one.

    `prepare` comes before the copy is made from which files are restored.
    """

    finds: str
    do: Callable[[Path], object]
    prepare: Callable[[Path], object] = nothing


def one(path: Path, pattern: str, place: int = -1) -> Path:
    """The last file of a pattern, by name, or that at another place."""
    return sorted(path.glob(pattern))[place]


def base(path: Path) -> Path:
    return one(path, "city=*/[!.]*.parquet")


def log(path: Path) -> Path:
    return one(path, "city=*/.*.log.*")


def commit(path: Path, place: int = -1) -> Path:
    return one(path, f"{TIMELINE}/*_*.deltacommit", place)


def blot(file: Path) -> None:
    body = bytearray(file.read_bytes())
    middle = len(body) // 2
    body[middle : middle + 200] = bytes(len(body[middle : middle + 200]))
    file.write_bytes(body)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-50])


def old(file: Path) -> Path:
    """The file as of an hour ago."""
    os.utime(file, (time.time() - 3_600,) * 2)
    return file


def put(file: Path, body: bytes = b"") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(body)
    return file


def timeline_of(path: Path) -> Timeline:
    storage = LocalStorage(str(path))
    return load_timeline(storage, load_config(storage))


def foreign_write(path: Path, *, heartbeat: bool) -> str:
    """A write of Apache Hudi that died: one data file with its marker, and a heartbeat that stopped, or none."""
    instant = instant_of_ms(ms_of_instant(commit(path).name[18:35]) + 1)
    for name in (requested_name(instant, "deltacommit"), inflight_name(instant, "deltacommit")):
        put(path / TIMELINE / name)
    name = f"city=c0/{THEIRS}_0-1-2_{instant}.parquet"
    put(path / name, b"half a file")
    put(path / ".hoodie/.temp" / instant / "MARKERS.type", b"TIMELINE_SERVER_BASED")
    put(
        path / ".hoodie/.temp" / instant / "MARKERS0",
        f"{name}.marker.CREATE\ncity=c0//x.marker.CREATE\n".encode(),
    )
    if heartbeat:
        old(put(path / ".hoodie/.heartbeat" / instant))
    return instant


def foreign_rollback(path: Path, *also: str) -> None:
    """A rollback that Apache Hudi began of such a write, whose plan names its file and others."""
    instant = foreign_write(path, heartbeat=False)
    target = Instant(instant, "deltacommit", State.INFLIGHT)
    files = [f"city=c0/{THEIRS}_0-1-2_{instant}.parquet", *also]
    rollback = instant_of_ms(ms_of_instant(instant) + 1)
    put(path / TIMELINE / f"{rollback}.rollback.requested", plan_bytes(LocalStorage(str(path)), target, files))
    put(path / TIMELINE / f"{rollback}.rollback.inflight")


def orphan(path: Path) -> None:
    """A file of a write that was rolled back, which no marker named."""
    instant = foreign_write(path, heartbeat=True)
    Table.open(str(path)).recover()
    shutil.rmtree(path / ".hoodie/.temp")
    put(path / f"city=c0/{THEIRS}_0-1-3_{instant}.parquet", b"half a file")


def archive_early(path: Path) -> None:
    """A compaction, and an archiver that took all writes off, of which that of a log file completed after the compaction."""
    table = Table.open(str(path))
    table.compaction.run()
    timeline = timeline_of(path)
    (compaction,) = (each for each in timeline.completed_writes if each.kind == "commit")
    leaving = [each for each in timeline.completed_writes if each.kind != "commit"]
    after = instant_of_ms(ms_of_instant(compaction.completion_time) + 1)
    late = next(each.time for each in leaving if f"_{each.time}.log." in log(path).name)
    moved = [replace(each, completion_time=after) if each.time == late else each for each in leaving]
    bodies = [(path / TIMELINE / each.file_name).read_bytes() for each in leaving]
    put_history(LocalStorage(str(path)), f"{TIMELINE}/history", list(zip(moved, bodies, strict=True)))
    for each in leaving:
        for file in (path / TIMELINE).glob(f"{each.time}[._]*"):
            file.unlink()


def edit_properties(path: Path, before: str, after: str) -> None:
    file = path / PROPERTIES_PATH
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def without_property(path: Path, key: str) -> None:
    file = path / PROPERTIES_PATH
    file.write_text("".join(line for line in file.read_text().splitlines(True) if not line.startswith(key + "=")))


def back_up(path: Path) -> None:
    shutil.copy2(path / PROPERTIES_PATH, path / BACKUP_PATH)


def renamed_copy(path: Path, file: Path, old_part: str, new_part: str) -> None:
    assert old_part in file.name
    shutil.copy2(file, file.with_name(file.name.replace(old_part, new_part)))


def again(path: Path) -> object:
    """Rows with keys that are there, which were not looked up."""
    return Table.open(str(path)).ingest(rows(range(3), 9), "bulk_insert")


def stop(_: object) -> None:
    raise Cancelled("stopped on request")


def cancel_rebuild(path: Path) -> None:
    """A rebuild of the metadata table that was cancelled behind its drop."""
    with suppress(Cancelled):
        Table.open(str(path)).indexing.run(rebuild=True, progress=stop)


ADVISES_OTHERS = frozenset({"eager-rollback", "foreign-archived"})
"""Findings about a table that is whole, which advise a setting of another program."""

DAMAGES: dict[str, Damage] = {
    "base file missing": Damage("file-missing metadata-files", lambda path: base(path).unlink()),
    "base file cut off": Damage(
        "base-file-broken file-size index-not-compared metadata-files", lambda path: cut(base(path))
    ),
    "base file too long": Damage(
        "base-file-broken file-size index-not-compared metadata-files",
        lambda path: base(path).write_bytes(base(path).read_bytes() + b"?"),
    ),
    "base file twice": Damage(
        "leftover-visible two-base-files",
        lambda path: renamed_copy(path, base(path), base(path).name.split("_")[1], "7-7-7"),
    ),
    "base file that its write does not name": Damage(
        "leftover-visible", lambda path: renamed_copy(path, base(path), base(path).name.split("_")[0], THEIRS)
    ),
    "base file of an unknown write": Damage(
        "leftover-unknown",
        lambda path: renamed_copy(path, base(path), base(path).name.split("_")[2], LATER + ".parquet"),
    ),
    "log file missing": Damage("file-missing metadata-files", lambda path: log(path).unlink()),
    "log file damaged": Damage("index-not-compared", lambda path: blot(log(path))),
    "log file of an archived writer": Damage("log-of-archived-writer", nothing, archive_early),
    "archived timeline damaged": Damage(
        "history-broken", lambda path: put(one(path, f"{TIMELINE}/history/*.parquet"), b"?"), archive_early
    ),
    "keys doubled": Damage("key-in-two-groups metadata-record-index", again),
    "partition metadata missing": Damage(
        "partition-metadata-missing", lambda path: (path / "city=c1/.hoodie_partition_metadata").unlink()
    ),
    "partition metadata damaged": Damage(
        "partition-metadata-broken partition-metadata-missing",
        lambda path: put(path / "city=c1/.hoodie_partition_metadata", b"?"),
    ),
    "partition metadata of another depth": Damage(
        "partition-depth partition-metadata-missing",
        lambda path: put(path / "city=c1/.hoodie_partition_metadata", b"commitTime=1\npartitionDepth=2\n"),
    ),
    "stray file": Damage("stray-file", lambda path: put(path / "city=c0/notes.txt", b"hello")),
    "stray Parquet file": Damage("stray-parquet", lambda path: shutil.copy2(base(path), path / "city=c0/copy.parquet")),
    "completed file empty": Damage(
        "completed-empty payload-mismatch slot-pointer", lambda path: commit(path).write_bytes(b"")
    ),
    "completed file damaged": Damage(
        "completed-undecodable metadata-broken payload-mismatch", lambda path: blot(commit(path))
    ),
    "completed file missing": Damage("decided-unfinished", lambda path: commit(path).unlink()),
    "older completed file missing": Damage("decided-lost", lambda path: commit(path, -2).unlink()),
    "completed file twice": Damage(
        "completed-twice", lambda path: renamed_copy(path, commit(path), commit(path).name[18:35], LATER)
    ),
    "completed file without a time": Damage(
        "completed-without-time", lambda path: put(path / f"{TIMELINE}/{LONG_AGO}.commit", b"{}")
    ),
    "completed file with a damaged payload": Damage(
        "decided-unfinished payload-broken",
        lambda path: (blot(one(path, ".hoodie/.commit_log/payload/*/*")), commit(path, -1).unlink()),
    ),
    "payload missing": Damage(
        "decided-unfinished payload-missing",
        lambda path: (one(path, ".hoodie/.commit_log/payload/*/*").unlink(), commit(path, -1).unlink()),
    ),
    "no name of a timeline file": Damage("timeline-name", lambda path: put(path / f"{TIMELINE}/{LONG_AGO}.commit.new")),
    "request time used twice": Damage(
        "instant-twice metadata-files", lambda path: put(path / TIMELINE / f"{commit(path).name[:17]}.clean.requested")
    ),
    "plan empty": Damage("plan-empty", lambda path: put(path / TIMELINE / f"{LATER}.clean.requested")),
    "plan damaged": Damage(
        "plan-undecodable", lambda path: put(path / TIMELINE / f"{LATER}.clean.requested", b"no plan")
    ),
    "record of an aborted plan damaged": Damage(
        "aborted-unreadable", lambda path: put(path / TIMELINE / aborted_name(LONG_AGO, "compaction"), b"{")
    ),
    "record of a plan that was not cancelled": Damage(
        "aborted-without-cancel",
        lambda path: put(
            path / TIMELINE / aborted_name(LONG_AGO, "compaction"),
            AbortedPlan("", LONG_AGO, "compaction", 0, "not now").to_bytes(),
        ),
    ),
    "request to cancel no plan": Damage("cancel-request-left", lambda path: put(path / queue_path(LONG_AGO), b"{}")),
    "slot damaged": Damage("slot-broken", lambda path: put(path / slot_path(2), b"{")),
    "slot missing": Damage("slot-gap", lambda path: (path / slot_path(2)).unlink()),
    "first slot missing": Damage("log-start slot-gap", lambda path: (path / slot_path(0)).unlink()),
    "ledger missing": Damage("ledger-missing", lambda path: one(path, ".hoodie/.ingest/*/*.json").unlink()),
    "ledger damaged": Damage("ledger-broken", lambda path: one(path, ".hoodie/.ingest/*/*.json").write_bytes(b"[[")),
    "ledger and payload of nobody": Damage(
        "ledger-left payload-left",
        lambda path: (
            put(path / f".hoodie/.ingest/{LONG_AGO}/x.json", b"{}"),
            put(path / f".hoodie/.commit_log/payload/{LONG_AGO}/x", b"{}"),
        ),
    ),
    "properties edited": Damage(
        "properties-fold",
        lambda path: edit_properties(path, "hive_style_partitioning=true", "hive_style_partitioning=false"),
    ),
    "properties damaged": Damage("properties-broken", lambda path: put(path / PROPERTIES_PATH, b"hoodie")),
    "properties with another checksum": Damage(
        "properties-backup properties-checksum",
        lambda path: (back_up(path), edit_properties(path, "checksum=", "checksum=1")),
    ),
    "properties missing beside a backup": Damage(
        "properties-backup properties-missing", lambda path: (back_up(path), (path / PROPERTIES_PATH).unlink())
    ),
    "properties without the table type": Damage(
        "properties-fold properties-key", lambda path: without_property(path, "hoodie.table.type")
    ),
    "properties without the name": Damage(
        "properties-broken", lambda path: without_property(path, "hoodie.table.name")
    ),
    "properties with a backup": Damage("properties-backup", back_up),
    "column statistics cut off": Damage(
        "metadata-column-stats", lambda path: cut(one(path, ".hoodie/metadata/column_stats/*.log.*"))
    ),
    "record index missing": Damage(
        "metadata-broken metadata-missing", lambda path: shutil.rmtree(path / ".hoodie/metadata/record_index")
    ),
    "metadata table behind": Damage(
        "metadata-behind metadata-column-stats metadata-files metadata-partition-stats metadata-record-index",
        lambda path: one(path, ".hoodie/metadata/.hoodie/timeline/*_*.deltacommit").unlink(),
    ),
    "metadata rebuild cancelled": Damage("metadata-dropped", cancel_rebuild),
    "metadata table missing": Damage(
        "metadata-broken metadata-missing", lambda path: shutil.rmtree(path / ".hoodie/metadata")
    ),
    "metadata table that no reader believes": Damage(
        "metadata-left", lambda path: without_property(path, "hoodie.table.metadata.partitions")
    ),
    "dead write of Apache Hudi": Damage("pending-dead", lambda path: foreign_write(path, heartbeat=True)),
    "write of Apache Hudi without a heartbeat": Damage(
        "pending-unowned", lambda path: foreign_write(path, heartbeat=False)
    ),
    "rollback that Apache Hudi began": Damage("pending-unowned rollback-pending", foreign_rollback),
    "rollback whose plan leaves the table": Damage(
        "pending-unowned rollback-pending rollback-plan-path",
        lambda path: foreign_rollback(path, f"../x_0-0-0_{LONG_AGO}.parquet"),
    ),
    "file that a rollback left": Damage("rollback-orphan", orphan),
    "inflight without its requested file": Damage(
        "inflight-without-requested pending-unowned",
        lambda path: put(path / TIMELINE / inflight_name(LONG_AGO, "commit")),
    ),
    "markers of nobody": Damage(
        "markers-unknown",
        lambda path: put(path / f".hoodie/.temp/{LONG_AGO}/city=c0/{THEIRS}_0-0-0_{LONG_AGO}.parquet.marker.CREATE"),
    ),
    "markers of a completed write": Damage(
        "markers-left",
        lambda path: put(path / f".hoodie/.temp/{commit(path).name[:17]}/city=c0/x.parquet.marker.CREATE"),
    ),
    "lease of nobody": Damage("lease-left", lambda path: old(put(path / f".hoodie/.heartbeat/{LONG_AGO}"))),
}


NOT_FOLLOWED: dict[str, str] = {
    "view-differs": "needs a fault of this library: a view holds what the instants of the timeline name",
    "after-fate": "a writer broke the protocol of the commit log: the table is kept as it is and reported",
    "archive-begun": "ends with the next archive, which needs more writes than the table has",
    "archive-blocked": "needs twice as many writes as archiving keeps, and what keeps them is for a person to end",
    "archive-order": "a writer broke the protocol of the commit log: the table is kept as it is and reported",
    "archive-unread": "tells that something was not looked at",
    "archived-pending": "needs an archiver of ours, which there is not yet",
    "archived-present": "needs an archiver of ours, which there is not yet",
    "bloom-key": "made by a writer that breaks the format: its rows are judged and written again by a person",
    "bloom-missing": "made by a writer that breaks the format: its rows are judged and written again by a person",
    "bucket-twice": "rows in a wrong bucket are found and moved by a person, as nobody knows which row is right",
    "bucket-unknown": "rows in a wrong bucket are found and moved by a person, as nobody knows which row is right",
    "bucket-wrong": "rows in a wrong bucket are found and moved by a person, as nobody knows which row is right",
    "cancelled-completed": "the completed file is deleted as in `completed-without-time`; the state needs two writers at once",
    "cancelled-foreign": "advises nothing",
    "compaction-input-missing": "the file is restored as in `file-missing`",
    "compaction-left-out": "rows that readers do not see are read and written again by a person",
    "complete-epoch": "a writer broke the protocol of the commit log: the table is kept as it is and reported",
    "completion-before-request": "tells of the past: rows are as they are, and a person judges them",
    "completion-equal": "tells of the past: rows are as they are, and a person judges them",
    "completion-mismatch": "tells of the past: rows are as they are, and a person judges them",
    "duplicate-key": "made by a writer that breaks the format: its rows are judged and written again by a person",
    "eager-rollback": "advises a setting of another program; the table is whole",
    "file-name-column": "made by a writer that breaks the format: its rows are judged and written again by a person",
    "foreign-archived": "advises a setting of another program; the table is whole",
    "foreign-cancel": "tells of a plan that a foreign writer may begin; the table is whole",
    "foreign-instant": "advises a setting of another program; the table is whole",
    "foreign-plan": "the program that planned it executes it",
    "index-dropped": "a person sets the options of Apache Hudi's writers, and then names the index to build",
    "instant-time": "tells of the past: rows are as they are, and a person judges them",
    "key-column": "made by a writer that breaks the format: its rows are judged and written again by a person",
    "key-range": "made by a writer that breaks the format: its rows are judged and written again by a person",
    "late-file": "goes two minutes later, with the next write",
    "leftover-log": "advises nothing; tables of version 6 alone",
    "log-block-broken": "the file is restored as in `base-file-broken`",
    "log-block-instant": "the command is that of `log-of-archived-writer`",
    "log-entry-count": "the file is restored as in `base-file-broken`",
    "log-file-broken": "the file is restored as in `base-file-broken`",
    "log-file-unread": "tells that something was not looked at",
    "log-key-bucket": "rows in a wrong bucket are found and moved by a person, as nobody knows which row is right",
    "log-key-null": "made by a writer that breaks the format: its rows are judged and written again by a person",
    "marker-unusable": "advises nothing",
    "meta-columns": "made by a writer that breaks the format: its rows are judged and written again by a person",
    "metadata-foreign": "two ways, between which a person chooses by the programs that write the table",
    "metadata-inflight": "the program that builds the index finishes it",
    "metadata-unread": "tells that something was not looked at",
    "partition-path-column": "made by a writer that breaks the format: its rows are judged and written again by a person",
    "partition-unknown": "a person decides whether the property or the folder is wrong",
    "pending-before-start": "tables without a metadata table alone; the command is that of `pending-unowned`",
    "plan-order": "a writer broke the protocol of the commit log: the table is kept as it is and reported",
    "properties-field": "a person knows the right field",
    "properties-layout": "a person sets the property; tables of ours are judged by their log",
    "record-key-null": "made by a writer that breaks the format: its rows are judged and written again by a person",
    "resize-log-left": "the file is deleted as in `rollback-orphan`; the table has no hash rings",
    "ring-broken": "the file is restored as in `base-file-broken`; the table has no hash rings",
    "ring-group-unknown": "rows in a wrong bucket are found and moved by a person, as nobody knows which row is right",
    "ring-left": "the file is deleted as in `rollback-orphan`; the table has no hash rings",
    "ring-missing": "the file is restored as in `base-file-broken`; the table has no hash rings",
    "ring-unsealed": "tests/protocol/test_foreign_rings.py follows it; the table has no hash rings",
    "ring-replaced": "rows are written again, or the ring is renewed, in `test_foreign_rings.py`; the table has no hash rings",
    "ring-unread": "tells that something was not looked at",
    "rollback-refused": "a person decides between the savepoint and the rollback",
    "rollback-twice": "advises nothing",
    "row-count": "the file is restored as in `base-file-broken`",
    "schema-unreadable": "tells that something was not looked at",
    "slot-of-another-table": "advises to end a process; the table is whole",
    "slot-order": "tells of the past: rows are as they are, and a person judges them",
    "stat-without-size": "made by a writer that breaks the format: its rows are judged and written again by a person",
    "states-missing": "advises nothing",
    "sweep-due": "appears two minutes after a rollback; the next write removes it",
    "takeover-epoch": "a writer broke the protocol of the commit log: the table is kept as it is and reported",
    "voided-completed": "the completed file is deleted as in `completed-without-time`; the state needs two writers at once",
    "write-into-replaced": "rows that readers do not see are read and written again by a person",
}
"""Findings to which no damage leads, and why nobody follows their advice here."""
