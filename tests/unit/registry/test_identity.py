"""Tables are dropped, made again, renamed, moved and adopted: nothing that is known of one is shown as another's."""

from __future__ import annotations

from sqlalchemy import Engine

from hudi_ops.clock import SystemClock
from hudi_ops.registry.recording import forget, record_look, record_picture, record_run, record_verdict
from hudi_ops.registry.rows import Found, TableKey, TimelineRuns
from hudi_ops.registry.store import list_tables, runs_of, table_named
from tests.unit.registry.told import NOW_MS, SECOND_MS, content, key, picture, told_run, verdict


def at(second: int) -> int:
    return NOW_MS + second * SECOND_MS


def listed(engine: Engine) -> list[tuple[str, str, str, str]]:
    """Name, location, id and status of the tables of the list, by name."""
    return [(one.name, one.location, one.table_id, one.status) for one in list_tables(engine, sort="name").rows]


def test_a_table_that_was_made_again_begins_anew(engine: Engine) -> None:
    record_verdict(engine, key(), verdict(4, at(0)))
    record_picture(engine, key(), picture(at(0)))
    record_run(engine, key(), told_run(1))
    # It is deleted: what is known stays, and the verdict says so.
    gone = verdict(
        2, at(10), error={"error": "InvalidRequest", "exit_code": 2, "message": "there is no table\nNext: …"}
    )
    record_verdict(engine, key(table_id=None), gone)
    assert listed(engine) == [("trips", "s3://lake/trips", "one", "unknown")]
    found = table_named(engine, "trips")
    assert found is not None
    assert (found.row.error, found.earlier) == ("there is no table", [])
    assert found.picture_at_ms == at(0)
    # It is made again.
    record_verdict(engine, key(table_id="two"), verdict(0, at(20)))
    again = table_named(engine, "trips")
    assert again is not None
    assert (again.row.table_id, again.row.status, again.picture, again.row.run) == ("two", "healthy", None, None)
    assert [(one.table_id, one.error, one.is_current) for one in again.earlier] == [("one", "there is no table", False)]
    assert [run.instant for run in runs_of(engine, again.earlier[0].id)] == [told_run(1).instant]
    assert listed(engine) == [("trips", "s3://lake/trips", "two", "healthy")]
    # A process that worked on the table before, and a look that began before, change nothing of that.
    record_run(engine, key(), told_run(5))
    record_verdict(engine, key(), verdict(4, at(11)))
    assert listed(engine) == [("trips", "s3://lake/trips", "two", "healthy")]


def test_a_table_in_the_same_second_as_the_one_before_is_another(engine: Engine) -> None:
    record_run(engine, key(), told_run(begun_ms=at(0) + 700, ended_ms=at(0) + 900))
    record_verdict(engine, key(), verdict(4, at(0)))
    record_verdict(engine, key(table_id="two"), verdict(0, at(0)))
    assert listed(engine) == [("trips", "s3://lake/trips", "two", "healthy")]


def test_a_table_whose_id_becomes_known_keeps_its_row(engine: Engine) -> None:
    unread = verdict(13, at(0))
    record_verdict(engine, key(table_id=None), unread)
    record_run(engine, key(table_id=None), told_run(0))
    record_verdict(engine, key(table_id=""), verdict(0, at(1)))  # not adopted
    instants = frozenset({told_run(0).instant})

    def look(table_id: str, at_ms: int) -> None:
        found = Found(key(table_id=table_id), verdict(0, at_ms), None, picture(at_ms), TimelineRuns(instants=instants))
        record_look(engine, found)

    look("one", at(2))  # adopted: its newest instant is still there
    record_verdict(engine, key(table_id=None), verdict(13, at(3)))
    assert listed(engine) == [("trips", "s3://lake/trips", "one", "unknown")]
    assert len(content(engine)["tables"]) == 1
    # Another table is made there, which is not adopted: it has a row of its own.
    look("", at(4))
    record_run(engine, key(table_id=""), told_run(9))
    assert listed(engine) == [("trips", "s3://lake/trips", "", "healthy")]
    # A third one is made there, with an id: nothing of the one before becomes its own.
    look("two", at(12))
    assert listed(engine) == [("trips", "s3://lake/trips", "two", "healthy")]
    assert len(content(engine)["tables"]) == 3
    assert [run.instant for run in runs_of(engine, list_tables(engine).rows[0].id)] == []


def test_a_clock_that_was_ahead_hides_nothing_that_comes_later(engine: Engine) -> None:
    ahead_ms = SystemClock().now_ms() + 3_600_000
    record_verdict(engine, key(), verdict(4, ahead_ms))
    record_picture(engine, key(), picture(ahead_ms, digest="ahead"))
    record_verdict(engine, key(), verdict(0, at(1)))
    record_picture(engine, key(), picture(at(1)))
    found = table_named(engine, "trips")
    assert found is not None
    assert (found.row.status, found.row.at_ms, found.row.seen_ms) == ("healthy", at(1), at(1) + 999)
    assert (found.verdict or {})["status"] == "healthy"
    assert found.picture_at_ms == at(1)
    # Nor is a table that was made again there hidden by the one of that time.
    record_verdict(engine, key(), verdict(4, ahead_ms))
    record_verdict(engine, key(table_id="two"), verdict(0, at(2)))
    assert listed(engine) == [("trips", "s3://lake/trips", "two", "healthy")]


def test_names_and_locations_change_hands(engine: Engine) -> None:
    trips, riders = key("trips", "one"), key("riders", "two")
    for table in (trips, riders):
        record_verdict(engine, table, verdict(0, at(0), table=table.name))
    # tables.yaml gives each name to the location of the other.
    swapped = [TableKey("riders", trips.location, "one"), TableKey("trips", riders.location, "two")]
    for table in swapped:
        record_verdict(engine, table, verdict(0, at(1), table=table.name))
    expected = [("riders", trips.location, "one", "healthy"), ("trips", riders.location, "two", "healthy")]
    assert listed(engine) == expected
    # One is renamed, and a third table gets its name.
    record_verdict(engine, TableKey("cities", trips.location, "one"), verdict(4, at(2), table="cities"))
    record_verdict(engine, TableKey("trips", "s3://lake/new", "three"), verdict(0, at(2)))
    assert listed(engine) == [
        ("cities", trips.location, "one", "missed"),
        ("trips", "s3://lake/new", "three", "healthy"),
    ]
    found = table_named(engine, "trips")
    assert found is not None
    assert [(one.name, one.location, one.table_id) for one in found.earlier] == [("trips", riders.location, "two")]
    assert table_named(engine, "riders") is None


def test_a_table_is_forgotten_with_all_of_its_rows(engine: Engine) -> None:
    for table in (key("trips", "one"), key("riders", "two")):
        record_verdict(engine, table, verdict(4, at(0), table=table.name))
        record_picture(engine, table, picture(at(0)))
        record_run(engine, table, told_run())
    record_verdict(engine, key("trips", "three"), verdict(0, at(1)))
    assert forget(engine, ["trips", "nothing"]) == 2
    assert {row["of_table"][1] for rows in content(engine).values() for row in rows} == {"two"}
    assert {name: len(rows) for name, rows in content(engine).items()} == dict.fromkeys(content(engine), 1)
