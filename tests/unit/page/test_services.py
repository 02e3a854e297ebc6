"""The words of commands become the configuration of DAG runs that do the same, or they are refused."""

from __future__ import annotations

import ast
import json
import shlex
from pathlib import Path
from typing import Any

import jinja2
import jsonschema
import pytest

from hudi_ops.config.doors import form_arguments, form_fields, other_arguments, request_of_arguments
from hudi_ops.config.requests import CompactionRequest, ResizeRequest
from hudi_ops.config.tables_file import TableDeclaration
from hudi_ops.errors import InvalidRequest
from hudi_ops.page.services import BY_COMMAND, SERVICES, dag_ids, menu, service_of, words_of
from hudi_ops.page.work.command import Command, command_of, completed, conf_of

ROOT = Path(__file__).parents[3]
ADVICE = [
    *sorted(ROOT.glob("hudi_ops/health/**/*.py")),
    ROOT / "hudi_ops/services/cancel/endings.py",
    ROOT / "hudi_ops/services/cancel/plans.py",
    ROOT / "hudi_ops/services/indexing/dropped.py",
    ROOT / "hudi_ops/services/recovery/ended_writers.py",
]
"""Files that make the words of commands that checks advise."""

RUN = [
    "compact t",
    "compact t --threshold 1",
    "compact t --starvation 'wait 60s after 3'",
    "cluster t",
    "cluster t --sort-by origin,dest --order z-order --starvation 'wait 60s after 3'",
    "resize t",
    "resize t --split-size 1000000 --merge-size 250000",
    "resize t --merge-size 0 --max-partitions 7 --max-bytes 123456789",
    "clean t",
    "archive t",
    "index t run",
    "index t run --rebuild",
    "index t run record_index --rebuild",
    "index t run secondary_index_by_tail=tail --rebuild",
    "recover t",
    "recover t --abandoned",
    "compact t execute",
    "cluster t execute",
    "resize t execute",
    "clean t execute",
    "clean t execute --instant 20261121101500123",
    "index t execute --instant 20261121101500123",
]
"""Commands that checks advise, and that a DAG runs."""

NOT_RUN = [
    "compact t execute --instant 20261121101500123 --abandoned",
    "clean t execute --instant 20261121101500123 --abandoned",
]
"""Commands that checks advise, and that only a shell runs: a form has no field for a statement about another program."""

MORE = [
    "compact t --strategy age --threshold 90s --partition origin=JFK --partition 'origin=L*' --engine spark --max-bytes 5GB",
    "compact t --strategy count --threshold 3 --cancel 'after 6h or 50 instants' --on-overlap cancel",
    "cluster t --sort-by origin --sort-by dest --target-size 1MB --small-file-limit 900kB --rewrite --on-overlap cancel",
    "resize t origin=JFK --partition 'origin=L*' run",
    "clean t --policy versions",
    "clean t --policy hours",
    "clean t --retain 3 --max-files 7 --full",
    "archive t run --keep-min 4 --keep-max 9",
    "index t files column_stats --timeout 1h",
]

DECLARED = {
    "bare": {},
    "settings": {"clean": {"policy": "hours", "retain": 48}, "archive": {"keep_min": 3, "keep_max": 5}},
    "schedules": {
        "clean": {"policy": "versions", "retain": 2},
        "schedules": {
            "compaction": {"schedule": "@hourly", "strategy": "age", "threshold": 60, "memory_bytes": 10**9},
            "clustering": {"schedule": "@daily", "sort_by": ["id", "p"], "group_bytes": 10**9, "rewrite": True},
            "resizing": {
                "schedule": "@daily",
                "split_bytes": 4_000_000,
                "merge_bytes": 0,
                "partitions": ["p=1", "p=2"],
            },
            "clean": {"schedule": "@daily", "policy": "commits", "retain": 5},
            "archive": {"schedule": "@daily", "keep_min": 1},
            "indexing": {"schedule": "@daily", "partitions": ["record_index"], "timeout_s": 60, "on_timeout": "abort"},
        },
    },
}


def declaration(**more: Any) -> TableDeclaration:
    given = {"path": "/t", "record_key": ("id",), "type": "mor", "bucket_engine": "consistent", **more}
    return TableDeclaration.model_validate(json.loads(json.dumps(given)), strict=False)


def read(text: str, declared: TableDeclaration) -> Command:
    return command_of(shlex.split(text), "t", declared)


def sent_by_the_dag(service: str, conf: dict[str, Any], dag_id: str, declared: TableDeclaration) -> list[str]:
    """Arguments that the tasks of a DAG give to the application, by the templates of its form."""
    model = SERVICES[service].request
    rendered = [jinja2.Template(one).render(params=conf) for one in form_arguments(model)]
    schedule = declared.schedules.get(service)
    given = schedule.request if schedule is not None and dag_id != service else {}
    return [*rendered, *other_arguments(model, {**declared.request_fields(service), **given})]


@pytest.mark.parametrize("declared", DECLARED)
def test_a_dag_run_gets_the_request_of_the_command(declared: str):
    table = declaration(**DECLARED[declared])
    for text in [*RUN, *MORE]:
        command = read(text, table)
        assert not command.why_not, text
        conf = conf_of(command, "t", table)
        assert conf is not None, text
        service = command.service
        schema = {"properties": form_fields(service.request), "additionalProperties": False}
        jsonschema.validate(
            {name: value for name, value in json.loads(json.dumps(conf)).items() if name != "table"}, schema
        )
        wanted = completed(command.request, service, table).model_copy(update={"instant": None})
        for dag_id in command.dags:
            made = request_of_arguments(service.request, sent_by_the_dag(service.dag, conf, dag_id, table))
            schedule = table.schedules.get(service.dag) if command.mode == "execute" and dag_id != service.dag else None
            # A plan is executed as it was made, with the memory of the schedule.
            others = {*(schedule.request if schedule is not None else {})} - {*form_fields(service.request)}
            meant = wanted.model_copy(update={name: getattr(made, name) for name in others})
            assert completed(made, service, table) == meant, f"{text} by {dag_id}"


def test_a_bare_command_has_the_options_of_its_schedule():
    table = declaration(**DECLARED["schedules"])
    said = {
        text: read(text, table).text
        for text in ("compact t", "cluster t", "index t", "archive t", "recover t", "compact t execute")
    }
    assert said == {
        "compact t": "hudi-ops compact t --strategy age --threshold 60.000s --memory 1000000000",
        "cluster t": "hudi-ops cluster t --sort-by id,p --group-size 1000000000 --rewrite",
        "index t": "hudi-ops index t run record_index --timeout 60.000s --on-timeout abort",
        "archive t": "hudi-ops archive t --keep-min 1",
        "recover t": "hudi-ops recover t",
        "compact t execute": "hudi-ops compact t execute",
    }


def test_a_command_that_the_form_cannot_say_has_no_run():
    for text in NOT_RUN:
        assert "--abandoned" in read(text, declaration()).why_not
    # A comma separates the paths of a form.
    assert conf_of(read("compact t --partition 'p=a,b'", declaration()), "t", declaration()) is None
    for text in (
        "metadata compact t",
        "alter t --buckets-max 8",
        "rollback t 20261121101500123",
        "index t drop files --yes",
        "",
    ):
        assert service_of(shlex.split(text)) is None


def test_fields_outside_of_the_form_are_left_to_the_dag_of_the_schedule():
    table = declaration(**DECLARED["schedules"])
    assert read("compact t", table).dags == ("compaction__t",)
    assert read("compact t --threshold 1", table).dags == ("compaction",)
    assert read("archive t", table).dags == ("archive__t", "archive")
    assert "--memory 1000000000" in read("compact t", table).text


def test_every_advised_word_is_among_the_compared_commands():
    compared = {word for text in [*RUN, *NOT_RUN] for word in shlex.split(text) if word.startswith("--")}
    commands, options = set(), set()
    for file in ADVICE:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Tuple, ast.List)):
                words = [one.value for one in node.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
                if words[:1] and words[0] in BY_COMMAND:
                    commands.add(words[0])
                options |= {word for word in words if word.startswith("--")}
    others = {"--buckets-max", "--yes", "--force"}  # of alter, restore, index drop, cancel
    assert commands == set(BY_COMMAND)
    assert options - others == compared - {"--split-size", "--sort-by"} | (options & {"--split-size", "--sort-by"})


ATTACKS = [
    "compact other",
    "compact /etc",
    "compact ../t",
    "compact t --tables=/tmp/other.yaml",
    "compact t --accept-future-instants",
    "compact t --dry-run",
    "compact t --json",
    "compact t --verbose",
    "compact t -v",
    "compact t --help",
    "compact t -h",
    "compact t --max-bytes 5 --max-bytes 6",
    "compact t --max-bytes 5 --max-bytes=6",
    "compact t --strategy size --threshold 1 --strategy=age",
    "compact t --partition",
    "compact t --partition ' --dry-run'",
    "compact t --partition s3://me:secret@bucket/p",
    "compact t --memory 1",
    "compact t -- --dry-run",
    "compact t plan",
    "compact t explain",
    "compact -- other run",
    "compact other t",
    "compact --install-completion t",
    "cluster t --group-size 1",
    "resize t --split-point os:system",
    "resize t plan p=1",
    "clean t --file x",
    "clean t --policy hours --policy commits",
    "clean t --policy months",
    "archive t explain",
    "index t show",
    "index t cancel",
    "index t drop --yes",
    "index t run --on-timeout abort",
    "index t rn",
    "recover t --dry-run",
    "recover t t",
    "cancel t 20261121101500123",
    "zookeeper start",
    "read t",
    "compact",
    "",
    "compact t --order none",
    "compact t 'plan\n'",
    "compact t --partition 'a\x00b'",
    f"compact t --partition {'a' * 1001}",
    "compact t " + "--partition a " * 40,
]


def test_words_of_an_attacker_are_refused():
    for text in ATTACKS:
        with pytest.raises(InvalidRequest) as error:
            pytest.fail(f"{text!r} became {command_of(shlex.split(text), 't', declaration())}")
        assert "secret" not in str(error.value), text


def test_the_menu_has_what_fits_the_table():
    names = [one.dag for one in menu({"type": "COPY_ON_WRITE", "index": "simple_bucket"})]
    assert names == ["clustering", "clean", "archive", "indexing", "recover"]
    assert [one.dag for one in menu({})] == list(SERVICES)
    assert dag_ids(SERVICES["clean"], "t") == ("clean__t", "clean")
    assert SERVICES["resizing"].request is ResizeRequest
    assert SERVICES["compaction"].request is CompactionRequest
    assert words_of("hudi-ops compact t --starvation 'wait 60s after 3'")[:2] == ["compact", "t"]
    assert words_of("hudi-ops compact 'flights") == []


def test_each_service_has_a_dag_of_its_name():
    for service in SERVICES:
        assert (ROOT / "dags" / f"{service}.py").is_file()
