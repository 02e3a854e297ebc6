"""Check an answer of a timeline server on columns, before a view is made of it.

The checks find faults: answers that were cut, mixed up, replayed or altered. Each compares the answer with what the caller knows
already, and reads nothing from storage, except that `named` may read the history of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_ops.config.table import TableConfig
from hudi_ops.timeline.active import Timeline
from hudi_ops.timeline.instant import Instant
from hudi_ops.timeline.log.commit_log import POINTER_KEY
from hudi_ops.timeline.names import is_instant
from hudi_ops.timeline.state import CommitReader
from hudi_ops.timeline.writer_times import WriterTimes
from hudi_ops.view.columns.files import ROWS, FileColumns, Flags, none_of
from hudi_ops.view.columns.names import BASE, LOG
from hudi_ops.view.columns.slices import NO_BASE, hidden, newest_slices
from hudi_ops.view.columns.table_view import View
from hudi_ops.view.partitions import is_below_table
from hudi_ops.view.remote.wire import Answer, BadAnswer

STATS_MAX = 4096
"""Largest number of files of a commit whose sizes are compared: the statistics of larger ones are not decoded yet."""


@dataclass(frozen=True)
class Question:
    """What was asked, and what the caller knows.

    Attributes:
        table_id: id of the table in its commit log.
        digest: of the state; see `state_digest`.
        config: the table's settings.
        timeline: the caller's reading of the timeline.
        commits: the commits that the caller has read.
        partitions: sorted paths; None: all.
        is_newest: only files of the newest slices are wanted.
        has_rows: files are wanted; else only the names of partitions.
    """

    table_id: str
    digest: str
    config: TableConfig
    timeline: Timeline
    commits: CommitReader
    partitions: tuple[str, ...] | None = None
    is_newest: bool = False
    has_rows: bool = True


@dataclass(frozen=True)
class Checked:
    """An answer beside its question; its names and sizes are parsed again."""

    question: Question
    answer: Answer

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Partition paths of the answer."""
        return tuple(path for path, _ in self.answer.head.partitions)

    @cached_property
    def files(self) -> FileColumns:
        """Files as their names and sizes tell.

        Raises:
            BadAnswer: the numbers of files do not fit the rows.
        """
        return (
            _parsed(self.answer.head.partitions, self.answer.files) if self.question.has_rows else none_of(self.paths)
        )

    @cached_property
    def ahead(self) -> FileColumns:
        """Files ahead of resizes that are pending for the caller; raise as `files`."""
        found = _parsed(self.answer.head.ahead, self.answer.ahead)
        words, places = found.instants
        writers = [self.question.timeline.find(word) for word in words]
        is_pending = np.array([one is not None and not one.is_completed for one in writers], bool)
        return found.only(is_pending[places]) if found.count else none_of()

    @cached_property
    def view(self) -> View:
        """View of the files at the caller's timeline; raise as `files`."""
        asked = self.question
        replaced = {(path, file_id): by for path, file_id, by in self.answer.head.replaced}
        return View(asked.config, asked.timeline, asked.commits, self.files, replaced, self.ahead)

    @cached_property
    def known(self) -> Mapping[Instant, frozenset[str]]:
        """Paths that completed writes in memory name, in the partitions of the question."""
        asked = self.question
        found = {}
        for instant in asked.timeline.completed_writes:
            if asked.commits.known(asked.timeline, instant) is not None:
                named = asked.commits.files_named(asked.timeline, instant)
                if asked.partitions is not None:
                    named = frozenset(path for path in named if path.rpartition("/")[0] in self._asked)
                found[instant] = named
        return found

    @cached_property
    def _asked(self) -> frozenset[str]:
        return frozenset(self.question.partitions or ())


def _parsed(partitions: Sequence[tuple[str, int]], rows: Sequence[pa.RecordBatch]) -> FileColumns:
    counts = np.array([count for _, count in partitions], np.int64)
    if int(counts.sum()) != sum(batch.num_rows for batch in rows):
        raise BadAnswer("the numbers of files do not fit the rows")
    whole = pa.Table.from_batches(rows, ROWS)
    names, sizes = (whole[name].combine_chunks() for name in ("name", "size"))
    if names.null_count or sizes.null_count:
        raise BadAnswer("a file has no name or no size")
    return FileColumns.of([path for path, _ in partitions], counts, names, sizes)


def checksum(one: Checked) -> str:
    """Compare the checksum."""
    return "" if one.answer.is_whole else "its checksum does not match: bytes were changed"


def table(one: Checked) -> str:
    """Compare the id of the table."""
    found = one.answer.head.table_id
    return "" if found == one.question.table_id else f"it is of table {found!r}, not of {one.question.table_id}"


def state(one: Checked) -> str:
    """Compare the state, and what of it was asked for: files or partitions, all or the newest."""
    head, asked = one.answer.head, one.question
    if (head.digest, head.start) != (asked.digest, asked.timeline.start):
        return f"it is of state {head.digest[:16]!r} from {head.start!r}, not of {asked.digest[:16]}"
    is_other = (head.is_newest, head.has_rows) != (asked.is_newest, asked.has_rows)
    return "it answers another question" if is_other else ""


def partitions(one: Checked) -> str:
    """Compare the partitions with those asked for.

    Of all partitions, those into which commits in memory wrote must be there.
    """
    paths = one.paths
    if list(paths) != sorted(set(paths)):
        return "its partitions are not sorted"
    if not all(map(is_below_table, paths)):
        return "a partition lies outside of the table"
    if one.question.partitions is not None and one.question.partitions != paths:
        return "it is of other partitions"
    if one.question.has_rows:
        return ""
    held = {*paths}
    lacking = (path.rpartition("/")[0] for named in one.known.values() for path in named)
    lost = next((path for path in lacking if path not in held), None)
    return "" if lost is None else f"it lacks partition {lost!r}, into which a commit wrote"


def names(one: Checked) -> str:
    """Parse the name of each file, which lies in its partition, and compare the columns with it."""
    for files, rows in (
        (one.files, one.answer.files),
        (_parsed(one.answer.head.ahead, one.answer.ahead), one.answer.ahead),
    ):
        said = pa.Table.from_batches(rows, ROWS) if one.question.has_rows else ROWS.empty_table()
        if files.count != said.num_rows or pc.any(pc.match_substring_regex(said["name"], "[/\\x00]")).as_py():
            return "a name is that of no data file"
        found = files.rows
        for name in ROWS.names:
            if name != "unread" and not pa.chunked_array([found[name]]).equals(said[name]):
                return f"{name} is not what the names of the files say, or they are not sorted"
        if pc.any(said["unread"]).as_py() or pc.any(pc.less(said["size"], 0)).as_py():
            return "a file has no size, or its commit was not read"
        if (_are_repeated(files)).any():
            return "a file is named twice"
    return ""


def _are_repeated(files: FileColumns) -> Flags:
    """Return the rows that equal the row before."""
    if files.count < 2:
        return np.zeros(files.count, bool)
    same = pc.equal(files.rows["name"][1:], files.rows["name"][:-1]).to_numpy(zero_copy_only=False)
    found: Flags = np.append(False, same & (np.diff(files.partition_of) == 0))
    return found


def instants(one: Checked) -> str:
    """Look up the instants of files, writers and replace commits.

    They have completed on the caller's timeline, or lie below its start.
    """
    words = {*one.files.instants[0]}
    for files in (one.files, one.ahead):
        words |= {*pc.unique(files.rows["author"]).drop_null().to_pylist()}
    words |= {by for _, _, by in one.answer.head.replaced}
    timeline = one.question.timeline
    for word in sorted(words):
        found = timeline.find(word)
        if not (found.is_completed if found is not None else word < timeline.start):
            return f"it has a file of {word}, which has not completed"
    return ""


def named(one: Checked) -> str:
    """Compare files with the commits in memory: none is lacking, too many, or of another size."""
    if not one.question.has_rows:
        return ""
    return _too_many(one) or _of_another_size(one) or _never_replaced(one) or _wrongly_replaced(one) or _lacking(one)


def _too_many(one: Checked) -> str:
    """Return why a file should not be there: its instant does not name it; empty: there is none."""
    files, paths = one.files, None
    words, places = files.instants
    is_plain = files.rows["author"].is_null().to_numpy(zero_copy_only=False)
    for instant, own in one.known.items():
        if instant.time not in words:
            continue
        asked = is_plain & (places == words.index(instant.time))
        if instant.kind != "deltacommit":
            asked &= files.kinds == BASE
        paths = files.paths() if paths is None else paths
        rows = paths.filter(pa.array(asked))
        strange = rows.filter(pc.invert(pc.is_in(rows, pa.array([*own], pa.string()))))
        if len(strange):
            return f"it has {strange[0]}, which {instant.time} does not name"
    return ""


def _of_another_size(one: Checked) -> str:
    asked = one.question
    said = {path: size for instant in one.known for path, size in _sizes(asked, instant)}
    if not said:
        return ""
    places = pc.index_in(pa.array([*said], pa.string()), one.files.paths())
    sizes = one.files.rows["size"].take(places).to_pylist()
    for (path, size), found in zip(said.items(), sizes, strict=True):
        if found is not None and found != size:
            return f"it says that {path} has {found:,} bytes; the file's commit says {size:,}"
    return ""


def _sizes(asked: Question, instant: Instant) -> Iterator[tuple[str, int]]:
    """Yield the sizes of the files of a commit of ours.

    Apache Hudi names some log files several times, with other sizes.
    """
    metadata = asked.commits.known(asked.timeline, instant)
    if metadata is None or POINTER_KEY not in metadata.extra or len(metadata.paths) > STATS_MAX:
        return
    for stat in metadata.stats:
        if f"_{instant.time}." in stat.path and stat.file_size_in_bytes:
            yield stat.path.lstrip("/"), stat.file_size_in_bytes


def _never_replaced(one: Checked) -> str:
    """Return why a group cannot be replaced by what the answer says; empty: all can.

    A replace commit has completed on the caller's timeline, or lies below its start. No file of its groups was begun after it: a
    writer that began before it completed may have written to them.
    """
    timeline, groups = one.question.timeline, one.answer.head.replaced
    keys = [(path, file_id) for path, file_id, _ in groups]
    if keys != sorted(set(keys)):
        return "its replaced groups are not sorted, or one is named twice"
    if strange := {path for path, _ in keys} - {*one.paths}:
        return f"it hides a group of {min(strange)!r}, which is not among its partitions"
    ends: dict[str, str] = {}
    for by in {by for _, _, by in groups}:
        found = timeline.find(by, "replacecommit")
        if not is_instant(by) or not (found.is_completed if found is not None else by < timeline.start):
            return f"it hides groups by {by!r}, which is no completed replace commit"
        ends[by] = found.completion_time if found is not None else by
    if not groups:
        return ""
    own = _columns_of(sorted(path for instant, named in one.known.items() for path in named if _is_of(path, instant)))
    for by, end in ends.items():
        hides = {(path, file_id): by for path, file_id, other in groups if other == by}
        for files in (one.files, own):
            words, places = files.instants
            is_plain = files.rows["author"].is_null().to_numpy(zero_copy_only=False)
            later = np.array([word > end for word in words], bool)[places] & is_plain & hidden(files, hides, None)
            if later.any():
                (file,) = files.data_files(np.flatnonzero(later)[:1])
                return f"it hides {file.path} by {by}, which had completed before the file was begun"
    return ""


def _is_of(path: str, instant: Instant) -> bool:
    return f"_{instant.time}." in path


def _wrongly_replaced(one: Checked) -> str:
    asked = one.question
    known = {instant.time: instant for instant in one.known if instant.kind == "replacecommit"}
    for path, file_id, by in one.answer.head.replaced:
        metadata = asked.commits.known(asked.timeline, known[by]) if by in known else None
        if metadata is not None and (path, file_id) not in metadata.replaced_groups:
            return f"it hides group {file_id} of {path!r}, which {by} did not replace"
    own = {
        group: instant.time
        for instant in known.values()
        if (metadata := asked.commits.known(asked.timeline, instant)) is not None
        for group in metadata.replaced_groups
    }
    shown = hidden(one.files, own, None) & ~hidden(one.files, one.view.replaced, None) if own else np.zeros(0, bool)
    if shown.any():
        (file,) = one.files.data_files(np.flatnonzero(shown)[:1])
        return f"it shows {file.path} of a group that {own[file.partition_path, file.file_id]} replaced"
    return ""


def _lacking(one: Checked) -> str:
    """Return which file of a newest slice is lacking.

    A clean removes only files of older slices, and of replaced groups.
    """
    wanted = [(path, instant) for instant, own in one.known.items() for path in own if _is_of(path, instant)]
    absent = {path for path, _ in wanted} - one.files.has([path for path, _ in wanted])
    if not absent:
        return ""
    files = _columns_of(sorted(absent))
    replaced = hidden(files, one.view.replaced, None)
    slices = newest_slices(one.view)
    bases = slices.bases[slices.bases != NO_BASE]
    held = one.files.data_files(bases)
    base_of = {(file.partition_path, file.file_id): file.instant for file in held}
    asked = one.question
    times = WriterTimes(asked.timeline, asked.config.history_folder, asked.commits.archived)
    candidates = [
        (file, base_of.get((file.partition_path, file.file_id), ""))
        for file, is_replaced, kind in zip(files.data_files(), replaced.tolist(), files.kinds.tolist(), strict=True)
        if not is_replaced and kind in {BASE, LOG}
    ]
    upon = times.lie_upon([(file.instant, base) for file, base in candidates])
    for (file, base), lies in zip(candidates, upon, strict=True):
        if lies if file.is_log else file.instant > base:
            return f"it lacks {file.path}, which {file.instant} wrote"
    return ""


def _columns_of(paths: Sequence[str]) -> FileColumns:
    by_partition: dict[str, list[str]] = {}
    for path in paths:
        partition, _, name = path.rpartition("/")
        by_partition.setdefault(partition, []).append(name)
    found = sorted(by_partition)
    texts = pa.array([name for path in found for name in by_partition[path]], pa.string())
    counts = np.array([len(by_partition[path]) for path in found], np.int64)
    return FileColumns.of(found, counts, texts, pa.array(np.zeros(len(texts), np.int64)))


CHECKS: dict[str, Callable[[Checked], str]] = {
    "checksum": checksum,
    "table": table,
    "state": state,
    "partitions": partitions,
    "names": names,
    "instants": instants,
    "named": named,
}
"""Checks by name, in their order; each returns why an answer may not be used, or an empty text."""


def checked(question: Question, answer: Answer) -> Checked:
    """Return an answer that passed all checks.

    Raises:
        BadAnswer: it did not; says why.
    """
    found = Checked(question, answer)
    for check in CHECKS.values():
        if why := check(found):
            raise BadAnswer(why)
    return found
