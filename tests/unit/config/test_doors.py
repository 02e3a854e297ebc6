"""Goal: all doors of a service offer the fields of its request; the tables in the docs are those that the request prints."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
import typer

from hudi_ops.cli.main import app
from hudi_ops.config.doors import add_arguments, docs_table, form_arguments, form_fields, request_of, schemas
from hudi_ops.config.requests import (
    SERVICES,
    CleanRequest,
    ClusteringRequest,
    CompactionRequest,
    IndexRequest,
    IngestRequest,
    ResizeRequest,
)
from hudi_ops.errors import InvalidRequest

DOCS = Path(__file__).resolve().parents[3] / "docs" / "airflow.md"
MODELS = SERVICES


def parsed(model: Any, *arguments: str) -> Any:
    parser = argparse.ArgumentParser()
    add_arguments(parser, model)
    return request_of(model, parser.parse_args(arguments))


@pytest.mark.parametrize("model", MODELS.values())
def test_an_empty_form_is_the_default_request(model: Any) -> None:
    assert parsed(model) == model() == parsed(model, *(f"{one.partition('=')[0]}=" for one in form_arguments(model)))


def test_arguments_of_an_application_make_a_request() -> None:
    made = parsed(CompactionRequest, "--strategy=age", "--threshold=0", "--partitions=city=x, city=y*", "--max-bytes=9")
    assert (made.threshold, made.partitions, made.max_bytes) == (0.0, ("city=x", "city=y*"), 9)
    made = parsed(IngestRequest, "--evolve", "--retake=a.csv\nb, c.csv", "--retake=d.csv", "--min-age-s=1.5")
    assert (made.evolve, made.retake, made.min_age_s) == (True, ("a.csv", "b, c.csv", "d.csv"), 1.5)
    assert parsed(IndexRequest, "--partitions=files,record_index", "--rebuild=false").partitions == (
        "files",
        "record_index",
    )
    with pytest.raises(InvalidRequest, match="max_files cannot be 'many'"):
        parsed(IngestRequest, "--max-files=many")


@pytest.mark.parametrize("model", MODELS.values())
def test_a_form_has_a_title_a_help_text_and_null_for_what_may_be_empty(model: Any) -> None:
    for name, schema in form_fields(model).items():
        assert schema["title"], name
        assert schema["description"], name
        assert schema["default"] is not None or "null" in schema["type"]
        assert schema["default"] in schema.get("enum", [schema["default"]]), name
    assert all(isinstance(schema["type"], (str, list)) for schema in schemas(model).values())


@pytest.mark.parametrize(
    ("path", "model", "without"),
    [
        (("compact",), CompactionRequest, {"resume"}),
        (("cluster",), ClusteringRequest, {"resume"}),
        (("resize",), ResizeRequest, {"resume"}),
        (("clean",), CleanRequest, {"resume"}),
        (("ingest",), IngestRequest, set()),
        (("index",), IndexRequest, {"resume", "partitions"}),
    ],
)
def test_a_command_has_an_option_for_each_field(path: tuple[str, ...], model: Any, without: set[str]) -> None:
    command: Any = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]
    names = {one.name for one in command.params}
    assert names >= set(model.model_fields) - without


@pytest.mark.parametrize("dag", MODELS)
def test_the_docs_have_the_table_that_the_request_prints(dag: str) -> None:
    assert docs_table(MODELS[dag]) in DOCS.read_text(encoding="utf-8")
