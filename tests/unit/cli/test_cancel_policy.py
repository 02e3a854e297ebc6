"""Cancel policy of compaction plans: as a request says it, else as the table declares it, else never."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_ops import Table
from hudi_ops.config.requests import CancelSettings, CompactionRequest
from hudi_ops.config.tables_file import load_tables, locate_table
from hudi_ops.errors import InvalidRequest

DECLARED = "tables: {{trips: {{path: trips, record_key: [id], type: mor, cancel: {}}}}}\n"


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("never", CancelSettings(cancellable=False)),
        ("cancellable", CancelSettings()),
        ("after 6h", CancelSettings(after_hours=6)),
        ("After  90 m", CancelSettings(after_hours=1.5)),
        ("after 50 instants", CancelSettings(after_instants=50)),
        ("after 1 instant or 2d", CancelSettings(after_hours=48, after_instants=1)),
    ],
)
def test_a_text_is_a_policy(text: str, means: CancelSettings) -> None:
    assert CompactionRequest(cancel=text).cancel_settings(None) == means


@pytest.mark.parametrize(
    "text",
    [
        *(
            "after 0h",
            "after -1h",
            "after 1000000000h",
            "after 0 instants",
            "after 1.5 instants",
            "after 2000000 instants",
        ),
        *("after 6h or 7h", "after 6h or", "after", "6h", "overdue", "after nan h", " "),
    ],
)
def test_a_text_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="cancel cannot be") as refused:
        CompactionRequest(cancel=text)
    assert "after 6h or 50 instants" in (refused.value.expected or "")


def test_a_request_takes_what_it_leaves_out_from_the_table() -> None:
    declared = CancelSettings(after_hours=6, on_overlap="cancel")
    assert CompactionRequest().cancel_settings(None) == CancelSettings(cancellable=False)
    assert CompactionRequest(on_overlap="cancel").cancel_settings(None) == CancelSettings(on_overlap="cancel")
    assert CompactionRequest().cancel_settings(declared) == declared
    assert CompactionRequest(on_overlap="pass").cancel_settings(declared) == CancelSettings(after_hours=6)
    assert CompactionRequest(cancel="cancellable").cancel_settings(declared) == CancelSettings(on_overlap="cancel")
    assert CompactionRequest(cancel="never").cancel_settings(declared) == CancelSettings(cancellable=False)
    with pytest.raises(InvalidRequest, match="a write cannot end a plan that is never cancelled"):
        CompactionRequest(cancel="never", on_overlap="cancel")


@pytest.mark.parametrize(
    ("cancel", "says"),
    [
        ("{after_hours: 0}", "after_hours: Input should be greater than 0"),
        ("{after_hours: -1}", "after_hours"),
        ("{after_hours: 1000000000}", "after_hours: Input should be less than or equal to 87600"),
        ("{after_hours: .nan}", "after_hours"),
        ("{after_instants: 0}", "after_instants"),
        ("{after_instants: 1.5}", "after_instants"),
        ("{cancellable: 1}", "cancellable"),
        ("{cancellable: false, after_hours: 6}", "cancel: a plan that is not cancellable has no limit"),
        ("{after_hour: 6}", "Did you mean 'after_hours'"),
        ("never", "tables.trips.cancel"),
    ],
)
def test_a_wrong_declaration_names_file_and_field(home: Path, call: Callable[..., Any], cancel: str, says: str) -> None:
    (home / "tables.yaml").write_text(DECLARED.format(cancel))
    with pytest.raises(InvalidRequest, match=r"tables\.trips\.cancel") as refused:
        load_tables(home / "tables.yaml")
    assert says in str(refused.value)
    assert call("compact", "trips", "plan").code == 2


def test_the_declared_policy_holds_unless_the_call_says_otherwise(home: Path, call: Callable[..., Any]) -> None:
    (home / "tables.yaml").write_text(DECLARED.format("{after_hours: 6, after_instants: 20}"))
    table = Table.create(str(home / "trips"), name="trips", record_key=["id"], schema="id string", table_type="mor")
    for _ in range(2):
        table.ingest(pa.table({"id": ["a"]}))

    def policy(instant: str) -> str:
        (row,) = table.plans(instant)
        table.cancel(instant, "the next case", force=True)
        return row.policy

    declared = "cancellable, overdue after 6 h or 20 instants"
    assert policy(Table.at(locate_table("trips")).compaction.plan().instant or "") == declared
    for arguments, means in (
        ((), declared),
        (("--cancel", "never"), "not cancellable"),
        (("--cancel", "after 2h"), "cancellable, overdue after 2 h"),
        (("--cancel", "after 1.5m"), "cancellable, overdue after 1.5 min"),
        (("--cancel", "after 0.1m"), "cancellable, overdue after 6 s"),
        (("--cancel", "cancellable"), "cancellable"),
        (
            ("--on-overlap", "cancel"),
            f"cancellable, ended by writes to its file groups, {declared.removeprefix('cancellable, ')}",
        ),
    ):
        assert policy(call("compact", "trips", "plan", *arguments, "--json").json["instant"]) == means
    opened = Table.open(str(home / "trips"), cancel={"after_hours": 1.5})
    assert policy(str(opened.compaction.plan().instant)) == "cancellable, overdue after 1.5 h"
    assert policy(str(opened.compaction.plan(cancel="never").instant)) == "not cancellable"
