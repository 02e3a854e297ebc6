"""What is recorded is read again: the order of the list, pages, and the newest verdict, picture and runs of each table."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sqlalchemy import Engine, delete, event, insert, select

from hudi_ops.health.verdict import GRAVEST
from hudi_ops.registry.database import opened, storable
from hudi_ops.registry.identity import kept_name
from hudi_ops.registry.migrate import migrate
from hudi_ops.registry.recording import (
    RUNS_MAX,
    VERDICTS_MAX,
    forget,
    record_picture,
    record_run,
    record_runs,
    record_table,
    record_verdict,
)
from hudi_ops.registry.rows import LOST_MS, Run
from hudi_ops.registry.schema import TABLES, VERDICTS
from hudi_ops.registry.store import list_tables, runs_of, table_named
from tests.bounds import examples
from tests.unit.registry.told import NOW_MS, SECOND_MS, key, picture, told_run, verdict, verdicts_of

TABLE = st.tuples(
    st.sampled_from([None, *GRAVEST]),  # None: never judged
    st.integers(0, 3),  # since
    st.integers(0, 3),  # time of the verdict
    st.integers(-1, 3),  # newest run; -1: none
    st.booleans(),  # in capitals
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """One registry for all examples, each of which empties it."""
    url = f"sqlite:///{tmp_path_factory.mktemp('registry')}/r.db"
    migrate(url)
    return opened(url)


@settings(max_examples=examples(40), deadline=None)
@given(tables=st.lists(TABLE, max_size=9), size=st.integers(1, 4), page=st.integers(1, 9))
def test_the_list_is_sorted_searched_and_paged_as_a_python_list_is(
    shared: Engine, tables: list[tuple[int | None, int, int, int, bool]], size: int, page: int
) -> None:
    with shared.begin() as connection:
        connection.execute(delete(TABLES))
    told = []
    for number, (code, since, at, begun, is_loud) in enumerate(tables):
        # Names are not in the order in which the tables are recorded.
        name = f"t{(number * 7) % 10}_%"
        name = name.upper() if is_loud else name
        at_ms, since_ms = NOW_MS + at * SECOND_MS, NOW_MS - since * SECOND_MS
        if code is None:
            record_table(shared, key(name), {}, NOW_MS)
        else:
            record_verdict(shared, key(name), verdict(code, at_ms, since_ms, name))
        for second in range(begun + 1):
            record_run(shared, key(name), told_run(second))
        record_run(shared, key(name), told_run(59 - number, service="rollback"))  # no run of its own
        rank = len(GRAVEST) if code is None else GRAVEST.index(code)
        told.append((
            rank,
            (since_ms if code else 0),
            name,
            0 if code is None else at_ms,
            begun,
        ))
    orders = {
        "worst": sorted(told),
        "name": sorted(told, key=lambda one: one[2]),
        "seen": sorted(told, key=lambda one: (-one[3], one[2])),
        "run": sorted(told, key=lambda one: (-one[4], one[2])),
    }
    for sort, expected in orders.items():
        found = list_tables(shared, sort=sort, page=page, size=size)  # type: ignore[arg-type]
        last = max(1, math.ceil(len(told) / size))
        assert found.page == min(page, last)
        assert [one.name for one in found.rows] == [one[2] for one in expected][(found.page - 1) * size :][:size]
        assert (found.total, sum(found.counts.values())) == (len(told), len(told))
    searched = list_tables(shared, search="T1_%", size=100)
    assert {one.name for one in searched.rows} == {one[2] for one in told if "t1_%" in one[2].lower()}
    assert list_tables(shared, search="%%").total == 0
    for one in list_tables(shared, size=100).rows:
        begun = next(each[4] for each in told if each[2] == one.name)
        assert (one.run and one.run["instant"]) == (told_run(begun).instant if begun >= 0 else None)


def test_a_verdict_that_says_the_same_replaces_the_last_one_and_an_old_one_is_not_kept(engine: Engine) -> None:
    times = [NOW_MS + count * 60_000 for count in range(5)]
    since_ms = times[0]
    assert record_verdict(engine, key(), verdict(4, times[0], since_ms))
    assert not record_verdict(engine, key(), verdict(4, times[2], since_ms))
    assert record_verdict(engine, key(), verdict(0, times[3]))
    assert not record_verdict(engine, key(), verdict(13, times[1]))
    found = table_named(engine, "trips")
    assert found is not None
    assert (found.row.status, found.row.at_ms) == ("healthy", times[3])
    assert found.verdict == verdict(0, times[3]).model_dump(mode="json", exclude={"seen"})
    kept = [(one["status"], one["at_ms"], one["seen_ms"]) for one in verdicts_of(engine, found.row.id)]
    assert kept == [("healthy", times[3], times[3]), ("missed", times[0], times[2])]
    record_picture(engine, key(), picture(times[2], about={"rows": math.nan}))
    record_picture(engine, key(), picture(times[1]))
    record_table(engine, key(), {"type": "mor"}, times[4])
    found = table_named(engine, "trips")
    assert found is not None
    assert found.picture is not None
    assert (found.picture["about"], found.picture_at_ms, found.settings) == ({"rows": None}, times[2], {"type": "mor"})


def test_a_run_ends_once_and_keeps_what_its_process_knew(engine: Engine) -> None:
    process = Run("process-1", "compaction", "running", NOW_MS, dag_run="compaction/t/r", requester="ada")
    record_run(engine, key(), process)
    record_run(engine, key(), told_run(state="running", ended_ms=None))
    record_runs(engine, key(), [told_run(cpu_s=1.5, requester="ada", dag_run="compaction/t/r")], ends="process-1")
    # A look at the table that began earlier, and one that began later: neither knows what the process knew.
    record_run(engine, key(), told_run(state="running", ended_ms=None))
    record_run(engine, key(), told_run(note="said by the table"))
    found = list_tables(engine).rows[0]
    expected = told_run(cpu_s=1.5, requester="ada", dag_run="compaction/t/r", note="said by the table")
    assert runs_of(engine, found.id) == [expected]
    failed = Run("process-2", "clean", "failed", NOW_MS + LOST_MS, NOW_MS + LOST_MS + 1, error={"error": "Busy"})
    record_run(engine, key(), failed)
    record_run(engine, key(), replace(process, key="process-3", begun_ms=NOW_MS + 1))
    later_ms = NOW_MS + 1 + LOST_MS
    states = [[run.state for run in runs_of(engine, found.id, now_ms=now_ms)] for now_ms in (later_ms, later_ms + 1)]
    assert states == [["failed", "running", "succeeded"], ["failed", "lost", "succeeded"]]
    assert runs_of(engine, found.id, 1) == [failed]


def test_only_the_newest_verdicts_and_runs_are_kept(shared: Engine) -> None:
    with shared.begin() as connection:
        connection.execute(delete(TABLES))
    beyond = 20
    table = key("flapping")
    record_verdict(shared, table, verdict(0, NOW_MS))
    with shared.begin() as connection:
        first = connection.execute(select(VERDICTS).where(VERDICTS.c.of_table == select(TABLES.c.id).scalar_subquery()))
        values = {name: value for name, value in first.mappings().one().items() if name != "id"}
        for number in range(1, VERDICTS_MAX):
            connection.execute(insert(VERDICTS).values({**values, "at_ms": NOW_MS + number * SECOND_MS}))
    for number in range(VERDICTS_MAX, VERDICTS_MAX + beyond):
        record_verdict(shared, table, verdict(4 * (number % 2), NOW_MS + number * SECOND_MS, NOW_MS))
    runs = [Run(f"process-{number}", "clean", "succeeded", NOW_MS + number, 1) for number in range(RUNS_MAX + beyond)]
    record_runs(shared, table, runs)
    details = table_named(shared, "flapping")
    assert details is not None
    kept = verdicts_of(shared, details.row.id)
    # The first of those that were recorded says the same as the one before.
    assert [len(kept), kept[-1]["at_ms"]] == [VERDICTS_MAX, NOW_MS + (beyond - 1) * SECOND_MS]
    found = runs_of(shared, details.row.id, 10_000)
    assert [len(found), found[-1].key] == [RUNS_MAX, f"process-{beyond}"]


ODD = ["\0nul", "half \ud800", "'); DROP TABLE runs;--", "<script>", "x" * 10_000, "🦆\n\t", "..", "a/b", ""]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_run_fits_its_columns(engine: Engine, data: st.DataObject) -> None:
    """PostgreSQL refuses what is too long or too large: one such value must not cost the record."""
    text = st.one_of(st.text(max_size=20), st.sampled_from(["x" * 800, "🦆" * 1001, "y" * 65]))
    number = st.one_of(st.none(), st.integers(-(2**70), 2**70))
    run = data.draw(
        st.builds(
            Run,
            key=text,
            service=text,
            state=text,
            begun_ms=st.integers(-(2**70), 2**70),
            ended_ms=number,
            instant=text,
            cpu_s=st.one_of(st.none(), st.floats()),
            bytes=number,
            rows=number,
            note=text,
            error=st.dictionaries(text, number, max_size=2),
            dag_run=text,
            requester=text,
        )
    )
    table = key(data.draw(text), data.draw(text))
    forget(engine, [table.name])
    record_runs(engine, table, [run])
    details = table_named(engine, kept_name(table.name))
    assert details is not None
    (found,) = runs_of(engine, details.row.id)
    assert str(storable(run.dag_run)).startswith(found.dag_run)
    assert len(found.dag_run) >= min(len(run.dag_run), 1000)


def test_any_text_is_kept_and_found(engine: Engine) -> None:
    for name in ODD:
        table = key(name, location=f"file:///{name}")
        at_ms = NOW_MS + ODD.index(name) * SECOND_MS
        missed = verdict(4, at_ms, table=name, note=f"note {name}"[:2000])
        record_verdict(engine, table, missed, {"source": name})
        record_run(engine, table, told_run(note=name, requester=name[:200], error={name: name}))
        record_picture(engine, table, picture(at_ms, about={name: [name, math.inf]}))
    names = {one.name for one in list_tables(engine, size=100).rows}
    assert len(names) == len(ODD)
    for name in names:
        assert table_named(engine, name) is not None
    for name in ODD:
        assert list_tables(engine, search=name).total >= 1
        assert table_named(engine, f"{name} of another") is None


def test_a_list_reads_few_rows(shared: Engine) -> None:
    """The plan of each statement of the list reads runs by their index, and no verdict at all."""
    record_run(shared, key("flapping"), told_run())
    statements: list[tuple[str, object]] = []

    def note(_: object, __: object, statement: str, values: object, *___: object) -> None:
        statements.append((statement, values))

    event.listen(shared, "before_cursor_execute", note)
    for sort in ("worst", "name", "seen", "run"):
        list_tables(shared, sort=sort, search="f")  # type: ignore[arg-type]
    event.remove(shared, "before_cursor_execute", note)
    asked = [(statement, values) for statement, values in statements if statement.startswith("SELECT")]
    assert len(asked) == 3 * 4
    with shared.connect() as connection:
        for statement, values in asked:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all()  # type: ignore[call-overload]
            said = "\n".join(row.detail for row in plan)
            assert "SCAN runs" not in said, said
            assert "verdicts" not in statement
