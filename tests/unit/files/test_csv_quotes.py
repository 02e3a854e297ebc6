"""Malformed quotes of CSV: found by a model read byte by byte, wherever the file is cut, and named with file and line."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from hypothesis import example, given, strategies as st

from hudi_ops.errors import InvalidRequest
from hudi_ops.sources.source import read_runs
from hudi_ops.sources.source_schema import SchemaTask, source_schema
from hudi_ops.sources.text import csv_quotes, text_source
from hudi_ops.sources.text.csv_quotes import BadQuote, QuoteCheck
from hudi_ops.sources.text.text_source import TextSource
from hudi_ops.storage.local import LocalStorage
from hudi_ops.storage.protocol import FileInfo

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
MARK = b"\xef\xbb\xbf"


def model(body: bytes) -> BadQuote | None:
    """The first malformed value, byte by byte, as Arrow's parser goes."""
    at = len(MARK) if body.startswith(MARK) else 0
    is_start, opened = True, -1
    while at < len(body):
        byte = body[at : at + 1]
        if opened < 0:
            is_quote = is_start and byte == b'"'
            opened = at if is_quote else -1
            is_start = byte in b",\r\n"
            at += 1
        elif byte != b'"':
            at += 1
        elif body[at + 1 : at + 2] == b'"':
            at += 2
        else:
            at += 1
            if body[at : at + 1] not in (b"", b",", b"\r", b"\n"):
                return BadQuote(opened, at)
            opened, is_start = -1, False
    return BadQuote(opened, None) if opened >= 0 else None


@given(
    body=st.lists(st.sampled_from([b'"', b'""', b",", b"\n", b"\r\n", b"a", b'","', b"\xc3\xa9"]), max_size=24).map(
        b"".join
    ),
    marked=st.booleans(),
    cuts=st.sets(st.integers(3, 60), max_size=8),
)
@example(body=b'"' * 9 + b"\n", marked=False, cuts={3, 5})
@example(body=b'5" pipe,"x"\n"a"b\n', marked=True, cuts={3, 7})
def test_the_check_finds_what_a_model_finds_wherever_blocks_end(body: bytes, marked: bool, cuts: set[int]) -> None:
    body = MARK + body if marked else body
    ends = [*sorted(cut for cut in cuts if cut < len(body)), len(body)]
    check, found = QuoteCheck(), None
    for start, end in zip([0, *ends], ends, strict=False):
        found = found or check.feed(body[start:end]) if start < end else found
    assert (found or check.feed(b"")) == model(body)


def read(folder: Path, body: bytes, name: str = "a.csv") -> list[dict[str, object]]:
    (folder / name).write_bytes(gzip.compress(body) if name.endswith(".gz") else body)
    storage = LocalStorage(folder)
    info = storage.head(name)
    assert info is not None
    runs = read_runs(storage, info, SCHEMA, SCHEMA.names, run_bytes=1 << 16)
    return pa.concat_tables([rows for _, rows in runs]).to_pylist()


MALFORMED = [
    (b'id,text\n1,"never closed\n2,b\n', "line 2: a quote opens a value, and no quote closes it"),
    (b'id,text\n1,a\n2,"cut o', "line 3: a quote opens a value, and no quote closes it"),
    (b'id,text\n1,"a"b\n', "line 2: text follows the closing quote of a value"),
    (b'id,text\n1,"a" \n', "line 2: text follows"),
    (b'id,text\r\n1,"a\r\n2,"b"\r\n', "line 3: text follows the closing quote of a value that began in line 2"),
    (b'id,"text"x\n1,a\n', "line 1: text follows"),
    (b'id,text\n1,"a""\n', "line 2: a quote opens"),
]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize(("body", "says"), MALFORMED)
def test_a_malformed_value_is_refused_with_file_and_line(tmp_path: Path, body: bytes, says: str, name: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"{name}, {says}"):
        read(tmp_path, body, name)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"a ""b"" c"', 'a "b" c'),
        ('"line one\nline two, and ""more"""', 'line one\nline two, and "more"'),
        ('"line one\r\nline two"', "line one\r\nline two"),
        ('""', ""),
        ("", None),
        ('""""', '"'),
        ('5" pipe', '5" pipe'),
        ('5""', '5""'),
        (' "a"', ' "a"'),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_well_formed_quotes_mean_what_they_meant(tmp_path: Path, text: str, value: str | None, end: str) -> None:
    body = f"id,text{end}1,{text}{end}2,{text}".encode()
    for mark in (b"", MARK):
        assert read(tmp_path, mark + body) == [{"id": 1, "text": value}, {"id": 2, "text": value}]


def test_lines_are_counted_over_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_source, "_BLOCKS_BYTES", (1 << 12, 1 << 14))
    monkeypatch.setattr(csv_quotes, "BLOCK_BYTES", 1000)
    rows = b"".join(b'%d,"text, of\r\nrow ""%d"""\r\n' % (number, number) for number in range(2_000))
    assert len(read(tmp_path, b"id,text\r\n" + rows)) == 2_000
    with pytest.raises(InvalidRequest, match="line 4002: text follows the closing quote"):
        read(tmp_path, b"id,text\r\n" + rows + b'7,"a"b\r\n' + rows)
    with pytest.raises(InvalidRequest, match="line 4002: a quote opens a value"):
        read(tmp_path, b"id,text\r\n" + rows + b'7,"a\r\n' + rows.replace(b'"', b""))


class CountedBody(pa.PythonFile):
    """A file in memory that notes how much is asked for at a time."""

    asked: ClassVar[list[int]] = []

    def read(self, nbytes: int | None = None) -> bytes:
        self.asked.append(nbytes or -1)
        block: bytes = super().read(nbytes)
        return block


def test_an_open_quote_is_no_reason_to_read_the_file_in_one_piece() -> None:
    body = b'id,"text\n' + b"1,a\n" * 1_000_000
    source = TextSource(lambda: CountedBody(io.BytesIO(body), mode="r"), "csv", SCHEMA)
    with pytest.raises(pa.ArrowInvalid, match="line 1: a quote opens a value"):
        list(source.runs(1 << 16))
    assert set(CountedBody.asked) <= set(range(1, (1 << 20) + 1))


def test_the_columns_of_a_file_are_refused_with_its_line_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,"text\n' + b"1,a\n" * 1_000_000)
    storage = LocalStorage(tmp_path)
    task = SchemaTask(storage, FileInfo("a.csv", 4_000_009, 0), SCHEMA)
    with pytest.raises(InvalidRequest, match=r"a\.csv, line 1: a quote opens a value"):
        source_schema(task)
    (tmp_path / "b.csv").write_bytes(b'id,"two\nlines"\n1,a\n')
    assert source_schema(SchemaTask(storage, FileInfo("b.csv", 20, 0), SCHEMA)).names == ["id", "two\nlines"]
