"""The recorded answers of Apache Hudi: complete, of these bytes, and in the soak what it answers now."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.interop.answers import (
    ANSWERS,
    SNAPSHOT,
    Answers,
    MissingAnswer,
    Recorded,
    Refused,
    as_of,
    changes,
    files,
    identity,
    questions,
)
from tests.interop.apache_hudi import BUNDLE_SHA256, RELEASE, HudiPeer
from tests.interop.expected import COPY_ON_WRITE, MERGE_ON_READ
from tests.interop.record import ask, difference, record

HudiFixtures = Callable[[str], Path]
NAME = "v9_bucket_simple"
RECORDED = Recorded.load(NAME)


@pytest.mark.soak("asks Apache Hudi again what is recorded")
@pytest.mark.parametrize("name", COPY_ON_WRITE + MERGE_ON_READ)
def test_apache_hudi_answers_as_recorded(name: str, apache_hudi: HudiPeer, hudi_fixtures: HudiFixtures) -> None:
    recorded, path = Recorded.load(name).answers, hudi_fixtures(name)
    for question in questions(name, path):
        assert difference(recorded.get(str(question)), ask(question, apache_hudi, path)) is None, question


@pytest.mark.quick
@pytest.mark.parametrize("name", COPY_ON_WRITE + MERGE_ON_READ)
def test_every_question_has_an_answer_and_every_answer_a_question(name: str, hudi_fixtures: HudiFixtures) -> None:
    assert list(Recorded.load(name).answers) == sorted(map(str, questions(name, hudi_fixtures(name))))


@pytest.mark.quick
def test_no_other_files_are_kept() -> None:
    assert set(ANSWERS.iterdir()) == {file for name in COPY_ON_WRITE + MERGE_ON_READ for file in files(name)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tests.interop.answers.ANSWERS", tmp_path)
    return tmp_path


def base_directory(name: str) -> Path:
    raise AssertionError(f"{name} needs not be unpacked")


@pytest.mark.quick
@pytest.mark.parametrize("part", ["release", "bundle", "fixture"])
def test_an_answer_of_other_bytes_does_not_count(part: str, folder: Path) -> None:
    rows = pa.table({"id": ["a", "b"], "v": [[1.5], None]})
    Recorded(NAME, {"snapshot": rows, "as_of 7": rows.slice(1), "as_of 5": Refused("no")}).save()
    answers = Answers(base_directory, None)
    assert answers(NAME, SNAPSHOT).equals(rows)
    assert answers(NAME, as_of("7")).equals(rows.slice(1))
    with pytest.raises(Refused, match="no"):
        answers(NAME, as_of("5"))
    index, _ = files(NAME)
    content = json.loads(index.read_text(encoding="utf-8"))
    assert content["of"] == identity(NAME)
    content["of"][part] = "another"
    index.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(MissingAnswer, match=rf"{RELEASE} has no recorded answer to {NAME}: snapshot\n.*interop.record"):
        Answers(base_directory, None)(NAME, SNAPSHOT)


@pytest.mark.quick
def test_the_bundle_that_is_asked_is_the_one_that_is_recorded() -> None:
    assert identity(NAME)["bundle"] == BUNDLE_SHA256
    assert len(BUNDLE_SHA256) == 64


class Retold(HudiPeer):
    """Answers as recorded, without Java."""

    def __init__(self) -> None:
        self.answers = RECORDED.answers

    def read(self, path: Path | str, as_of: str | None = None, **further: Any) -> pa.Table:
        """Return the recorded rows."""
        return self.answers[f"as_of {as_of}" if as_of else "read_optimized" if further["options"] else "snapshot"]

    def incremental(self, path: Path | str, begin: str = "000", end: str | None = None) -> pa.Table:
        """Return the recorded rows."""
        return self.answers[str(changes(begin, end))]


@pytest.mark.quick
def test_recording_prints_what_changed(folder: Path, hudi_fixtures: HudiFixtures) -> None:
    path, retold = hudi_fixtures(NAME), Retold()
    asked = len(questions(NAME, path))
    assert len([*record(NAME, path, retold)]) == asked
    assert [*record(NAME, path, retold)] == []
    kept = Recorded.load(NAME)
    first = min(text for text in kept.answers if text.startswith("as_of"))
    kept.answers |= {first: Refused("no"), "snapshot": kept.answers["snapshot"].slice(1), "as_of 1": Refused("gone")}
    kept.save()
    changed = [*record(NAME, path, retold)]
    assert [line.split(":")[1].strip() for line in changed] == [first, "snapshot", "as_of 1"]
    assert "before: refused: no" in changed[0]
    assert "1 of them only there" in changed[1]


@pytest.mark.quick
def test_what_is_not_recorded_is_asked_and_not_kept(folder: Path, hudi_fixtures: HudiFixtures) -> None:
    answers = Answers(hudi_fixtures, Retold)
    assert answers(NAME, SNAPSHOT).num_rows > 0
    assert answers.unrecorded == [f"{NAME}: snapshot"]
    assert not list(folder.iterdir())
