"""Find line, column and value of an error of the JSON reader.

The reader names a row of one of its blocks. The file is read again: only a failed ingest pays for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hudi_ops.config.columns import META_COLUMNS
from hudi_ops.formats.arrow_types import MAX_LEVELS, type_text
from hudi_ops.sources.text.json_scan import TOO_DEEP, tokens_of
from hudi_ops.sources.text.mistake import Mistake, shown
from hudi_ops.sources.text.text_source import TextSource

_CHUNK_BYTES = 1 << 20
_VALUES = 1 << 12
"""Values that are read at once when the one with the mistake is looked for."""
_RUN_BYTES = 1 << 30
_VALUE_MAX = 1 << 24
"""Characters up to which a value may go over several chunks."""
_BLANKS = " \t\r\n"
_REPLACED = "\ufffd"
"""Stands for bytes that are not UTF-8."""
_is = pa.types


def json_mistake(
    error: Exception, open_body: Callable[[], pa.NativeFile], schema: pa.Schema, *, takes_unknown: bool = False
) -> Mistake | None:
    """Return the mistake that keeps the reader from taking a file; None: no value alone has one."""
    line, chunks = 1, _chunks(open_body)
    for chunk in chunks:
        if not _is_read(chunk, schema, takes_unknown):  # a mistake, or a value that goes on in the next chunk
            return _in_values(_values(chain([chunk], chunks), line), schema, takes_unknown, error)
        line += chunk.count(b"\n")
    return None


def mixed_types(open_body: Callable[[], pa.NativeFile]) -> Mistake | None:
    """Return the first line whose values have other types than those above it, or None."""
    seen: dict[str, str] = {}
    for line, text, is_whole in _values(_chunks(open_body), 1):
        depth = tokens_of(np.frombuffer(text, np.uint8)).depth
        if depth.size and depth.max() > MAX_LEVELS:
            what, expected = f"{TOO_DEEP} {MAX_LEVELS} levels", f"at most {MAX_LEVELS} levels"
            return Mistake(line, what, expected, found=shown(text.decode(errors="replace").strip()))
        if not is_whole:
            return _in_line(line, text, pa.schema([]), True, None)
        for path, kind, value in _kinds(json.loads(text), ""):
            if seen.setdefault(path, kind) != kind:
                what = f"column {path} holds {kind}, and lines above hold {seen[path]}"
                return Mistake(line, what, "values of one type in each column", path, shown(json.dumps(value)))
    return None


def line_of_row(open_body: Callable[[], pa.NativeFile], row: int) -> tuple[int, dict[str, str]] | None:
    """Return the line where a row (from 0) begins, and the texts of its fields, or None."""
    found = next(islice(_values(_chunks(open_body), 1), row, None), None)
    fields = _fields(found.text.decode(errors="replace")) if found is not None else None
    return (found.line, dict(fields)) if found is not None and fields is not None else None


class _Value(NamedTuple):
    """A value of the file: the line where it begins, and its text.

    Of a malformed value, which is the last one, the text is its first line.
    """

    line: int
    text: bytes
    is_whole: bool = True


def _in_values(
    values: Iterator[_Value], schema: pa.Schema, takes_unknown: bool, error: Exception | None
) -> Mistake | None:
    """Return the mistake in the first value that the reader does not take, or None.

    Where each value alone is taken, the first that goes over several lines is the mistake: the reader's blocks end with lines.
    """
    several: Mistake | None = None
    while some := list(islice(values, _VALUES)):
        whole = [value.text for value in some if value.is_whole]
        if not _is_read(b"\n".join(whole), schema, takes_unknown):
            first, count = 0, len(whole)
            while count > 1:
                half = count // 2
                is_good = _is_read(b"\n".join(whole[first : first + half]), schema, takes_unknown)
                first, count = (first + half, count - half) if is_good else (first, half)
            return _in_line(some[first].line, whole[first], schema, takes_unknown, error)
        if not some[-1].is_whole:
            return _in_line(some[-1].line, some[-1].text, schema, takes_unknown, error)
        long = next((value for value in some if b"\n" in value.text), None) if several is None else None
        if long is not None:
            first_line = shown(long.text.partition(b"\n")[0].decode(errors="replace"))
            what = "the object that begins here goes over several lines, which large files must not have"
            several = Mistake(long.line, what, "a JSON object in each line", found=first_line)
    return several


def _values(chunks: Iterable[bytes], line: int) -> Iterator[_Value]:
    """Yield the values of the file, which may go over several lines.

    The first chunk begins on `line`.
    """
    decoder, text = json.JSONDecoder(), ""
    for chunk in chain(chunks, [b""]):
        text += chunk.decode(errors="surrogateescape").removeprefix("\ufeff")
        at = 0
        while True:
            first = _after(text, at)
            line += text.count("\n", at, first)
            at = first
            if first == len(text):
                break
            try:
                _, at = decoder.raw_decode(text, first)
            except (ValueError, RecursionError) as error:
                is_open = isinstance(error, json.JSONDecodeError) and error.pos >= len(text.rstrip())
                if is_open and chunk and len(text) < _VALUE_MAX:
                    break  # it goes on in the next chunk
                yield _Value(line, _bytes(text[first:].partition("\n")[0]), False)
                return
            yield _Value(line, _bytes(text[first:at]))
            line += text.count("\n", first, at)
        text = text[at:]


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


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
