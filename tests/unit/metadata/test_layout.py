"""What the folders and the timeline of a metadata table tell: file groups, their newest slices, and which instants count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hudi_ops.config.table import TableConfig, TableFacts
from hudi_ops.errors import Conflict, Unsupported
from hudi_ops.metadata.reader.instants import MetadataInstants, load_metadata_timeline
from hudi_ops.metadata.reader.layout import Basis, basis_of, group_counts, kept_partitions
from hudi_ops.metadata.reader.slices import list_partition, newest_slices
from hudi_ops.metadata.records.partitions import (
    FOLDER,
    HISTORY_FOLDER,
    TIMELINE_FOLDER,
    MetadataPartition,
    is_kept,
    is_secondary,
)
from hudi_ops.metadata.writer.compaction import inputs_at
from hudi_ops.services.metadata_table.compact import superseded_files
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.content.archived import ArchivedTimes
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import Log
from hudi_ops.timeline.log.entries import Properties
from hudi_ops.timeline.names import State
from hudi_ops.timeline.settings.properties_file import load_config
from hudi_ops.timeline.state import TableState
from tests.protocol.archived_history import put_history

FIRST = Properties(
    table_id="t",
    decision_id="create t",
    owner="o",
    at_ms=0,
    properties_slot=-1,
    archive_slot=-1,
    facts=TableFacts(buckets=1, hash_fields=("id",)),
    settings={},
)
FILES = MetadataPartition.FILES
INIT = "0" * 17
INIT_LOG = f".files-0000-0_{INIT}.log.1_0-0-0"
INIT_BASE = f"files-0000-0_0-0-0_{INIT}.hfile"


class Listed:
    """A metadata table and its data table as names of files; times are the last four digits of instants."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.config = TableConfig(name="t", version=9, layout=2, metadata_partitions=("files",), raw={})
        self.own(INIT, "0001")
        self.put(INIT_LOG, INIT_BASE)

    def put(self, *names: str, partition: str = "files") -> None:
        for name in names:
            self.storage.put(f"{FOLDER}/{partition}/{name}", b"")

    def own(self, time: str, completion: str = "", action: str = "deltacommit") -> None:
        self._instant(TIMELINE_FOLDER, time, completion, action)

    def data(self, time: str, completion: str = "", action: str = "deltacommit") -> None:
        self._instant(".hoodie/timeline", time, completion, action)

    def _instant(self, folder: str, time: str, completion: str, action: str) -> None:
        pending = "compaction" if action == "commit" else action
        self.storage.put(f"{folder}/{full(time)}.{pending}.requested", b"")
        if completion:
            self.storage.put(f"{folder}/{full(time)}_{full(completion)}.{action}", b"")

    @property
    def instants(self) -> MetadataInstants:
        data = load_timeline(self.storage, self.config)
        return MetadataInstants(load_metadata_timeline(self.storage), data, ArchivedTimes(self.storage))

    def slice(self) -> tuple[str, list[str]]:
        """Instant of the base file of the one group in `files`, and those of the logs; times as four digits."""
        (found,) = newest_slices(FILES, list_partition(self.storage, FILES), self.instants)
        base = found.base.instant if found.base is not None else ""
        return base[-4:], [log.instant[-4:] for log in found.logs]


def full(time: str) -> str:
    return time if len(time) == 17 else f"2026112106010{time}"


def log(time: str, version: int = 1, token: str = "0-0-0") -> str:
    return f".files-0000-0_{full(time)}.log.{version}_{token}"


def base(time: str) -> str:
    return f"files-0000-0_0-0-0_{full(time)}.hfile"


def test_a_completed_delta_is_read():
    table = Listed()
    table.data("0010", "0012")
    table.own("0010", "0011")
    table.put(log("0010"))
    assert table.slice() == ("0000", ["0000", "0010"])


def test_the_delta_of_a_write_that_is_pending_in_the_data_table_is_not_read():
    table = Listed()
    table.data("0010")
    table.own("0010", "0011")
    table.put(log("0010"))
    assert table.slice() == ("0000", ["0000"])


def test_a_delta_that_is_pending_itself_is_not_read_though_its_write_completed():
    table = Listed()
    table.data("0010", "0012")
    table.own("0010")
    table.put(log("0010"))
    assert table.slice() == ("0000", ["0000"])


def test_a_delta_that_nobody_announced_is_not_read():
    table = Listed()
    table.put(log("0010"))
    assert table.slice() == ("0000", ["0000"])


def test_a_delta_that_the_data_table_does_not_have_is_read():
    table = Listed()
    table.own("0010", "0011")
    table.put(log("0010"))
    assert table.slice() == ("0000", ["0000", "0010"])


def test_what_is_older_than_the_timeline_counts_as_committed():
    table = Listed()
    table.storage.delete_all([info.path for info in table.storage.list(TIMELINE_FOLDER)])
    table.data("0010", "0012")
    table.own("0010", "0011")
    table.put(base("0005"), log("0006"), log("0010"))
    assert table.slice() == ("0005", ["0006", "0010"])


def test_a_base_file_takes_the_place_of_what_completed_before_it_was_requested():
    table = Listed()
    for time, completion in (("0010", "0013"), ("0011", "0016"), ("0012", "0014")):
        table.data(time, completion)
        table.own(time, completion)
        table.put(log(time))
    table.own("0015", "0017", "commit")
    table.put(base("0015"))
    assert table.slice() == ("0015", ["0011"])


def test_a_base_file_of_a_compaction_that_did_not_complete_is_not_read():
    table = Listed()
    table.own("0015", action="commit")
    table.put(base("0015"))
    assert table.slice() == ("0000", ["0000"])


def test_an_archived_delta_belongs_to_the_slice_that_was_newest_when_it_completed():
    table = archived_deltas()
    assert table.slice() == ("0015", ["0011"])
    archived_deltas_without_history = archived_deltas()
    for info in table.storage.list(HISTORY_FOLDER):
        archived_deltas_without_history.storage.delete(info.path)
    assert archived_deltas_without_history.slice() == ("0015", ["0010", "0011", "0012"]), "unknown: the newest slice"


def test_a_compaction_takes_archived_deltas_that_completed_below_its_time():
    table = archived_deltas()
    table.own("0018", "0019")
    listed = [(FILES, list_partition(table.storage, FILES))]
    (group,) = inputs_at(full("0018"), table.instants, listed).groups
    assert [log.instant for log in group.slice.logs] == [full("0011")]
    assert inputs_at(full("0016"), table.instants, listed).groups == (), "it completed at that time, not below it"


def test_cleaning_keeps_the_archived_delta_of_a_slice_that_it_keeps():
    table = archived_deltas()
    table.own("0020", "0021", "commit")
    folder = list_partition(table.storage, FILES)
    gone = superseded_files(folder, table.instants, full("0020"), folder.files[0].modified_ms + 1_000)
    assert {path.rpartition("/")[2] for path in gone} == {log("0010"), log("0012"), INIT_LOG, INIT_BASE}


def archived_deltas() -> Listed:
    """Three deltas that were requested before a compaction, of which one completed after it; all were archived."""
    table = Listed()
    times = (("0010", "0013"), ("0011", "0016"), ("0012", "0014"))
    instants = [
        Instant(
            full(time), "deltacommit", State.COMPLETED, full(completion), f"{full(time)}_{full(completion)}.deltacommit"
        )
        for time, completion in times
    ]
    put_history(table.storage, HISTORY_FOLDER, [(one, b"{}") for one in instants])
    table.put(*(log(time) for time, _ in times))
    table.own("0015", "0017", "commit")
    table.put(base("0015"))
    for info in table.storage.list(TIMELINE_FOLDER):
        if INIT in info.name:
            table.storage.delete(info.path)
    return table


def test_logs_are_merged_in_the_order_of_requests_then_of_versions():
    table = Listed()
    for time, completion in (("0010", "0014"), ("0011", "0012")):
        table.data(time, completion)
        table.own(time, completion)
    table.put(log("0011"), log("0010", 2), log("0010", 10), log("0010", 2, "1-0-0"))
    (found,) = newest_slices(FILES, list_partition(table.storage, FILES), table.instants)
    assert [one.name for one in found.logs][1:] == [
        log("0010", 2),
        log("0010", 2, "1-0-0"),
        log("0010", 10),
        log("0011"),
    ]


def test_a_write_that_the_metadata_table_lacks_is_missed():
    table = Listed()
    for time, completion in (("0010", "0011"), ("0020", "0021")):
        table.data(time, completion)
        table.own(time, completion)
    assert table.instants.missing == ()
    table.data("0015", "0016")
    assert table.instants.missing == (full("0015"),)


def test_writes_that_completed_before_the_metadata_table_began_are_not_missed():
    table = Listed()
    table.data("0000", "0001")
    assert table.instants.missing == ()
    table.data("0010", "0012")
    table.own("0010", "0011")
    assert table.instants.missing == ()


def test_a_write_that_was_requested_before_it_began_and_completed_after_is_missed():
    table = Listed()
    table.data("0000", "0002")
    assert table.instants.missing == (full("0000"),)


@pytest.mark.parametrize(
    ("happened", "unseen"),
    [
        ([("data", "0010", "0012"), ("own", "0010", "0011")], []),
        ([("data", "0010", ""), ("own", "0010", "0011")], []),
        ([("data", "0010", ""), ("own", "0010", "0011"), ("own", "0014", "0015", "commit")], ["0010"]),
        ([("data", "0010", ""), ("own", "0010", "0013"), ("own", "0012", "0015", "commit")], []),
        ([("own", "0010", "0011")], ["0010"]),
        ([("own", "0001", "0002"), ("data", "0010", "0011"), ("own", "0010", "0011")], []),
        ([("data", "0010", "0012"), ("own", "0010", "")], []),
    ],
    ids=[
        "completed in both",
        "pending in the data table",
        "pending when it was read, but merged since",
        "completed after the merge began",
        "not in the data table",
        "archived in the data table",
        "pending here",
    ],
)
def test_it_is_told_which_instants_the_data_table_did_not_show_yet(
    happened: Sequence[Sequence[str]], unseen: list[str]
):
    table = Listed()
    for where, *instant in happened:
        (table.data if where == "data" else table.own)(*instant)
    assert table.instants.unseen == tuple(full(one) for one in unseen)


def basis(table: Listed, **changed: Any) -> Basis:
    config = table.config.model_copy(update=changed)
    state = TableState(config, Log("t", base=0, entries=(), properties_slot=0, properties=FIRST), table.instants.data)
    return basis_of(table.storage, state, table.instants.own)


def test_groups_of_every_partition_that_is_named_are_counted():
    table = Listed()
    config = table.config.model_copy(update={"metadata_partitions": ("files", "record_index")})
    for number in range(12):
        table.put(f".record-index-{number:04d}-0_{INIT[:-1]}1.log.1_0-0-0", partition="record_index")
    found = group_counts(table.storage, config, kept_partitions(config))
    assert found == {FILES: 1, MetadataPartition.RECORD_INDEX: 12}


def test_a_partition_of_a_kind_that_is_not_kept_is_refused_by_name():
    config = Listed().config.model_copy(update={"metadata_partitions": ("files", "expr_index_x")})
    with pytest.raises(Unsupported, match="expr_index_x"):
        kept_partitions(config)


def test_a_partition_without_files_is_being_begun_or_dropped():
    table = Listed()
    with pytest.raises(Conflict, match="column_stats has no files"):
        group_counts(table.storage, table.config, [MetadataPartition.COLUMN_STATS])


@pytest.mark.parametrize(
    "names",
    [
        [f".record-index-0000-0_{INIT}.log.1_0-0-0", f".record-index-0002-0_{INIT}.log.1_0-0-0"],
        [f".record-index-p=a-0000-0_{INIT}.log.1_0-0-0", f".record-index-p=b-0000-0_{INIT}.log.1_0-0-0"],
    ],
    ids=["one is missing", "by partition"],
)
def test_groups_that_keys_do_not_hash_to_by_number_are_refused(names: list[str]):
    table = Listed()
    table.put(*names, partition="record_index")
    with pytest.raises(Unsupported, match="record_index"):
        group_counts(table.storage, table.config, [MetadataPartition.RECORD_INDEX])


def test_a_basis_holds_until_a_partition_is_filled_anew():
    table = Listed()
    first = basis(table)
    table.data("0010", "0012")
    table.own("0010", "0011")
    assert basis(table) == first
    table.own(INIT[:-1] + "5", "0020")
    assert basis(table) != first


def test_a_basis_is_another_when_other_partitions_are_named_or_one_that_is_being_filled_grows():
    table = Listed()
    assert basis(table, metadata_partitions=("files", "column_stats")) != basis(table)
    filling = basis(table, metadata_partitions=(), metadata_partitions_inflight=("files",))
    table.put(f".files-0001-0_{INIT}.log.1_0-0-0")
    assert basis(table, metadata_partitions=(), metadata_partitions_inflight=("files",)) != filling


@pytest.mark.parametrize(
    "name", ["v8_trips_8i3u1d_mor", "v9_async_index", "v9_record_index_bloom_filters", "v9_txns_simple_meta_mor"]
)
def test_the_groups_of_tables_that_apache_hudi_wrote(hudi_fixtures: Callable[[str], Path], name: str):
    storage = LocalStorage(str(hudi_fixtures(name)))
    config = load_config(storage)
    kept = [one for one in config.metadata_partitions if is_kept(one)]
    expected = {
        FILES: 1,
        MetadataPartition.COLUMN_STATS: 2,
        MetadataPartition.PARTITION_STATS: 1,
        MetadataPartition.RECORD_INDEX: 10,
        MetadataPartition.BLOOM_FILTERS: 4,
    }
    assert group_counts(storage, config, kept) == {one: 10 if is_secondary(one) else expected[one] for one in kept}
