"""Seeded damage to bytes: the same seed gives the same damage, so that a finding is its file, its seed and its kind."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

DEEP = 100_000
"""Levels of nested JSON: more than any parser that recurses takes."""
SHALLOW = 400
"""Levels that a parser takes, and a walk through what it made may not."""

_ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**63,
    1e308,
    "",
    "x",
    "\ud83d",
    [],
    {},
    [None],
    {"": None},
    [[]],
    "../x",
    "\0",
)
_CHUNKS = (b"\x00", b"\xff", b"\x80", b"{", b"[", b'"', b"\n", b"=", b"\\u", b"\xf0\x9f", b"PAR1", b"#HUDI#", b"null")


def _flip(data: bytearray, chance: random.Random) -> bytes:
    for _ in range(chance.choice((1, 1, 1, 4))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def _cut(data: bytearray, chance: random.Random) -> bytes:
    return bytes(data[: chance.randrange(len(data))])


def _zero(data: bytearray, chance: random.Random) -> bytes:
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.choice((1, 8, 512, len(data))))
    data[start:end] = bytes(end - start)
    return bytes(data)


def _splice(data: bytearray, chance: random.Random) -> bytes:
    start, at = chance.randrange(len(data)), chance.randrange(len(data))
    piece = data[start : start + chance.choice((1, 4, 64))] if chance.random() < 0.5 else chance.choice(_CHUNKS)
    return bytes(data[:at] + piece + data[at + chance.choice((0, len(piece))) :])


def _drop(data: bytearray, chance: random.Random) -> bytes:
    start = chance.randrange(len(data))
    return bytes(data[:start] + data[start + chance.choice((1, 4, 64, 1024)) :])


def _nest(data: bytearray, chance: random.Random) -> bytes:
    depth = chance.choice((SHALLOW, DEEP))
    opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
    deep = opening * depth + b"1" + closing * depth
    try:
        record = json.loads(data)
    except ValueError:
        return deep
    place = _places(record)
    if not place:
        return deep
    holder, key = chance.choice(place)
    holder[key] = "@deep@"
    return json.dumps(record).encode("utf-8", "surrogatepass").replace(b'"@deep@"', deep)


def _replace_value(data: bytearray, chance: random.Random) -> bytes:
    """Another value, or none, in the place of one within JSON; what is no JSON gets a flipped bit."""
    try:
        record = json.loads(data)
    except ValueError:
        return _flip(data, chance)
    places = _places(record)
    if not places:
        return json.dumps(chance.choice(_ODD)).encode()
    holder, key = chance.choice(places)
    if isinstance(holder, dict) and chance.random() < 0.3:
        del holder[key]
    else:
        holder[key] = chance.choice(_ODD)
    return json.dumps(record).encode("utf-8", "surrogatepass")


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    open_values = [value]
    while open_values:
        one = open_values.pop()
        inner = one.items() if isinstance(one, dict) else enumerate(one) if isinstance(one, list) else ()
        for key, held in inner:
            found.append((one, key))
            open_values.append(held)
    return found


def _empty(data: bytearray, chance: random.Random) -> bytes:
    return chance.choice((b"", b" ", b"{}", b"[]", b"null", b"1"))


KINDS: dict[str, Callable[[bytearray, random.Random], bytes]] = {
    "flip": _flip,
    "cut": _cut,
    "zero": _zero,
    "splice": _splice,
    "drop": _drop,
    "nest": _nest,
    "value": _replace_value,
    "empty": _empty,
}


def damaged(data: bytes, kind: str, seed: int) -> bytes:
    """The bytes with one damage.

    Args:
        data: what was whole; empty bytes get something.
        kind: a key of `KINDS`.
        seed: what is drawn.
    """
    chance = random.Random(f"{kind} {seed}")
    return KINDS[kind](bytearray(data), chance) if data else chance.choice(_CHUNKS)
