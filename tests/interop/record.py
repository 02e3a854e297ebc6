"""Records what Apache Hudi answers about the fixtures, and prints what changed since the last record.

Usage: python -m tests.interop.record [FIXTURE...]

It asks the release that `bin/bootstrap` names; its answers replace those of another release.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tests.interop.answers import Answer, Question, Recorded, Refused, files, questions
from tests.interop.apache_hudi import RELEASE, HudiPeer
from tests.interop.compare import assert_same_rows
from tests.interop.expected import COPY_ON_WRITE, FIXTURES, MERGE_ON_READ


def unpack(name: str, folder: Path) -> Path:
    """Unpack a fixture below a folder; returns its base directory."""
    with zipfile.ZipFile(FIXTURES / f"{name}.zip") as archive:
        archive.extractall(folder / name, [each for each in archive.namelist() if not each.startswith("__MACOSX/")])
    (base,) = (folder / name).iterdir()
    return base


def ask(question: Question, peer: HudiPeer, path: Path) -> Answer:
    """Ask Apache Hudi; a refusal is an answer too."""
    try:
        return question.ask(peer, path)
    except Refused as refused:
        return refused


def difference(before: Answer | None, now: Answer) -> str | None:
    """Return how two answers to one question differ, or None."""
    if before is None:
        return "was not recorded"
    if isinstance(before, Refused) or isinstance(now, Refused):
        return None if str(before) == str(now) else f"before: {words(before)}\n  now: {words(now)}"
    try:
        assert_same_rows(before, now, with_meta=True)
    except AssertionError as error:
        return str(error)
    return None


def words(answer: Answer) -> str:
    """Return an answer in one line."""
    return f"refused: {answer}" if isinstance(answer, Refused) else f"{answer.num_rows} rows"


def record(name: str, path: Path, peer: HudiPeer) -> Iterator[str]:
    """Ask every question about a fixture and write the answers; yields a line for each that changed."""
    before = Recorded.load(name, stale=True).answers
    now = {str(question): ask(question, peer, path) for question in sorted(questions(name, path), key=str)}
    Recorded(name, now).save()
    for text, answer in now.items():
        if changed := difference(before.get(text), answer):
            yield f"{name}: {text}: {changed}"
    for text in before.keys() - now.keys():
        yield f"{name}: {text}: is not asked any more"


def main(names: list[str]) -> None:
    """Record the answers about some fixtures, or all."""
    changed = 0
    with tempfile.TemporaryDirectory() as folder, HudiPeer() as peer:
        for name in names or [*COPY_ON_WRITE, *MERGE_ON_READ]:
            for line in record(name, unpack(name, Path(folder)), peer):
                print(line)
                changed += 1
            kept = sum(file.stat().st_size for file in files(name))
            print(f"{name}: {len(Recorded.load(name).answers)} answers of Apache Hudi {RELEASE} in {kept:,} bytes")
    print(f"{changed} answers changed")


if __name__ == "__main__":
    main(sys.argv[1:])
