"""Find line, column and value of an error of the JSON reader.

The reader names a row of one of its blocks. The file is read again: only a failed ingest pays for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.formats.arrow_types import MAX_LEVELS, type_text
from hudi_ops.sources.text.json_scan import TOO_DEEP, tokens_of
from hudi_ops.sources.text.mistake import Mistake, shown
from hudi_ops.sources.text.text_source import TextSource

_CHUNK_BYTES = 1 << 20
_RUN_BYTES = 1 << 30
_BLANKS = " \t\r\n"
_REPLACED = "\ufffd"
"""Stands for bytes that are not UTF-8."""
_is = pa.types


def json_mistake(
    error: Exception, open_body: Callable[[], pa.NativeFile], schema: pa.Schema, *, takes_unknown: bool = False
) -> Mistake | None:
    """Return the mistake that keeps the reader from taking a file; None: no line alone has one."""
    before = 0
    for chunk in _chunks(open_body):
        if chunk.strip() and not _is_read(chunk, schema, takes_unknown):
            lines = chunk.split(b"\n")
            first, count = 0, len(lines)
            while count > 1:
                half = count // 2
                is_good = _is_read(b"\n".join(lines[first : first + half]), schema, takes_unknown)
                first, count = (first + half, count - half) if is_good else (first, half)
            return _in_line(before + first + 1, lines[first], schema, takes_unknown, error)
        before += chunk.count(b"\n")
    return None


def mixed_types(open_body: Callable[[], pa.NativeFile]) -> Mistake | None:
    """Return the first line whose values have other types than those above it, or None."""
    seen: dict[str, str] = {}
    number = 0
    for chunk in _chunks(open_body):
        for line in chunk.split(b"\n"):
            number += 1
            depth = tokens_of(np.frombuffer(line, np.uint8)).depth
            if depth.size and depth.max() > MAX_LEVELS:
                what, expected = f"{TOO_DEEP} {MAX_LEVELS} levels", f"at most {MAX_LEVELS} levels"
                return Mistake(number, what, expected, found=shown(line.decode(errors="replace").strip()))
            try:
                values = list(_kinds(json.loads(line), "")) if line.strip() else []
            except (ValueError, RecursionError):
                return _in_line(number, line, pa.schema([]), True, None)
            for path, kind, value in values:
                if seen.setdefault(path, kind) != kind:
                    what = f"column {path} holds {kind}, and lines above hold {seen[path]}"
                    return Mistake(number, what, "values of one type in each column", path, shown(json.dumps(value)))
        number -= 1  # what follows the last line break of a chunk is no line
    return None


def line_of_row(open_body: Callable[[], pa.NativeFile], row: int) -> tuple[int, dict[str, str]] | None:
    """Return the line of a row (from 0), and the texts of its fields; None: not found again."""
    number = 0
    for chunk in _chunks(open_body):
        for line in chunk.split(b"\n"):
            number += 1
            if line.strip():
                if row == 0:
                    fields = _fields(line.decode(errors="replace"))
                    return None if fields is None else (number, dict(fields))
                row -= 1
        number -= 1
    return None


def _chunks(open_body: Callable[[], pa.NativeFile]) -> Iterator[bytes]:
    """Yield whole lines, about a chunk at a time; all but the last chunk end in a line break."""
    held = b""
    with open_body() as body:
        while block := body.read(_CHUNK_BYTES):
            lines, newline, rest = block.rpartition(b"\n")
            if newline:
                yield held + lines + newline
                held = rest
            else:
                held += rest
    if held:
        yield held


def _is_read(lines: bytes, schema: pa.Schema, takes_unknown: bool) -> bool:
    if not lines.strip():
        return True
    source = TextSource(lambda: pa.BufferReader(lines), "json", schema, takes_unknown=takes_unknown)
    try:
        for _, rows in source.runs(_RUN_BYTES):
            rows.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return False
    return True


def _in_line(number: int, body: bytes, schema: pa.Schema, takes_unknown: bool, error: Exception | None) -> Mistake:
    """Return what is wrong in a line that the reader does not take."""
    line = body.decode(errors="replace")
    fields = _fields(line)
    if _REPLACED in line and not _is_utf8(body):
        field, found = next(((name, text) for name, text in fields or () if _REPLACED in name + text), (None, line))
        what = "the line" if field is None else f"column {field}"
        return Mistake(number, f"{what} holds bytes that are not UTF-8", "text in UTF-8", field, shown(found.strip()))
    if fields is None:
        return Mistake(number, _why(line), "a JSON object in each line", found=shown(line.strip()))
    names = [name for name, _ in fields]
    if twice := next((name for name in names if names.count(name) > 1), None):
        return Mistake(number, f"the line names field {twice} twice", "each field once", twice)
    return _in_fields(number, fields, pa.struct(list(schema)), "", takes_unknown, error)


def _in_fields(
    number: int,
    fields: list[tuple[str, str]],
    row: pa.StructType,
    above: str,
    takes_unknown: bool,
    error: Exception | None,
) -> Mistake:
    known = {field.name: field for field in row}
    for name, text in fields:
        path = f"{above}{name}"
        if name not in known:
            if not takes_unknown and (above or name not in META_COLUMNS):
                what, expected = f"the table has no column {path}", f"columns {', '.join(known)}"
                return Mistake(number, what, expected, path, shown(text), is_unknown=True)
            continue
        alone = json.dumps({name: 0})[:-2].encode() + text.encode() + b"}"
        if not _is_read(alone, pa.schema([known[name]]), takes_unknown):
            kind, inner = known[name].type, _fields(text)
            if _is.is_struct(kind) and inner is not None:
                return _in_fields(number, inner, kind, f"{path}.", takes_unknown, error)
            what, words = f"column {path} cannot take {shown(text)}", type_text(kind)
            return Mistake(number, what, f"a value of type {words} in column {path}", path, shown(text))
    return Mistake(number, str(error or "it cannot be parsed"), "a JSON object in each line")


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _fields(text: str) -> list[tuple[str, str]] | None:
    """Return the names of an object and the texts of their values; None: it is no object."""
    decoder = json.JSONDecoder()
    found: list[tuple[str, str]] = []
    text = text.strip(_BLANKS)
    at = _after(text, 1)
    if not text.startswith("{"):
        return None
    try:
        while text[at] != "}" or found:
            name, at = decoder.raw_decode(text, at)
            colon = _after(text, at)
            first = _after(text, colon + 1)
            _, at = decoder.raw_decode(text, first)
            if not isinstance(name, str) or text[colon] != ":":
                return None
            found.append((name, text[first:at]))
            at = _after(text, at)
            if text[at] == "}":
                break
            if text[at] != ",":
                return None
            at = _after(text, at + 1)
    except (ValueError, IndexError, RecursionError):
        return None
    return found if at == len(text) - 1 else None


def _after(text: str, at: int) -> int:
    """Return the place of the next character that is no blank."""
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _why(line: str) -> str:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        return f"the line is not JSON: {error.msg}, at its character {error.pos + 1}"
    except (ValueError, RecursionError):
        return "the line is not JSON that can be read"
    return f"the line is {_word(value)}, not an object"


def _kinds(value: Any, path: str) -> Iterator[tuple[str, str, Any]]:
    """Yield path, kind and value of all that is not null."""
    if value is None:
        return
    if path:
        yield path, _word(value), value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _kinds(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for inner in value:
            yield from _kinds(inner, f"{path}[]")


def _word(value: Any) -> str:
    words = ((bool, "a boolean"), (int | float, "a number"), (str, "text"), (dict, "an object"), (list, "a list"))
    return next((word for kind, word in words if isinstance(value, kind)), "null")
