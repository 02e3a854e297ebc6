"""Tables with indexes that readers cannot use."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from hudi_ops.config.table import METADATA_PARTITIONS
from hudi_ops.storage.open import open_storage
from hudi_ops.testing.faults import Crash, FaultyStorage
from hudi_ops.timeline.settings.properties_file import load_config
from tests.fault_plans import DiesBehind
from tests.protocol.foreign_table import set_properties
from tests.tables import BY_HAND, WITH_METADATA, table_of
from tests.unit.health.aged import Aged, batch


def indexes_missed(tmp_path: Path) -> str:
    """An index whose builder died after it announced it, and one that another program dropped."""
    aged = Aged(tmp_path, WITH_METADATA, batch("p0", 1), batch("p1", 2))
    aged.table("builder").indexing.run(partitions=["record_index"])
    planned = aged.table("planner").indexing.plan(partitions=["bloom_filters"])
    assert planned.instant is not None
    dies = FaultyStorage(open_storage(aged.path), DiesBehind("put:.hoodie/hoodie.properties", "put"))
    with suppress(Crash):
        table_of(dies, aged.clock, "dead", upkeep=BY_HAND).indexing.execute(instant=planned.instant)
    aged.date_back(planned.instant)
    storage = open_storage(aged.path)
    listed = load_config(storage).metadata_partitions
    set_properties(storage, {METADATA_PARTITIONS: ",".join(sorted({*listed} - {"record_index"}))})
    return aged.path


def indexes_behind(tmp_path: Path) -> str:
    """A metadata table that lacks a completed write, as after a writer of Apache Hudi that had it off."""
    aged = Aged(tmp_path, WITH_METADATA, batch("p0", 1))
    done = aged.table("off").ingest(batch("p1", 2))
    storage = open_storage(aged.path)
    for info in storage.list(".hoodie/metadata"):
        if str(done.instant) in info.path:
            storage.delete(info.path)
    return aged.path
