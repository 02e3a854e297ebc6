"""Java Properties text, the format of a table's key-value files.

The written text is pure ASCII with one line a key, since readers outside the JVM do not join continued lines. Keys are
sorted, so that equal values give equal bytes.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from hudi_ops.errors import Corrupt, InvalidRequest

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_BLANKS: Final = " \t\f"
_ESCAPES_READ: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPES_WRITTEN: Final = {
    "\t": "\\t",
    "\n": "\\n",
    "\r": "\\r",
    "\f": "\\f",
    **{char: "\\" + char for char in ":=#!\\"},
}
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.?)", re.DOTALL)
_KEY: Final = re.compile(r"(?:[^=: \t\f\\]|\\.?)*", re.DOTALL)
_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_NEXT_STEP: Final = "restore the file from its `.backup` beside it, or from a copy of the table"


def loads(data: bytes, path: str = "") -> dict[str, str]:
    """Read Java Properties text, in file order.

    Bytes above 0x7F are read as UTF-8 where the file is valid UTF-8 (as editors write it), else as ISO-8859-1 (as Java reads it).
    The last value of a repeated key counts, as in Java. Source: java.util.Properties.load; docs/format §1.2.

    Raises:
        Corrupt: the file has no key at all, holds a zero byte, or an escape that is cut off or malformed.
    """
    if not data:
        raise Corrupt(**_damage(path, "the file is empty", "at least one key"))
    if b"\x00" in data:
        # A machine that lost power leaves blocks of zeros; as text they would be a strange but valid key.
        raise Corrupt(**_damage(path, f"zero byte at offset {data.index(0)}", "text"))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("iso-8859-1")
    values: dict[str, str] = {}
    for line in _logical_lines(text, path):
        key, value = _split(line)
        values[_unescape(key, path)] = _unescape(value, path)
    if not values:
        raise Corrupt(**_damage(path, "comments and blank lines only", "at least one key"))
    return values


def dumps(values: Mapping[str, str], *, comment: str, now_ms: int) -> bytes:
    """Write Java Properties text below the two comment lines that Hudi writes.

    `comment` is the first line without its `#`, such as `Properties saved on 2026-03-07T22:24:59.031Z`, in printable ASCII;
    `now_ms` is shown in the second. Values are any Unicode but lone surrogates. Source: java.util.Properties.store; docs/format
    §1.2.

    Raises:
        InvalidRequest: the comment would not stay one line of ASCII, or a value cannot be written as UTF-16.
    """
    if not (comment.isascii() and comment.isprintable()):
        raise InvalidRequest(
            f"The comment {comment!r} cannot be the first line of a properties file",
            expected="one line of printable ASCII",
            next_step="pass a plain comment",
        )
    lines = [f"#{comment}", f"#{_java_date(now_ms)}"]
    lines += [f"{_escape(key, is_key=True)}={_escape(values[key], is_key=False)}" for key in sorted(values)]
    return ("\n".join(lines) + "\n").encode("ascii")


def table_checksum(table_name: str, database: str = "") -> str:
    """Return the value of `hoodie.table.checksum` (docs/format §1.3).

    >>> table_checksum("v9_txns_cow_simple_meta", "default")
    '2985977913'

    Args:
        database: `hoodie.database.name`; empty when the key is absent.

    Returns:
        CRC32 of `{database}.{table_name}` in UTF-8, as a decimal.
    """
    return str(zlib.crc32(f"{database}.{table_name}".encode()))


def _damage(path: str, found: str, expected: str) -> dict[str, str]:
    return {
        "what": f"{path or 'A properties file'} is not Java Properties text",
        "expected": expected,
        "found": found,
        "next_step": _NEXT_STEP,
        "path": path,
    }


# Lines that hold a key: comments and blank lines left out, continued lines joined.
def _logical_lines(text: str, path: str) -> Iterator[str]:
    pending: str | None = None
    lines = _LINE_END.split(text)
    for natural in lines:
        line = natural.lstrip(_BLANKS)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        pending = None
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = line[:-1]
        else:
            yield line
    if pending is not None:
        raise Corrupt(**_damage(path, "a backslash at the end of the file", "an escape or a further line"))


def _split(line: str) -> tuple[str, str]:
    """Split one logical line at its first unescaped `=`, `:` or blank; both parts stay escaped."""
    key = _KEY.match(line)
    end = key.end() if key is not None else 0
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescape(text: str, path: str) -> str:
    if "\\" not in text:
        return text

    def meant(escape: re.Match[str]) -> str:
        code = escape[1]
        if code[:1] != "u":
            return _ESCAPES_READ.get(code, code)
        if len(code) == 1:
            found = repr(text[escape.start() : escape.start() + 6])
            raise Corrupt(**_damage(path, found, "\\u and four hexadecimal digits"))
        return chr(int(code[1:], 16))

    plain = _ESCAPE.sub(meant, text)
    try:
        # Characters beyond 16 bits come as two escapes, as Java holds them.
        return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise Corrupt(**_damage(path, f"half of a surrogate pair in {text!r}", "both halves")) from None


def _escape(text: str, *, is_key: bool) -> str:
    parts: list[str] = []
    for at, char in enumerate(text):
        if char == " ":
            parts.append("\\ " if is_key or at == 0 else " ")
        elif char in _ESCAPES_WRITTEN:
            parts.append(_ESCAPES_WRITTEN[char])
        elif " " <= char <= "~":
            parts.append(char)
        else:
            parts.append(_unicode_escape(char, text))
    return "".join(parts)


def _unicode_escape(char: str, text: str) -> str:
    try:
        units = char.encode("utf-16-be")
    except UnicodeEncodeError:
        raise InvalidRequest(
            f"{text!r} cannot be written to a properties file",
            expected="Unicode text",
            found="half of a surrogate pair",
            next_step="correct the value",
        ) from None
    return "".join(f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))


def _java_date(now_ms: int) -> str:
    """Format a time like `java.util.Date.toString()` in UTC, English in every locale."""
    at = datetime.fromtimestamp(now_ms // 1000, UTC)
    return f"{_DAYS[at.weekday()]} {_MONTHS[at.month - 1]} {at:%d %H:%M:%S} UTC {at.year}"
