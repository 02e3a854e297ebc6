"""The error tree: what a caller, a shell and another process learn from each class.

Goal: an error keeps everything it knows on its way through a process border, and its exit code tells a script what to
do next. Method: every class of the tree, found by walking it, built with every keyword.
"""

from __future__ import annotations

import ast
import copy
import json
import pickle
from pathlib import Path

import pytest

from hudi_ops import errors

ROOT = Path(__file__).resolve().parents[2]

# One row for each thing that a caller can do next, with the exit code that says so.
EXIT_CODES = {
    "InvalidRequest": 2,
    "Unsupported": 3,
    "Conflict": 10,
    "Busy": 11,
    "Cancelled": 12,
    "Unavailable": 13,
    "OutcomeUnknown": 14,
    "Corrupt": 20,
    "Internal": 70,
}
RETRYABLE = {"Conflict", "Busy", "Unavailable", "OutcomeUnknown"}
KEYWORDS = {
    "table": "flights",
    "instant": "20240102030405006",
    "expected": "9 columns",
    "found": "8 columns",
    "next_step": "name the missing column",
    "file": "a/b.parquet",
    "row": 17,
    "columns": ["x", "y"],
}


def subtree(cls: type[errors.HudiOpsError]) -> list[type[errors.HudiOpsError]]:
    return [cls, *(below for child in cls.__subclasses__() for below in subtree(child))]


CLASSES = [cls for cls in subtree(errors.HudiOpsError) if cls.__module__ == "hudi_ops.errors"]
every_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


def test_each_next_step_has_its_own_exit_code():
    codes = {name: getattr(errors, name).exit_code for name in EXIT_CODES}
    assert codes == EXIT_CODES
    assert len(set(codes.values())) == len(codes)


def test_no_class_has_an_exit_code_of_its_own():
    assert {cls.__name__: cls.exit_code for cls in CLASSES if cls.exit_code not in EXIT_CODES.values()} == {}


def test_only_what_may_succeed_next_time_is_retryable():
    assert {name for name in EXIT_CODES if getattr(errors, name).retryable} == RETRYABLE


@every_class
def test_survives_pickle_with_everything_it_knows(cls: type[errors.HudiOpsError]):
    error = cls("The file has no column z.", **KEYWORDS)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(error, protocol))
        assert type(again) is cls
        assert (again.what, str(again), again.details) == (error.what, str(error), error.details)
        assert again.as_dict() == error.as_dict()


@every_class
def test_survives_pickle_after_its_place_was_filled_in(cls: type[errors.HudiOpsError]):
    error = cls("The file has no column z.").at(table="flights", instant="20240102030405006")
    again = pickle.loads(pickle.dumps(error))
    assert (again.table, again.instant) == ("flights", "20240102030405006")
    assert str(copy.copy(error)) == str(again)


@every_class
def test_says_what_happened_where_and_what_to_do(cls: type[errors.HudiOpsError]):
    text = str(cls("The file has no column z.", **KEYWORDS))
    assert text.startswith("The file has no column z.")
    for fact in ("flights", "20240102030405006", "expected 9 columns", "found 8 columns"):
        assert fact in text
    assert text.splitlines()[-1].strip() == "Next: name the missing column"


@every_class
def test_is_plain_values_for_machines(cls: type[errors.HudiOpsError]):
    facts = json.loads(json.dumps(cls("The file has no column z.", **KEYWORDS).as_dict()))
    assert facts["error"] == cls.__name__
    assert facts["exit_code"] == cls.exit_code
    assert facts.items() >= KEYWORDS.items()


def test_a_known_place_is_not_overwritten():
    error = errors.Corrupt("The footer is cut off.", table="inner").at(table="outer", instant="20240102030405006")
    assert (error.table, error.instant) == ("inner", "20240102030405006")


def test_the_tree_grows_in_one_file_only():
    names = {cls.__name__ for cls in CLASSES}
    offenders = [
        f"{file.relative_to(ROOT)}:{node.lineno} {node.name}"
        for file in sorted((ROOT / "hudi_ops").rglob("*.py"))
        if file.name != "errors.py"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and names & {ast.unparse(base).rsplit(".", 1)[-1] for base in node.bases}
    ]
    assert offenders == []
