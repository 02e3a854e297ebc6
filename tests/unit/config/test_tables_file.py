"""`tables.yaml`: what is declared is found under its name, and what is wrong is said with file, field and a way out."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.config.definition import OpenOptions
from hudi_ops.config.requests import ArchiveRequest, CleanRequest
from hudi_ops.config.tables_file import find_tables_file, load_tables, locate_table
from hudi_ops.errors import InvalidRequest

FULL = """
lock: zookeeper://127.0.0.1:21810/hudi_ops/locks
tables:
  trips:
    path: data/trips
    record_key: [id, city]
    partition_by: [city]
    ordering: ts
    buckets: 4
    type: mor
    source: landing/trips
  remote: {path: "s3://bucket/trips/", record_key: [id]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HUDI_OPS_TABLES", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, content: str) -> Path:
    file = folder / "tables.yaml"
    file.write_text(content, encoding="utf-8")
    return file


def test_a_declaration_is_read_with_absolute_paths(folder: Path) -> None:
    trips = load_tables(write(folder, FULL)).get("trips")
    assert trips.path == str(folder / "data/trips")
    assert trips.source == str(folder / "landing/trips")
    assert (trips.record_key, trips.partition_by, trips.ordering) == (("id", "city"), ("city",), "ts")
    assert (trips.buckets, trips.type) == (4, "mor")


def test_a_uri_is_left_alone_and_defaults_are_filled_in(folder: Path) -> None:
    remote = load_tables(write(folder, FULL)).get("remote")
    assert remote.path == "s3://bucket/trips"
    assert (remote.partition_by, remote.ordering, remote.buckets, remote.type, remote.source) == (
        (),
        None,
        1,
        "cow",
        None,
    )


def test_what_writers_that_meet_do_is_declared(folder: Path) -> None:
    text = FULL.replace(
        "    type: mor",
        "    type: mor\n    conflicts: {strategy: first-committer, retries: 20, wait_s: 3, foreign_without_heartbeat: pass}",
    )
    write(folder, text)
    trips = locate_table("trips").options()["conflicts"]
    assert (trips.strategy, trips.retries, trips.wait_s, trips.early_detection) == ("first-committer", 20, 3.0, True)
    assert trips.foreign_without_heartbeat == "pass"
    assert ConflictSettings().foreign_without_heartbeat == "busy"
    assert locate_table("remote").options()["conflicts"] == ConflictSettings()
    assert locate_table("./elsewhere").options() == {}


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("retry: 3", "Did you mean 'retries'"),
        ("retries: -1", "conflicts.retries"),
        ("foreign_without_heartbeat: wait", "'busy' or 'pass'"),
    ],
)
def test_a_wrong_setting_of_writers_that_meet_is_named(folder: Path, setting: str, says: str) -> None:
    write(folder, FULL.replace("    type: mor", f"    type: mor\n    conflicts: {{{setting}}}"))
    with pytest.raises(InvalidRequest) as caught:
        load_tables()
    assert says in str(caught.value)


def test_declarations_are_frozen(folder: Path) -> None:
    tables = load_tables(write(folder, FULL))
    with pytest.raises(ValidationError):
        tables.get("trips").path = "elsewhere"


def test_the_argument_wins_over_the_environment_and_that_over_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = write(folder, FULL)
    argument, environment = folder / "a.yaml", folder / "e.yaml"
    for file in (argument, environment):
        file.write_text(FULL)
    below = folder / "x" / "y"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert find_tables_file() == here
    monkeypatch.setenv("HUDI_OPS_TABLES", str(environment))
    assert find_tables_file() == environment
    assert find_tables_file(argument) == argument


def test_a_named_file_must_exist(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidRequest, match=r"nowhere\.yaml does not exist(.|\n)*correct the argument"):
        load_tables("nowhere.yaml")
    monkeypatch.setenv("HUDI_OPS_TABLES", "gone.yaml")
    with pytest.raises(InvalidRequest, match=r"gone\.yaml does not exist(.|\n)*HUDI_OPS_TABLES"):
        load_tables()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("tables: [", "cannot be read as YAML"),
        ("", "expected a mapping .* found an empty file"),
        ("- trips", "expected a mapping .* found list"),
        ("tables: {t: {path: x, record_key: [a]}, t: {path: y, record_key: [a]}}", "'t' stands twice"),
        ("tables: {t: {path: x}}", r"tables\.t\.record_key: Field required"),
        ("tables: {t: {path: x, record_key: a}}", r"tables\.t\.record_key: must be a list of column names, found 'a'"),
        ("tables: {t: {path: x, record_key: []}}", r"tables\.t\.record_key: .*at least 1"),
        ("tables: {t: {path: x, record_key: [a, a]}}", "names a column twice: a"),
        ("tables: {t: {path: x, record_key: [1]}}", r"tables\.t\.record_key\.0: .*string"),
        ("tables: {t: {path: x, record_key: [a], partiton_by: [b]}}", "unknown setting. Did you mean 'partition_by'"),
        ("tables: {t: {path: x, record_key: [a], clean: {retian: 3}}}", "t.clean.retian: .*Did you mean 'retain'"),
        (
            "tables: {t: {path: x, record_key: [a], archive: {keepmin: 3}}}",
            "t.archive.keepmin: .*Did you mean 'keep_min'",
        ),
        ("tables: {clean: {path: x, record_key: [a], orderng: v}}", "clean.orderng: .*Did you mean 'ordering'"),
        ("tables: {t: {path: x, record_key: [a], buckets: '2'}}", r"tables\.t\.buckets: .*integer, found '2'"),
        ("tables: {t: {path: x, record_key: [a], buckets: 0}}", r"tables\.t\.buckets: .*greater than or equal to 1"),
        ("tables: {t: {path: x, record_key: [a], type: copy}}", r"tables\.t\.type: .*'cow' or 'mor', found 'copy'"),
        (
            "tables: {a/b: {path: x, record_key: [a]}}",
            r"a/b.*must begin with a letter or _, and may have letters, digits",
        ),
        ("tables: {a: {path: x, record_key: [k]}, b: {path: ./x/, record_key: [k]}}", "a and b have the same path"),
        ("lock: redis://x\ntables: {}", "lock: must read zookeeper://host:port/path or in-process, found 'redis://x'"),
        ("locks: x\ntables: {}", "locks: unknown setting. Did you mean 'lock'"),
        ("file: x\ntables: {}", "file: unknown setting"),
        (
            "tables: {t: {path: x, record_key: [a], schedules: {metadata: '@daily'}}}",
            "unknown service 'metadata', expected one of .*indexing",
        ),
        (
            "tables: {t: {path: x, record_key: [a], type: mor, schedules: {compaction: {schedule: '@daily', least: 2}}}}",
            r"compaction\.least: unknown setting\. Expected one of .*threshold",
        ),
    ],
)
def test_what_is_wrong_is_said_with_file_and_field(folder: Path, content: str, says: str) -> None:
    file = write(folder, content)
    with pytest.raises(InvalidRequest, match=says) as caught:
        load_tables()
    assert str(file) in str(caught.value)


def test_an_unknown_table_names_the_known_ones(folder: Path) -> None:
    write(folder, FULL)
    with pytest.raises(InvalidRequest, match=r"no table 'trps'(.|\n)*remote, trips(.|\n)*Did you mean 'trips'"):
        locate_table("trps")


def test_a_name_and_its_path_share_the_lock(folder: Path) -> None:
    write(folder, FULL)
    by_name, by_path = locate_table("trips"), locate_table("./data/trips/")
    assert by_name == by_path
    assert by_name.lock == "zookeeper://127.0.0.1:21810/hudi_ops/locks"


def test_a_path_that_is_not_declared_has_no_lock(folder: Path) -> None:
    write(folder, FULL)
    other = locate_table("elsewhere/rides")
    assert (other.name, other.path, other.lock, other.declaration) == (
        "rides",
        str(folder / "elsewhere/rides"),
        None,
        None,
    )
    assert locate_table("s3://bucket/other").path == "s3://bucket/other"


def test_without_a_file_only_paths_are_tables(folder: Path) -> None:
    (folder / "rides").mkdir()
    assert locate_table("rides").path == str(folder / "rides")
    with pytest.raises(InvalidRequest, match="neither a folder nor the name of a table"):
        locate_table("trips")


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        (
            "indexing: {schedule: '@daily', partitions: [filez]}",
            "indexing: partitions cannot be 'filez', expected some of files",
        ),
        ("ingestion: {schedule: '@daily', source: 's3://u:p@h/x'}", "ingestion.source: must hold no user and password"),
        ("indexing: {schedule: '@daily', partitions: ''}", "indexing: partitions cannot be ''"),
        (
            "compaction: {schedule: '@daily', threshold: .inf}",
            "compaction: threshold cannot be inf, expected a finite number",
        ),
        (
            "ingestion: {schedule: '@daily', min_age_s: .nan}",
            "ingestion: min_age_s cannot be nan, expected less than or equal to 315360000",
        ),
    ],
)
def test_a_schedule_has_only_values_that_its_form_takes(tmp_path: Path, schedule: str, says: str) -> None:
    file = tmp_path / "tables.yaml"
    file.write_text(
        f"tables:\n  trips: {{path: x, type: mor, record_key: [id], source: y, schedules: {{{schedule}}}}}\n"
    )
    with pytest.raises(InvalidRequest) as caught:
        load_tables(file)
    assert f"{file} is not valid:\n  tables.trips.schedules: {says}" in str(caught.value)


UPKEEP = """
tables:
  trips:
    path: data/trips
    record_key: [id]
    clean: {policy: hours, retain: 48}
    archive: {keep_min: 5, keep_max: 9}
    schedules: SCHEDULES
"""


@pytest.mark.parametrize(
    ("schedules", "recorded", "runs"),
    [
        ("{}", ("clean", "archive"), ("clean", "archive")),
        ("{}", (), ()),
        ("{verify: '@daily'}", ("clean", "archive"), ("clean", "archive")),
        ("{clean: '@daily'}", ("clean", "archive"), ()),
        ("{archive: '@daily'}", ("clean", "archive"), ("clean",)),
    ],
)
def test_a_schedule_takes_a_service_from_the_writers(
    folder: Path, schedules: str, recorded: tuple[str, ...], runs: tuple[str, ...]
) -> None:
    write(folder, UPKEEP.replace("SCHEDULES", schedules))
    options = OpenOptions(**locate_table("trips").options())
    assert options.upkeep.automatic(recorded) == runs
    assert (options.clean.policy, options.clean.retain, options.archive.keep_max) == ("hours", 48, 9)


def test_what_is_declared_of_cleans_fills_in_a_request(folder: Path) -> None:
    write(folder, UPKEEP.replace("SCHEDULES", "{}"))
    options = OpenOptions(**locate_table("trips").options())

    def filled(**given: object) -> tuple[str, int | None]:
        found = options.clean.completed(CleanRequest(**given))
        return found.policy, found.retain

    assert filled() == ("hours", 48)
    assert filled(retain=3) == ("hours", 3)
    assert filled(policy="commits") == ("commits", None)
    assert filled(policy="hours") == ("hours", 48)
    kept = options.archive.completed(ArchiveRequest(keep_max=7))
    assert (kept.keep_min, kept.keep_max) == (5, 7)


def test_a_setting_wins_over_record_and_schedule(folder: Path) -> None:
    declared = UPKEEP.replace("retain: 48", "retain: 48, automatic: true").replace(
        "keep_max: 9", "keep_max: 9, automatic: false"
    )
    write(folder, declared.replace("SCHEDULES", "{clean: '@daily'}"))
    assert OpenOptions(**locate_table("trips").options()).upkeep.automatic(()) == ("clean",)
    assert OpenOptions(**locate_table("trips").options()).upkeep.automatic(("clean", "archive")) == ("clean",)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("clean: {policy: days}", "clean.policy"),
        ("clean: {retain: 0}", "clean.retain"),
        ("clean: {automatic: sometimes}", "clean.automatic"),
        ("archive: {keep_min: 9, keep_max: 5}", "keep_min is 9"),
        ("archive: {keep: 5}", "archive.keep"),
    ],
)
def test_wrong_settings_of_cleans_and_archives_are_named(folder: Path, setting: str, says: str) -> None:
    write(folder, f"tables: {{trips: {{path: trips, record_key: [id], {setting}}}}}")
    with pytest.raises(InvalidRequest, match=says):
        load_tables()
