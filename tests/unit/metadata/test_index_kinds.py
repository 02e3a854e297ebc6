"""The conformance suite of index kinds: those of the library, and one that only tests have.

Merged records are judged by what they say, not by their bytes. If files were removed, those of a kind that widens may exclude less
than those of a new build.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any

import pytest

from hudi_ops.errors import Internal
from hudi_ops.files.statistics.statistics import FileStatistics
from hudi_ops.metadata.definitions import Statistics
from hudi_ops.metadata.index_kind import IndexKind, KeysAt, TableChange, TableContent, Terms, WantedFacts
from hudi_ops.metadata.kinds.bloom_filters import BLOOM_FILTERS
from hudi_ops.metadata.kinds.column_stats import COLUMN_STATS
from hudi_ops.metadata.kinds.files import FILES
from hudi_ops.metadata.kinds.partition_stats import PARTITION_STATS
from hudi_ops.metadata.kinds.record_index import RECORD_INDEX
from hudi_ops.metadata.kinds.registry import kind_of, kinds_of, register, wanted_by
from hudi_ops.metadata.reader.merge import merge
from hudi_ops.metadata.records.bloom_filters import decoded_filters
from hudi_ops.metadata.records.file_lists import listed_files
from hudi_ops.metadata.records.partitions import MetadataPartition, group_id, group_numbers, is_kept
from hudi_ops.metadata.records.record_index import decoded_locations
from hudi_ops.metadata.records.records import Records
from hudi_ops.metadata.records.stored_ranges import StoredRanges
from hudi_ops.metadata.records.values import types_and_fields
from hudi_ops.metadata.writer.building import Building, group_count
from tests.bounds import bound
from tests.unit.metadata.counts_kind import COUNTS, decoded_counts
from tests.unit.metadata.table_histories import SECONDARY, TYPES, History, Moment, change_between

Said = Mapping[Any, Any]
SEEDS = range(bound(8, 20, 400))
STEPS = 8


@dataclass(frozen=True)
class Bounds:
    """What readers take from a range: its ends, whether it has nulls, and whether it has other values."""

    least: Any
    greatest: Any
    has_nulls: bool
    has_values: bool

    def covers(self, other: Bounds) -> bool:
        """Whether it excludes nothing that the other does not exclude."""
        has_ends = not other.has_values or (self.least <= other.least and self.greatest >= other.greatest)
        return self.has_nulls >= other.has_nulls and self.has_values >= other.has_values and has_ends


def _files(records: Records) -> Said:
    return {(path, name): size for path, held in listed_files(records, "a test").items() for name, size in held.items()}


def _ranges(records: Records) -> Said:
    stored = StoredRanges.read(records, "a test")
    assert not stored.is_deleted.any()
    return {
        (column, row["name"]): Bounds(row["least"], row["greatest"], row["nulls"] > 0, row["values"] > row["nulls"])
        for column, kind in TYPES.items()
        for row in stored.of_column(column, kind).to_pylist()
    }


def _filters(records: Records) -> Said:
    # Not their timestamp: it is that of the write, or of the build.
    return {row["key"]: row["filter"] for row in decoded_filters(records, "a test").to_pylist()}


def _locations(records: Records) -> Said:
    # Not their moment: a key keeps that of the write which put it into the group, a build sees that of the newest base file.
    rows = decoded_locations(records, "a test").to_pylist()
    return {row["key"]: (row["partition_path"], row["file_id"]) for row in rows}


def _entries(records: Records) -> Said:
    _, structs = types_and_fields(SECONDARY, records.decoded().values, records.schema, "a test")
    return dict(zip(records.keys.to_pylist(), structs.field("isDeleted").to_pylist(), strict=True))


SAID: Mapping[str, Callable[[Records], Said]] = {
    FILES.name: _files,
    COLUMN_STATS.name: _ranges,
    PARTITION_STATS.name: _ranges,
    BLOOM_FILTERS.name: _filters,
    RECORD_INDEX.name: _locations,
    COUNTS.name: decoded_counts,
    SECONDARY: _entries,
}
KINDS = kinds_of(SAID)
each_kind = pytest.mark.parametrize("kind", KINDS, ids=[str(kind.name) for kind in KINDS])


def terms_of(seed: int) -> Terms:
    version = (8, 9)[seed % 2]
    return Terms(version, "20300317174640000", Statistics(TYPES, 1 if version == 8 else 2))


def said(records: Records) -> Said:
    return SAID[records.partition](records)


def upon(terms: Terms, *records: Records) -> Records:
    """Records merged, the oldest first."""
    return reduce(lambda older, newer: merge(older, newer, version=terms.version), records)


def whole(kind: IndexKind, moment: Moment, terms: Terms) -> Records:
    return kind.whole(moment.content(), terms)


def folded(kind: IndexKind, moments: list[Moment], terms: Terms) -> Records:
    """The records of the first moment, and of each change since."""
    changes = [change_between(*pair) for pair in pairwise(moments)]
    return upon(terms, whole(kind, moments[0], terms), *(kind.changed(change, terms) for change in changes))


def assert_holds(kind: IndexKind, found: Records, expected: Records, *, has_shrunk: bool) -> None:
    """Records say of a table what those of a build say; of one that has shrunk, a kind that widens covers it."""
    mine, others = said(found), said(expected)
    if not (kind.widens and has_shrunk):
        assert mine == others
        return
    assert mine.keys() >= others.keys()
    assert [key for key, held in others.items() if not mine[key].covers(held)] == []


def has_shrunk(moments: list[Moment]) -> bool:
    return any(before.facts.keys() - after.facts.keys() for before, after in pairwise(moments))


@each_kind
def test_changes_upon_an_empty_table_say_what_a_build_says(kind: IndexKind) -> None:
    for seed in SEEDS:
        terms, moments = terms_of(seed), History(seed).moments(STEPS)
        assert_holds(
            kind, folded(kind, moments, terms), whole(kind, moments[-1], terms), has_shrunk=has_shrunk(moments)
        )


@each_kind
def test_a_change_over_several_steps_says_what_its_steps_say(kind: IndexKind) -> None:
    for seed in SEEDS:
        terms, moments = terms_of(seed), History(seed).moments(STEPS)
        begun = moments[STEPS // 2]
        at_once = folded(kind, [begun, moments[-1]], terms)
        assert_holds(kind, at_once, whole(kind, moments[-1], terms), has_shrunk=has_shrunk([begun, moments[-1]]))


@each_kind
def test_a_change_may_be_repeated(kind: IndexKind) -> None:
    for seed in SEEDS:
        terms, moments = terms_of(seed), History(seed).moments(STEPS)
        change = kind.changed(change_between(moments[1], moments[-1]), terms)
        once = upon(terms, whole(kind, moments[1], terms), change)
        assert said(upon(terms, once, change)) == said(once)


@each_kind
@pytest.mark.parametrize("step", ["write", "replace"])
def test_a_write_upon_a_table_says_what_a_build_says_afterwards(kind: IndexKind, step: str) -> None:
    for seed in SEEDS:
        terms, history = terms_of(seed), History(seed)
        before = history.moments(STEPS)[-1]
        after, written = getattr(history, step)(before)
        found = upon(terms, whole(kind, before, terms), kind.of_write(written, terms))
        assert_holds(kind, found, whole(kind, after, terms), has_shrunk=False)


@each_kind
def test_removed_files_leave_what_a_build_says_without_them(kind: IndexKind) -> None:
    for seed in SEEDS:
        terms, before = terms_of(seed), History(seed).moments(STEPS)[-1]
        after, gone = (
            before.without(before.superseded),
            change_between(before, before.without(before.superseded)).removed,
        )
        found = whole(kind, before, terms)
        if kind.removed is not None:
            found = upon(terms, found, kind.removed(gone, terms))
        assert_holds(kind, found, whole(kind, after, terms), has_shrunk=bool(gone))


@each_kind
def test_a_table_without_files_has_no_record_that_counts(kind: IndexKind) -> None:
    for seed in SEEDS:
        terms, moments = terms_of(seed), History(seed).moments(STEPS)
        full, none = moments[-1], moments[-1].emptied()
        found = upon(terms, folded(kind, moments, terms), kind.changed(change_between(full, none), terms))
        assert said(whole(kind, full, terms))
        assert said(whole(kind, none, terms)) == {}
        # Ranges of removed files stay where they can only be widened: they exclude nothing wrongly.
        assert said(found) == (said(folded(kind, moments, terms)) if kind.widens else {})


@each_kind
def test_every_record_has_one_of_the_groups(kind: IndexKind) -> None:
    for seed in SEEDS:
        terms, moments = terms_of(seed), History(seed).moments(STEPS)
        records = whole(kind, moments[-1], terms)
        groups = kind.groups(len(records.keys))
        again = whole(kind, moments[-1], terms)
        parts, others = records.by_group(groups), again.by_group(kind.groups(len(again.keys)))
        assert {number: part.keys for number, part in parts.items()} == {
            number: part.keys for number, part in others.items()
        }
        assert parts.keys() <= set(range(groups))
        assert sorted(key for part in parts.values() for key in part.keys.to_pylist()) == sorted(
            records.keys.to_pylist()
        )
        for number, part in parts.items():
            alone = [
                int(group_numbers(part.keys.slice(at, 1), groups, kind.name, terms.version)[0])
                for at in range(len(part.keys))
            ]
            assert set(alone) == {number}


@each_kind
def test_groups_have_names_and_grow_with_the_records(kind: IndexKind) -> None:
    counts = [kind.groups(records) for records in (0, 1, 10**6, 10**9, 10**12)]
    assert counts == sorted(counts)
    assert counts[0] == kind.form.groups == group_count(kind.name, 0) > 0
    names = [group_id(kind.name, number) for number in range(counts[-1])]
    assert len(set(names)) == counts[-1]
    assert all(name.startswith(kind.form.prefix) for name in names)


def test_only_a_record_index_has_more_groups_with_more_records() -> None:
    assert {kind.name for kind in KINDS if kind.groups(10**9) > kind.groups(0)} == {"record_index"}


@each_kind
def test_a_kind_needs_no_facts_but_those_that_it_names(kind: IndexKind) -> None:
    for seed in SEEDS:
        terms, history = terms_of(seed), History(seed)
        moments = history.moments(STEPS)
        (_, written), content, change = (
            history.write(moments[-1]),
            moments[-1].content(),
            change_between(*moments[-3:-1]),
        )
        told = replace(written, facts=[only(fact, kind.facts) for fact in written.facts])
        if not kind.facts.keys:
            told = replace(told, hidden=None)
        if not kind.facts.entries:
            told = replace(told, entries={})
        for made, least in (
            (kind.of_write(written, terms), kind.of_write(told, terms)),
            (kind.whole(content, terms), kind.whole(least_content(content, kind.facts), terms)),
            (kind.changed(change, terms), kind.changed(least_change(change, kind.facts), terms)),
        ):
            assert (made.keys, made.decoded().values, made.deletes) == (
                least.keys,
                least.decoded().values,
                least.deletes,
            )


def only(fact: FileStatistics, wanted: WantedFacts) -> FileStatistics:
    """A file's facts as far as they are wanted."""
    return replace(
        fact,
        ranges=fact.ranges if wanted.ranges else (),
        bloom=fact.bloom if wanted.bloom else None,
        added=fact.added if wanted.keys else None,
        removed=fact.removed if wanted.keys else None,
    )


def least_content(content: TableContent, wanted: WantedFacts) -> TableContent:
    facts = [only(fact, wanted) for fact in content.facts]
    return replace(content, facts=facts, keys=[least_keys(at, wanted) for at in content.keys])


def least_keys(at: KeysAt, wanted: WantedFacts) -> KeysAt:
    """Keys and entries as far as they are wanted."""
    return replace(at, keys=at.keys if wanted.keys else at.keys[:0], entries=at.entries if wanted.entries else {})


def least_change(change: TableChange, wanted: WantedFacts) -> TableChange:
    facts = [only(fact, wanted) for fact in change.facts]
    gone = change.gone if wanted.keys else change.gone[:0]
    entries = change.gone_entries if wanted.entries else {}
    keys = [least_keys(at, wanted) for at in change.keys]
    return replace(change, facts=facts, keys=keys, gone=gone, gone_entries=entries)


def test_histories_have_each_kind_of_step() -> None:
    histories = [History(seed).moments(STEPS) for seed in SEEDS]
    pairs = [pair for moments in histories for pair in pairwise(moments)]
    changes = [change_between(*pair) for pair in pairs]
    keys = [{key for at in change.keys for key in at.keys.to_pylist()} for change in changes]
    met = {
        "removed files": sum(bool(change.removed) for change in changes),
        "moved keys": sum(
            bool(set(change.gone.to_pylist()) & held) for change, held in zip(changes, keys, strict=True)
        ),
        "gone keys": sum(bool(set(change.gone.to_pylist()) - held) for change, held in zip(changes, keys, strict=True)),
        "hidden groups": sum(bool(before.groups.keys() - after.groups.keys()) for before, after in pairs),
        "log files": sum(fact.is_log for change in changes for fact in change.facts),
    }
    print(met)
    assert {what: count for what, count in met.items() if count < len(SEEDS) // 2} == {}
    assert all(len(moment.keys) == sum(len(group.rows) for group in moment.groups.values()) for _, moment in pairs)


def test_the_library_has_a_kind_for_each_of_its_partitions() -> None:
    assert {kind.name for kind in KINDS} == {*MetadataPartition, "counts", SECONDARY}
    assert [kind_of(name).name for name in MetadataPartition] == list(MetadataPartition)
    assert all(isinstance(kind_of(str(name)).name, MetadataPartition) for name in MetadataPartition)


def test_facts_are_wanted_if_one_kind_wants_them() -> None:
    assert wanted_by(()) == WantedFacts()
    assert wanted_by((FILES, BLOOM_FILTERS, RECORD_INDEX)) == WantedFacts(bloom=True, keys=True)
    assert wanted_by((PARTITION_STATS, BLOOM_FILTERS)) == WantedFacts(ranges=True, bloom=True, added_columns=True)
    request = wanted_by((COUNTS, RECORD_INDEX)).request(["id", "value"])
    assert (request.columns, request.bloom, request.keys) == (("id", "value"), False, True)
    assert not wanted_by((FILES,)).request(["id"])


def test_a_build_makes_the_records_of_a_registered_kind() -> None:
    terms, moments = terms_of(1), History(1).moments(STEPS)
    building = Building(terms.version, terms.instant, terms.statistics)
    content, change = moments[1].content(), change_between(moments[1], moments[-1])
    records = building.whole("counts", content.files, content.facts, content.keys)
    records = upon(terms, records, building.changed("counts", change.files, change.facts, change.keys, change.gone))
    assert decoded_counts(records) == said(whole(COUNTS, moments[-1], terms))
    assert group_count("counts", len(records.keys)) == 3


def test_a_name_that_is_not_registered_has_no_kind() -> None:
    assert is_kept("counts")
    assert is_kept("secondary_index_city")
    for name in ("expr_index_city", "secondary_index_"):
        assert not is_kept(name)
        with pytest.raises(Internal, match=name):
            kind_of(name)


def test_a_name_has_one_form() -> None:
    with pytest.raises(Internal, match="two forms"):
        register(replace(COUNTS, form=replace(FILES.form, name="counts")))
    assert kind_of("counts") is COUNTS
    assert register(COUNTS) is COUNTS
