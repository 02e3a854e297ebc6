"""Tables of Apache Hudi with a feature that our writes would break are refused at every door with one answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.cli.main import main
from hudi_ops.clock import SystemClock
from hudi_ops.errors import Unsupported
from hudi_ops.services.create.adoption import AdoptionOptions
from hudi_ops.services.inspect.summary import describe_table
from hudi_ops.storage.memory import MemoryStorage
from hudi_ops.storage.open import open_storage
from tests.protocol.foreign_table import make_foreign, set_properties, snapshot
from tests.tables import table_of

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64())])
ROWS = pa.table({"id": ["a", "b", "c"], "ts": [1, 2, 3]}, schema=SCHEMA)
FEATURES = [
    ({"hoodie.table.metadata.partitions": "files,expr_index_value"}, "expr_index_value"),
    ({"hoodie.table.metadata.partitions.inflight": "expr_index_ts"}, "expr_index_ts"),
    ({"hoodie.table.recordkey.fields": ""}, "no record key"),
    ({"hoodie.table.recordkey.fields": "id,t:s"}, "colon in its name"),
    ({"hoodie.table.cdc.enabled": "true"}, "logs changes"),
    ({"hoodie.bootstrap.base.path": "/data/old"}, "bootstrapped"),
    ({"hoodie.table.multiple.base.file.formats.enable": "true"}, "several formats"),
    ({"hoodie.table.format": "iceberg"}, "format iceberg"),
    ({"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}, "field by field"),
    ({"hoodie.record.merge.property.hoodie.payload.delete.field": "op"}, "setting of their own"),
    ({"hoodie.record.merge.mode": "CUSTOM"}, "custom class"),
    ({"hoodie.table.ordering.fields": "ts,id"}, "several fields"),
    ({"hoodie.table.version": "6", "hoodie.timeline.layout.version": "1"}, "version is 6"),
]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> MemoryStorage:
    folder = tmp_path_factory.mktemp("ours")
    Table.create(str(folder), name="t", record_key=["id"], schema=SCHEMA, ordering="ts").ingest(ROWS)
    storage = MemoryStorage("t", SystemClock())
    for info in open_storage(str(folder)).list():
        storage.put(info.path, open_storage(str(folder)).get(info.path))
    return make_foreign(storage)


@pytest.mark.parametrize(("values", "said"), FEATURES, ids=[said for _, said in FEATURES])
def test_every_door_gives_the_same_answer(
    theirs: MemoryStorage, values: dict[str, str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = theirs.copy()
    set_properties(storage, values)
    before = snapshot(storage)
    (tmp_path / "source").mkdir()
    doors: list[Callable[[Table], Any]] = [
        lambda table: table.ingest(ROWS),
        lambda table: table.ingest_folder(str(tmp_path / "source")),
        lambda table: table.preview_folder(str(tmp_path / "source")),
        lambda table: table.truncate(),
        lambda table: table.delete_partition(["x"]),
        lambda table: table.adopt(),
        lambda table: table.adopt(dry_run=True),
    ]
    answers = set()
    for door in doors:
        with pytest.raises(Unsupported, match=said) as caught:
            door(table_of(storage, SystemClock(), "writer", AdoptionOptions(buckets=1)))
        answers.add(str(caught.value))
    assert len(answers) == 1
    assert snapshot(storage) == before
    assert said in describe_table(storage).why_not_writable
    root = storage.dump(tmp_path / "table")
    assert main(["adopt", str(root), "--buckets", "1"]) == Unsupported.exit_code
    assert next(iter(answers)) in capsys.readouterr().err


def test_the_choice_about_a_metadata_table_is_spelt_out(theirs: MemoryStorage) -> None:
    storage = theirs.copy()
    set_properties(storage, {"hoodie.table.metadata.partitions": "files,expr_index_ts"})
    with pytest.raises(Unsupported) as caught:
        table_of(storage, SystemClock(), "writer", AdoptionOptions(buckets=1)).ingest(ROWS)
    for word in ("(expr_index_ts)", "index TABLE drop expr_index_ts", "--drop-metadata-table", "Apache Hudi alone"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("version", "way"), [("3", "CALL upgrade_table"), ("5", "CALL upgrade_table"), ("99", "upgrade hudi-ops")]
)
def test_a_version_that_cannot_be_opened_is_refused_with_the_way_out(
    theirs: MemoryStorage, version: str, way: str
) -> None:
    storage = theirs.copy()
    set_properties(storage, {"hoodie.table.version": version, "hoodie.timeline.layout.version": "1"})
    with pytest.raises(Unsupported, match=f"table version {version} cannot be opened") as caught:
        table_of(storage, SystemClock(), "reader").read()
    assert way in caught.value.next_step
