"""`hudi-ops metadata`, `index` and `verify --index`: each command shows or changes the metadata table; dry runs change nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudi_ops import Table
from hudi_ops.cli.arguments import locate, open_table
from hudi_ops.errors import InvalidRequest

EVERY = ["column_stats", "files", "partition_stats"]


def names(plain: dict[str, Any]) -> list[str]:
    return [one["name"] for one in plain["partitions"]]


def test_it_is_shown(trips: Path, call: Callable[..., Any]) -> None:
    told = call("metadata", "show", "trips")
    assert (told.code, told.err) == (0, "")
    assert all(name in told.out for name in EVERY)
    plain = call("metadata", "show", "trips", "--json").json
    assert names(plain) == EVERY
    assert plain["last_compaction"] is None


def test_it_is_dropped_built_and_compacted(trips: Path, call: Callable[..., Any]) -> None:
    dropped = call("index", "trips", "drop", "--yes")
    assert "dropped" in dropped.out
    assert call("metadata", "show", "trips").out == "trips has no metadata table\n"
    built = call("index", "trips", "run", "record_index").out
    assert "files, record_index built by plan" in built
    assert "10 file groups" in built
    assert call("index", "trips", "record_index", "--json").json["instant"] is None
    plain = call("metadata", "show", "trips", "--json").json
    assert names(plain) == ["files", "record_index"]
    table = Table.open(str(trips))
    table.ingest(table.read(list(table.schema.names)))
    table.ingest(table.read(list(table.schema.names)))
    assert "merged" in call("metadata", "compact", "trips").out
    assert "nothing to merge" in call("metadata", "compact", "trips").out
    assert call("verify", "trips", "--index", "--json").json["findings"] == []


def test_what_is_there_is_built_again(trips: Path, call: Callable[..., Any]) -> None:
    assert "--rebuild rebuilds them" in call("index", "trips").out
    told = call("index", "trips", "run", "column_stats", "--rebuild", "--dry-run").out
    assert "drops column_stats, partition_stats first; builds column_stats, partition_stats (a dry run" in told
    assert "dropped first, to be built anew: column_stats" in call("index", "trips", "column_stats", "--rebuild").out
    assert sorted(call("index", "trips", "--rebuild", "--json").json["rebuilt"]) == EVERY
    assert call("verify", "trips", "--index", "--json").json["findings"] == []


def test_one_that_is_behind_is_repaired_as_it_says(trips: Path, call: Callable[..., Any]) -> None:
    (trips / lost_delta(trips)).unlink()
    told = call("metadata", "show", "trips").out
    assert "run `hudi-ops index TABLE run --rebuild`" in told
    call("index", "trips", "run", "--rebuild")
    assert "lacks" not in call("metadata", "show", "trips").out


def lost_delta(trips: Path) -> str:
    """Path of the delta commit of the newest write."""
    table = Table.open(str(trips))
    newest = table.ingest(table.read(list(table.schema.names))).instant
    (found,) = (trips / ".hoodie/metadata/.hoodie/timeline").glob(f"{newest}_*.deltacommit")
    return str(found.relative_to(trips))


def test_nothing_is_dropped_unasked(
    trips: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any]
) -> None:
    before = tree(home)
    refused = call("index", "trips", "drop", "column_stats", "partition_stats", "--json")
    assert refused.code == 2
    assert "column_stats, partition_stats (" in refused.json["message"]
    assert "--yes" in refused.json["next_step"]
    assert tree(home) == before


def test_dry_runs_change_nothing(trips: Path, home: Path, call: Callable[..., Any], tree: Callable[..., Any]) -> None:
    before = tree(home)
    assert "would be dropped" in call("index", "trips", "drop", "--dry-run").out
    assert "builds bloom_filters (a dry run" in call("index", "trips", "run", "bloom_filters", "--dry-run").out
    assert call("metadata", "compact", "trips", "--dry-run", "--json").json["dry_run"] is True
    assert tree(home) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("index", "trips", "run", "nonsense"),
        ("index", "trips", "drop", "nonsense"),
        ("index", "trips", "drop", "files"),
        ("verify", "trips", "--sample", "3"),
    ],
)
def test_a_wrong_call_ends_with_2(trips: Path, call: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    assert call(*arguments).code == 2


def test_a_damaged_metadata_table_ends_verify_with_20(trips: Path, call: Callable[..., Any]) -> None:
    assert call("verify", "trips", "--index", "--sample", "1").code == 0
    (base,) = (trips / ".hoodie/metadata/files").glob("*.hfile")
    base.write_bytes(b"nothing")
    told = call("verify", "trips", "--index")
    assert told.code == 20
    assert "metadata-broken" in told.out


@pytest.mark.parametrize("command", ["show", "compact"])
def test_help_has_examples(command: str, call: Callable[..., Any]) -> None:
    told = call("metadata", command, "--help")
    assert told.code == 0
    assert f"hudi-ops metadata {command}" in told.out


def test_less_than_one_is_refused(trips: Path) -> None:
    with pytest.raises(InvalidRequest, match="one delta commit at least") as refused:
        Table.open(str(trips), metadata_compact_after=0)
    assert refused.value.next_step


def test_how_often_it_is_compacted_is_a_setting(home: Path, trips: Path, call: Callable[..., Any]) -> None:
    file = home / "tables.yaml"
    file.write_text(
        file.read_text().replace("    source: landing\n", "    source: landing\n    metadata_compact_after: 1\n", 1)
    )
    with open_table(locate("trips")) as opened:
        assert opened._session.metadata_compact_after == 1
        opened.ingest(opened.read(list(opened.schema.names)))
        opened.ingest(opened.read(list(opened.schema.names)))
        assert opened.metadata.describe().last_compaction is not None
