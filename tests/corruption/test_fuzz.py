"""Damaged files of every kind: each parser, and each call on a whole table, gives a value or an error of ours that names the file.

The damage is seeded (`mutate.py`). The plain run draws some of it for each parser and some for whole tables; `HUDI_OPS_SOAK` draws
much more. What was found so far lies in `corpus/findings`, as bytes, and is replayed in every run.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_ops.config.tables_file import load_tables
from hudi_ops.errors import Corrupt, HudiOpsError, Internal, InvalidRequest
from hudi_ops.read.where import parse_where
from hudi_ops.storage.memory import MemoryStorage
from tests.corruption.fuzzed_parsers import parsers, storages
from tests.corruption.fuzzed_tables import TABLES, doors
from tests.corruption.mutate import DEEP, KINDS, SHALLOW, damaged

SOAK = bool(os.environ.get("HUDI_OPS_SOAK"))
OF_A_PARSER = 4_000 if SOAK else 200
OF_A_TABLE = 400 if SOAK else 3
FINDINGS = Path(__file__).parent / "corpus" / "findings"
PARSERS = (
    *(
        "properties",
        "commit",
        "plan",
        "result",
        "slot",
        "lease",
        "markers",
        "lock node",
        "intent",
        "ledger",
        "ledger link",
        "index definitions",
    ),
    *("partition metadata", "delta", "history", "metadata table", "base file", "log file"),
)


def refuse_foreign_errors(name: str, data: bytes, path: str) -> bool:
    """Have a parser read bytes; whether it took them. Errors that are not ours, and broken invariants, are passed on."""
    said: HudiOpsError | None = None
    try:
        parsers()[name].read(data, path)
    except Internal:
        raise
    except HudiOpsError as error:
        said = error
    assert not isinstance(said, Corrupt) or path in str(said), "damage is told without the file"
    return said is None


def test_every_parser_is_fuzzed_from_whole_bytes() -> None:
    assert sorted(PARSERS) == sorted(parsers())
    for name, parser in parsers().items():
        assert parser.whole
        assert all(refuse_foreign_errors(name, data, path) for path, data in parser.whole), name


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_gives_a_value_or_an_error_of_ours(name: str) -> None:
    chance = random.Random(name)
    refused = 0
    for number in range(OF_A_PARSER):
        path, whole = chance.choice(parsers()[name].whole)
        kind, seed = list(KINDS)[number % len(KINDS)], chance.randrange(10**7)
        try:
            refused += not refuse_foreign_errors(name, damaged(whole, kind, seed), path)
        except BaseException as error:
            error.add_note(f"parser {name}, {path}, damaged({kind!r}, {seed})")
            raise
    # A lease, a lock node and an intent that cannot be read say nothing, which is a value.
    assert refused > OF_A_PARSER // 10 or name in {"lease", "markers", "lock node", "intent"}


@pytest.mark.parametrize("file", sorted(FINDINGS.iterdir()), ids=lambda file: file.name)
def test_what_was_found_before_stays_mended(file: Path) -> None:
    name, of_file, _ = file.name.split("--")
    name = name.replace("_", " ")
    path = next(path for path, _ in parsers()[name].whole if path.rpartition("/")[2].startswith(of_file))
    refuse_foreign_errors(name, file.read_bytes(), path)


def by_kind(storage: MemoryStorage) -> list[list[str]]:
    """Paths of a table, those of one folder and one ending together: each kind of file is drawn as often as another."""
    groups: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for info in storage.list():
        *folders, name = info.path.split("/")
        groups[(*folders[:3], name.rpartition(".")[2][:12])].append(info.path)
    return [groups[key] for key in sorted(groups)]


@pytest.mark.parametrize("name", TABLES)
def test_a_call_on_a_damaged_table_gives_an_answer_or_an_error_of_ours(name: str) -> None:
    chance, base = random.Random(name), storages()[name]
    kinds_of_files = by_kind(base)
    for _ in range(OF_A_TABLE):
        path = chance.choice(chance.choice(kinds_of_files))
        kind, seed = chance.choice(list(KINDS)), chance.randrange(10**6)
        storage = base.copy()
        storage.put(path, damaged(base.get(path), kind, seed))
        for door, call in doors(name).items():
            try:
                call(storage.copy())
            except Internal:
                raise
            except HudiOpsError:
                continue
            except BaseException as error:
                error.add_note(f"{door} of {name}, {path}, damaged({kind!r}, {seed})")
                raise


@pytest.mark.parametrize(
    "text",
    ["(" * 60 + "n = 1" + ")" * 60, "NOT " * 2_000 + "n = 1", "n = " + "1 + " * 5_000 + "1", "(" * 50_000],
    ids=["parentheses", "not", "sum", "open"],
)
def test_a_filter_that_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"nested too deeply|does not parse"):
        parse_where(text).bind(pa.schema([("n", pa.int64())]))


def test_some_parentheses_are_fine() -> None:
    assert parse_where("(" * 15 + "n = 1" + ")" * 15).columns == ("n",)


@pytest.mark.parametrize("depth", [SHALLOW, DEEP])
def test_nested_values_in_tables_yaml_are_refused(tmp_path: Path, depth: int) -> None:
    file = tmp_path / "tables.yaml"
    file.write_text("tables: " + "[" * depth + "]" * depth)
    with pytest.raises(InvalidRequest, match=r"tables\.yaml"):
        load_tables(file)
