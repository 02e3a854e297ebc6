"""Goal: which pairs of writes conflict, told from what their commits say; the relation does not depend on who came first."""

from __future__ import annotations

import itertools

from hudi_ops.timeline.content.commit_metadata import CommitMetadata, WriteStat
from hudi_ops.timeline.content.footprint import Footprint, footprint_of

NAMES = {0: "00000000-aaaa", 1: "00000001-bbbb", 2: "00000001-cccc"}


def wrote(operation: str, *files: tuple[str, int], replaced: dict[str, tuple[str, ...]] | None = None) -> Footprint:
    stats = tuple(WriteStat(file_id=NAMES[n], path=f"{p}/{n}", partition_path=p) for p, n in files)
    return footprint_of(CommitMetadata(operation=operation, stats=stats, replaced=replaced))


WRITES = {
    "p/0": wrote("UPSERT", ("p", 0)),
    "p/1": wrote("UPSERT", ("p", 1)),
    "q/0": wrote("BULK_INSERT", ("q", 0)),
    "p": wrote("INSERT_OVERWRITE", ("p", 2), replaced={"p": (NAMES[0],)}),
    "q": wrote("INSERT_OVERWRITE", ("q", 2), replaced={"q": ()}),
    "-p": wrote("DELETE_PARTITION", replaced={"p": (NAMES[0], NAMES[1])}),
    "-r": wrote("DELETE_PARTITION", replaced={"r": ()}),
    "all": wrote("INSERT_OVERWRITE_TABLE", ("p", 2), replaced={}),
    "-all": wrote("INSERT_OVERWRITE_TABLE", replaced={}),
    "nothing": wrote("UPSERT"),
    "cluster p/0": wrote("CLUSTER", replaced={"p": (NAMES[0],)}),
}
CONFLICTS = {
    frozenset(pair)
    for pair in [
        ("p/0", "p"), ("p/0", "-p"), ("p/0", "all"), ("p/0", "-all"), ("p/0", "cluster p/0"),
        ("p/1", "p"), ("p/1", "-p"), ("p/1", "all"), ("p/1", "-all"),
        ("q/0", "q"), ("q/0", "all"), ("q/0", "-all"),
        ("p", "-p"), ("p", "all"), ("p", "-all"), ("p", "cluster p/0"),
        ("q", "all"), ("q", "-all"), ("-p", "all"), ("-p", "-all"), ("-p", "cluster p/0"),
        ("-r", "all"), ("-r", "-all"), ("all", "-all"), ("all", "cluster p/0"), ("-all", "cluster p/0"),
    ]
}  # fmt: skip


def test_pairs() -> None:
    pairs = list(itertools.permutations(WRITES, 2))
    found = {pair: bool(WRITES[pair[0]].overlap(WRITES[pair[1]])) for pair in pairs}
    assert [pair for pair in pairs if found[pair] != (frozenset(pair) in CONFLICTS)] == []


def test_a_write_conflicts_with_its_equal_unless_it_touched_nothing() -> None:
    assert {one for one, write in WRITES.items() if not write.overlap(write)} == {"nothing"}


def test_file_groups_are_named_by_the_digits_of_their_bucket() -> None:
    made = Footprint.of_groups([("p0", "00000003-one-0"), ("p0", "00000003-two-0"), ("", "00000003-one-0")])
    assert made == Footprint(frozenset({("p0", "00000003"), ("", "00000003")}))


def test_what_is_shared_is_said_for_people() -> None:
    assert WRITES["p/0"].overlap(WRITES["p"]) == ("partition p", "p/00000000")
    assert WRITES["all"].overlap(WRITES["-all"])[0] == "the whole table"
    source = Footprint(sources=frozenset({"s"}))
    assert source.overlap(source) == ("source s",)
    assert source.overlap(WRITES["all"]) == ()
