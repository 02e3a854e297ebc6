"""What Apache Hudi answers about the fixtures: which questions there are, and its recorded answers to them.

An answer of one release to frozen bytes cannot change, so it is recorded once, by `python -m tests.interop.record`. It counts for
the bundle and for the fixture whose sha256 stand beside it, and for no others.

One fixture has two files in `tests/fixtures/answers`: the JSON file names the rows of each answer by number, the Parquet file holds
the rows, which most answers share.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_ops import Table
from hudi_ops.timeline.active import load_timeline
from hudi_ops.timeline.content.archived import load_history
from hudi_ops.timeline.instant import Instant
from tests.interop.apache_hudi import BUNDLE_SHA256, RELEASE, HudiPeer, HudiPeerError
from tests.interop.expected import FIXTURES, MERGE_ON_READ

ANSWERS = Path(__file__).resolve().parents[1] / "fixtures" / "answers"
RECORD = "python -m tests.interop.record"
LONG_AGO = "20000101000000000"
READ_OPTIMIZED = {"hoodie.datasource.query.type": "read_optimized"}
RESIZED = "v9_bucket_consistent_resized"
"""Its changes are not asked: up to an end before the resize, Apache Hudi takes the rows from the groups that it made."""


class MissingAnswer(Exception):
    """No answer of this release to these bytes is recorded; the text says which command records it."""


class Refused(Exception):
    """Apache Hudi answered with an error; the text is its message."""


@dataclass(frozen=True)
class Question:
    """What a reader is asked about a table."""

    query: str
    begin: str | None = None
    end: str | None = None

    def __str__(self) -> str:
        return " ".join([self.query, *(each for each in (self.begin, self.end) if each)])

    def ask(self, peer: HudiPeer, path: Path) -> pa.Table:
        """Ask Apache Hudi.

        Raises:
            Refused: it answered with an error.
        """
        try:
            if self.query == "changes":
                assert self.begin is not None
                return peer.incremental(path, self.begin, self.end)
            return peer.read(path, self.end, options=READ_OPTIMIZED if self.query == "read_optimized" else None)
        except HudiPeerError as error:
            raise Refused(_cause(str(error), path)) from error


SNAPSHOT, OPTIMIZED = Question("snapshot"), Question("read_optimized")


def as_of(instant: str) -> Question:
    """Ask for the table as of a request time."""
    return Question("as_of", end=instant)


def changes(begin: str, end: str | None) -> Question:
    """Ask for the rows of the writes that completed in (begin, end]."""
    return Question("changes", begin, end)


def instants(path: Path) -> list[str]:
    """Return the request times of the completed writes, oldest first."""
    return sorted(one.time for one in writes(path))


def writes(path: Path) -> list[Instant]:
    """Return the completed writes in the order of their completion."""
    table = Table.open(str(path))
    return sorted(
        load_timeline(table.context.storage, table.config).completed_writes, key=lambda one: one.completion_time
    )


def intervals(path: Path) -> list[tuple[str, str | None]]:
    """Return each write alone, from the beginning to each write, and from each write to the end."""
    times = [LONG_AGO, *(one.completion_time for one in writes(path))]
    pairs = {*itertools.pairwise(times), *((LONG_AGO, one) for one in times[1:]), *((one, None) for one in times[:-1])}
    return sorted(pairs, key=str)


def intervals_between_all(path: Path) -> list[tuple[str, str]]:
    """Return all pairs of completion times."""
    return [*itertools.combinations([LONG_AGO, *(one.completion_time for one in writes(path))], 2)]


def archived_completions(path: Path) -> list[str]:
    """Return the completion times of the archived instants."""
    table = Table.open(str(path))
    return [one.completion_time for one in load_history(table.context.storage, table.config).instants]


def questions(name: str, path: Path) -> list[Question]:
    """Return every question about a fixture."""
    found = [SNAPSHOT, *map(as_of, instants(path))]
    if name in MERGE_ON_READ:
        found.append(OPTIMIZED)
    if name != RESIZED:
        found += [changes(*pair) for pair in intervals(path)]
    archived = archived_completions(path)
    found += [changes(begin, None) for begin in dict.fromkeys([*archived[:1], *archived[-1:]])]
    return found


Answer = pa.Table | Refused


@dataclass
class Recorded:
    """The recorded answers about one fixture, by the words of the question."""

    name: str
    answers: dict[str, Answer] = field(default_factory=dict)

    @classmethod
    def load(cls, name: str, *, stale: bool = False) -> Recorded:
        """Read the answers; none unless release, bundle and fixture are those that were asked, or `stale` ones will do."""
        index, rows = files(name)
        if not index.exists():
            return cls(name)
        content = json.loads(index.read_text(encoding="utf-8"))
        if content["of"] != identity(name) and not stale:
            return cls(name)
        held = pq.read_table(rows)
        answers: dict[str, Answer] = {
            text: held.take(pa.array(numbers, pa.int64())) for text, numbers in content["rows"].items()
        }
        answers |= {text: Refused(why) for text, why in content["refused"].items()}
        return cls(name, dict(sorted(answers.items())))

    def save(self) -> None:
        """Write the answers, each row once."""
        tables = {text: one for text, one in self.answers.items() if isinstance(one, pa.Table)}
        schema = next(iter(tables.values())).schema.remove_metadata()
        numbers: dict[str, int] = {}
        kept: list[dict[str, Any]] = []
        rows: dict[str, list[int]] = {}
        for text, table in tables.items():
            assert table.schema.remove_metadata() == schema, f"{self.name}: {text} has other columns than its snapshot"
            rows[text] = []
            for row in table.to_pylist():
                number = numbers.setdefault(repr(row), len(numbers))
                if number == len(kept):
                    kept.append(row)
                rows[text].append(number)
        refused = {text: str(one) for text, one in self.answers.items() if isinstance(one, Refused)}
        index, data = files(self.name)
        index.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"  {json.dumps(text)}: {json.dumps(one)}" for text, one in rows.items()]
        index.write_text(
            f'{{"of": {json.dumps(identity(self.name))},\n "refused": {json.dumps(refused)},\n "rows": {{\n'
            + ",\n".join(lines)
            + "\n}}\n",
            encoding="utf-8",
        )
        pq.write_table(pa.Table.from_pylist(kept, schema), data, compression="zstd", write_statistics=False)


def files(name: str) -> tuple[Path, Path]:
    """Return the files of a fixture's answers: which rows each answer has, and the rows."""
    return ANSWERS / f"{name}.json", ANSWERS / f"{name}.parquet"


def identity(name: str) -> dict[str, str]:
    """Return what an answer depends on: the release with the sha256 of its bundle, and that of the fixture."""
    fixture = hashlib.sha256((FIXTURES / f"{name}.zip").read_bytes()).hexdigest()
    return {"release": RELEASE, "bundle": BUNDLE_SHA256, "fixture": fixture}


class Answers:
    """The recorded answers about all fixtures.

    Args:
        base_directory: of an unpacked fixture.
        peer: returns Apache Hudi, which is asked what is not recorded; None: nothing is asked.
    """

    def __init__(self, base_directory: Callable[[str], Path], peer: Callable[[], HudiPeer] | None) -> None:
        self._base_directory = base_directory
        self._peer = peer
        self._recorded: dict[str, Recorded] = {}
        self.unrecorded: list[str] = []
        """What Apache Hudi was asked since the last look."""

    def __call__(self, name: str, question: Question) -> pa.Table:
        """Return the rows that Apache Hudi answers.

        Raises:
            Refused: it answered with an error.
            MissingAnswer: the answer is not recorded, and it is not to be asked.
        """
        if name not in self._recorded:
            self._recorded[name] = Recorded.load(name)
        answer = self._recorded[name].answers.get(str(question))
        if answer is None:
            self.unrecorded.append(f"{name}: {question}")
            if self._peer is None:
                raise MissingAnswer(unrecorded(self.unrecorded))
            return question.ask(self._peer(), self._base_directory(name))
        if isinstance(answer, Refused):
            raise answer
        return answer


def unrecorded(asked: list[str]) -> str:
    """Return what to say when answers are missing."""
    return f"Apache Hudi {RELEASE} has no recorded answer to {', '.join(asked)}\n  Next: {RECORD}, and commit what it writes"


def _cause(message: str, path: Path) -> str:
    """Return the first line of an error's last cause, without what changes from run to run."""
    causes = [line for line in message.splitlines() if not line.startswith("  logged ")]
    last = [line for line in causes if "caused by " in line][-1:] or causes[:1]
    return last[0].rpartition("caused by ")[2].replace(str(path), "TABLE").strip()
