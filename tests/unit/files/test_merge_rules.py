"""How a table merges, told by its settings and schema; what is not known is refused by name."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hudi_ops.config.columns import RECORD_KEY
from hudi_ops.config.table import TableConfig
from hudi_ops.errors import Unsupported
from hudi_ops.files.log.merge_rules import MergeRules
from hudi_ops.kernels.keys.keys import KeySpec
from hudi_ops.kernels.merging.merge import Ordering

SCHEMA = pa.schema([("id", pa.int32()), ("ts", pa.int64()), ("op", pa.string())])


def rules(schema: pa.Schema = SCHEMA, **properties: str) -> MergeRules:
    raw = {
        "hoodie.table.name": "t",
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.recordkey.fields": "id",
    }
    given = {key.replace("__", "."): value for key, value in properties.items()}
    return MergeRules.of(TableConfig.from_properties(raw | given), schema)


def test_by_event_time_with_an_ordering_field() -> None:
    found = rules(hoodie__table__ordering__fields="ts", hoodie__record__merge__mode="EVENT_TIME_ORDERING")
    assert (found.mode, found.ordering, found.keys) == (Ordering.EVENT_TIME, SCHEMA.field("ts"), None)
    assert found.of_base.names == found.of_log.names == [RECORD_KEY, "ts"]
    by_commit = rules(hoodie__table__ordering__fields="ts", hoodie__record__merge__mode="COMMIT_TIME_ORDERING")
    assert (by_commit.mode, by_commit.ordering, by_commit.of_base.names) == (Ordering.COMMIT_TIME, None, [RECORD_KEY])


def test_an_ordering_field_that_the_table_lacks_decides_nothing() -> None:
    found = rules(hoodie__table__ordering__fields="at", hoodie__record__merge__mode="EVENT_TIME_ORDERING")
    assert (found.mode, found.ordering) == (Ordering.COMMIT_TIME, None)


def test_without_meta_columns_keys_are_made_of_fields() -> None:
    found = rules(hoodie__populate__meta__fields="false")
    assert found.keys == KeySpec(("id",), False)
    assert found.key_columns == pa.schema([("id", pa.int32())])
    assert found.keys_of(pa.table({"id": pa.array([1, 2], pa.int32())})).to_pylist() == ["1", "2"]


@pytest.mark.parametrize("prefix", ["hoodie.record.merge.property.", ""])
def test_marks_of_deletes(prefix: str) -> None:
    marked = {f"{prefix}hoodie.payload.delete.field": "op", f"{prefix}hoodie.payload.delete.marker": "D"}
    flagged = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_())).append(
        pa.field("_hoodie_operation", pa.string())
    )
    found = rules(flagged, **marked)
    assert found.marker == ("op", "D")
    assert found.flags.names == ["_hoodie_is_deleted", "_hoodie_operation", "op"]
    # Columns that the table's schema lacks say nothing.
    assert rules(**(marked | {f"{prefix}hoodie.payload.delete.field": "other"})).of_log.names == [RECORD_KEY]


@pytest.mark.parametrize(
    ("payload", "mode"),
    [
        ("org.apache.hudi.common.model.OverwriteWithLatestAvroPayload", Ordering.COMMIT_TIME),
        ("org.apache.hudi.common.model.DefaultHoodieRecordPayload", Ordering.EVENT_TIME),
        ("org.apache.hudi.common.model.EventTimeAvroPayload", Ordering.EVENT_TIME),
        ("", Ordering.EVENT_TIME),
    ],
)
def test_a_table_that_names_no_mode_has_that_of_its_payload(payload: str, mode: Ordering) -> None:
    named = {"hoodie.compaction.payload.class": payload} if payload else {}
    assert rules(hoodie__table__ordering__fields="ts", **named).mode is mode
    with pytest.raises(Unsupported, match="unknown merge rule"):
        rules(**{"hoodie.compaction.payload.class": "a.PartialUpdateAvroPayload"})


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"hoodie.record.merge.mode": "CUSTOM", "hoodie.compaction.payload.class": "a.B"}, "a.B"),
        ({"hoodie.table.ordering.fields": "ts,id"}, "several ordering fields: ts, id"),
        (
            {"hoodie.table.ordering.fields": "s.at", "hoodie.record.merge.mode": "EVENT_TIME_ORDERING"},
            "within a struct: s.at",
        ),
        ({"hoodie.populate.meta.fields": "false", "hoodie.table.recordkey.fields": "s.at"}, "keys made of s.at"),
        ({"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}, "IGNORE_DEFAULTS"),
    ],
)
def test_what_is_not_known_is_refused(properties: dict[str, str], says: str) -> None:
    nested = SCHEMA.append(pa.field("s", pa.struct([("at", pa.int64())])))
    with pytest.raises(Unsupported) as refused:
        rules(nested, **properties)
    assert says in refused.value.found
    assert refused.value.table == "t"
    assert "compact" in refused.value.next_step
    assert "read_optimized" in refused.value.next_step
