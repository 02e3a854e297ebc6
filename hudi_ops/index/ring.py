"""Hash ring of one partition: the file group of each hash (docs/format §10.3).

Pure functions. A node holds the hashes above the value of the node before it, up to its own; the first node also holds those above
the last value. So a ring covers [0, 2^31) exactly once if it has a node, and if its values differ and lie in that range.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hudi_ops.errors import Corrupt, Internal, InvalidRequest

HASHES = 1 << 31
"""Number of hashes; the highest is one less."""

TOP = HASHES - 1

INITIAL = "00000000000000"
"""Instant of the first ring of every partition, which counts without any proof."""

RING_BUCKETS_MAX = 46_340
"""Highest number of nodes of an initial ring: with more, Apache Hudi's rule gives two nodes the highest value."""

RING_MOST = 32_768
"""Default of the most nodes of a ring: with buckets of 240 MiB, 7.5 TiB in one partition."""

_NORMAL = "NORMAL"
_CONTROL = re.compile(r"\\u00[0-9a-f]{2}")

_VERIFY = "run `hudi-ops verify`; restore the file from a copy of the table, since without it no key can be located"


@dataclass(frozen=True, eq=False, slots=True)
class Ring:
    """Nodes of one partition at one version, ascending by value.

    Attributes:
        instant: the instant whose completion makes this version count.
        buckets: number of nodes of the initial ring; `len(prefixes)` is the present one.
        seq_no: number of changes since the initial ring.
        values: the highest hash of each node.
        prefixes: of each node the file id of its group, without the last `-0`.
    """

    partition_path: str
    instant: str
    buckets: int
    seq_no: int
    values: npt.NDArray[np.int64]
    prefixes: tuple[str, ...]

    def nodes_of(self, hashes: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Return the number of the node that holds each hash."""
        return nodes_at(self.values, hashes)

    def range_of(self, node: int) -> tuple[int, int]:
        """Return the value before a node's and its own; the last value precedes the first."""
        return int(self.values[node - 1]), int(self.values[node])

    def file_id(self, node: int) -> str:
        """Return the file id of a node's group."""
        return f"{self.prefixes[node]}-0"

    def to_bytes(self) -> bytes:
        """Return the ring file, byte for byte as Apache Hudi writes it."""
        nodes = ", ".join(
            f'{{\n    "value" : {value},\n    "fileIdPrefix" : {_text(prefix)},\n    "tag" : "{_NORMAL}"\n  }}'
            for value, prefix in zip(self.values.tolist(), self.prefixes, strict=True)
        )
        return (
            f'{{\n  "version" : 0,\n  "partitionPath" : {_text(self.partition_path)},\n  "instant" : {_text(self.instant)},\n'
            f'  "numBuckets" : {self.buckets},\n  "seqNo" : {self.seq_no},\n  "nodes" : [ {nodes} ]\n}}'
        ).encode()


@dataclass(frozen=True, slots=True)
class Child:
    """Change of one node in a resize: another file group, or no node without a prefix."""

    value: int
    prefix: str | None

    @property
    def tag(self) -> str:
        """Return Apache Hudi's word for it."""
        return "DELETE" if self.prefix is None else "REPLACE"


class _StoredNode(BaseModel):
    model_config = ConfigDict(strict=True)

    value: Annotated[int, Field(ge=0, le=TOP)]
    prefix: Annotated[str, Field(alias="fileIdPrefix", pattern=r"^[^_/]+$")]
    tag: Annotated[str, Field(pattern=f"^{_NORMAL}$")]


class _StoredRing(BaseModel):
    """Fields of a ring file; those of later releases are ignored, as Apache Hudi does."""

    model_config = ConfigDict(strict=True)

    version: Annotated[int, Field(ge=0, le=0)]
    partition_path: Annotated[str, Field(alias="partitionPath")]
    instant: str
    buckets: Annotated[int, Field(alias="numBuckets", ge=1)]
    seq_no: Annotated[int, Field(alias="seqNo", ge=0)]
    nodes: Annotated[list[_StoredNode], Field(min_length=1)]


def initial_ring(partition_path: str, buckets: int) -> Ring:
    """Return the first ring of a partition, which every writer makes alike.

    Raises:
        InvalidRequest: the number of buckets is out of range.
    """
    if not 1 <= buckets <= RING_BUCKETS_MAX:
        raise InvalidRequest(
            f"a hash ring cannot begin with {buckets} buckets",
            expected=f"1 to {RING_BUCKETS_MAX}",
            found=str(buckets),
            next_step="pass another number of buckets",
        )
    starts = range(0, step_of(buckets) * buckets, step_of(buckets))
    ends = [min(start + step_of(buckets), TOP) for start in starts]
    prefixes = [_named(start, end, partition_path) for start, end in zip(starts, ends, strict=True)]
    return Ring(partition_path, INITIAL, buckets, 0, np.array(ends, np.int64), tuple(prefixes))


def nodes_at(values: npt.NDArray[np.int64], hashes: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return the number of the node that holds each hash, among nodes with these highest hashes."""
    found = np.searchsorted(values, hashes)
    found[found == len(values)] = 0
    return found


def step_of(buckets: int) -> int:
    """Return the width of the nodes of an initial ring; the last one may be narrower."""
    return (TOP + buckets - 1) // buckets


@lru_cache(maxsize=64)
def parse_ring(body: bytes, path: str, partition_path: str, instant: str) -> Ring:
    """Read a ring file of a partition and instant, whose path is named in errors.

    Raises:
        Corrupt: the file is torn, of another partition or instant, or its nodes do not cover every hash exactly once.
    """
    try:
        stored = _StoredRing.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        shown = "" if first["type"] == "json_invalid" else f" ({str(first.get('input'))[:100]})"
        raise Corrupt(
            f"the hash ring in {path} cannot be read: {where}: {first['msg']}",
            file=path,
            expected="a whole file, as Apache Hudi writes it, whose nodes cover the hashes from 0 to 2147483647",
            found=f"{len(body)} bytes{shown}",
            next_step=_VERIFY,
        ) from None
    for what, found, expected in (
        ("partition", stored.partition_path, partition_path),
        ("instant", stored.instant, instant),
    ):
        if found != expected:
            raise Corrupt(
                f"the hash ring in {path} is of another {what}",
                file=path,
                expected=expected,
                found=found,
                next_step=_VERIFY,
            )
    nodes = sorted((node.value, node.prefix) for node in stored.nodes)
    for what, column in (("value", [str(value) for value, _ in nodes]), ("file group", [name for _, name in nodes])):
        doubled = next((one for one, other in pairwise(sorted(column)) if one == other), "")
        if doubled:
            raise Corrupt(
                f"the hash ring in {path} has two nodes with the {what} {doubled}",
                file=path,
                expected="nodes that differ in value and in file group, so that each hash has one",
                found=doubled,
                next_step=_VERIFY,
            )
    values = np.array([value for value, _ in nodes], np.int64)
    return Ring(partition_path, instant, stored.buckets, stored.seq_no, values, tuple(prefix for _, prefix in nodes))


def middle_between(before: int, value: int) -> int:
    """Return the middle of the hashes above `before`, up to `value`: Apache Hudi splits there."""
    return ((before + value + (HASHES if value <= before else 0)) >> 1) & TOP


def is_inside(before: int, value: int, point: int) -> bool:
    """Return whether a range, the hashes above `before`, up to `value`, can be split at a point.

    It can where both sides have a hash.
    """
    width = (value - before) % HASHES or HASHES
    return 0 <= point <= TOP and 0 < (point - before) % HASHES < width


def split(ring: Ring, node: int, point: int, prefixes: tuple[str, str]) -> tuple[Child, Child]:
    """Return the two children of a node: the hashes up to `point`, and those above it.

    Raises:
        InvalidRequest: the point is not inside the node's range, so that a child would have no hash.
    """
    before, value = ring.range_of(node)
    if not is_inside(before, value, point):
        raise InvalidRequest(
            f"a node cannot be split at hash {point}",
            expected=f"a hash above {before} and below {value}, around the end of the ring if the second is the smaller",
            found=str(point),
            next_step="choose a split point inside the node's range; a range of one hash cannot be split",
        )
    return Child(point, prefixes[0]), Child(value, prefixes[1])


def merge(ring: Ring, nodes: Sequence[int], prefix: str) -> tuple[Child, ...]:
    """Return the children of adjacent nodes that become one; the last node's value stays.

    Raises:
        InvalidRequest: there are fewer than two nodes, or they are not adjacent and in order, around the end of the ring or not.
    """
    count = len(ring.prefixes)
    is_run = all(0 <= node < count for node in nodes) and len({*nodes}) == len(nodes) >= 2
    if not is_run or any((one + 1) % count != other for one, other in pairwise(nodes)):
        raise InvalidRequest(
            f"nodes {', '.join(map(str, nodes))} cannot be merged",
            expected="two or more adjacent nodes of the ring, in its order",
            found=f"{len(nodes)} of {count} nodes",
            next_step="choose neighbours",
        )
    removed = tuple(Child(int(ring.values[node]), None) for node in nodes[:-1])
    return *removed, Child(int(ring.values[nodes[-1]]), prefix)


def with_children(ring: Ring, children: Sequence[Child], instant: str) -> Ring:
    """Return the next version of a ring: children replace, add or remove nodes by value.

    Raises:
        Internal: a child removes a node that is not there, or no node stays.
    """
    nodes: dict[int, str] = dict(zip(ring.values.tolist(), ring.prefixes, strict=True))
    for child in children:
        if child.prefix is not None:
            nodes[child.value] = child.prefix
        elif nodes.pop(child.value, None) is None:
            raise Internal(
                f"a resize removes node {child.value}, which the ring of {ring.partition_path or '.'} does not have"
            )
    if not nodes:
        raise Internal(f"a resize removes every node of the ring of {ring.partition_path or '.'}")
    ordered = sorted(nodes.items())
    return replace(
        ring,
        instant=instant,
        seq_no=ring.seq_no + 1,
        values=np.array([value for value, _ in ordered], np.int64),
        prefixes=tuple(prefix for _, prefix in ordered),
    )


def renewed(ring: Ring, instant: str) -> Ring:
    """Return the next version after an overwrite: the same ranges with new file groups.

    The names of the groups follow from partition, range and instant, so that every process makes the same file.
    """
    prefixes = tuple(renewed_prefix(ring, node, instant) for node in range(len(ring.prefixes)))
    return replace(ring, instant=instant, seq_no=ring.seq_no + 1, prefixes=prefixes)


def renewed_prefix(ring: Ring, node: int, instant: str) -> str:
    """Return the prefix of a node in the next version after an overwrite."""
    return _named(*ring.range_of(node), f"{ring.partition_path}/{instant}")


def _named(start: int, end: int, name: str) -> str:
    """Return a name-based UUID as Java makes it: MD5 of two 64-bit numbers and a text."""
    digest = hashlib.md5(struct.pack(">qq", start, end) + name.encode(), usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))


def _text(value: str) -> str:
    # Jackson writes other characters as they are, and hexadecimal digits of control characters in capitals.
    return _CONTROL.sub(lambda found: f"\\u{found[0][2:].upper()}", json.dumps(value, ensure_ascii=False))
