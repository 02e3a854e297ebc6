"""Java Properties text: what Java reads is what we read, and real files carry the checksum that we compute."""

from __future__ import annotations

import pytest

from hudi_ops.errors import Corrupt, InvalidRequest
from hudi_ops.formats import properties

NOW_MS = 1_772_922_299_031  # Sat Mar 07 22:24:59 UTC 2026


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a=1", {"a": "1"}),
        (b"a:1\r\nb 2\rc\t=\t3\n", {"a": "1", "b": "2", "c": "3"}),
        (b"  a = 1 \n", {"a": "1 "}),
        (b"# no\n! no\n\n \t\nkey", {"key": ""}),
        (b"a=#no comment", {"a": "#no comment"}),
        (b"a\\ b\\=c\\:d=x\\=y\\:z\\#\\!", {"a b=c:d": "x=y:z#!"}),
        (b"a=one\\\n   two\\\n  # three", {"a": "onetwo# three"}),
        (b"a=back\\\\\nb=2", {"a": "back\\", "b": "2"}),
        (b"a=\\t\\n\\r\\f\\q", {"a": "\t\n\r\fq"}),
        (b"a=\\u00fc\\u00DF", {"a": "\u00fc\u00df"}),
        (b"a=\\uD83D\\uDE00", {"a": "\U0001f600"}),
        ("a=\u00fc".encode(), {"a": "\u00fc"}),
        ("a=\u00fc".encode("latin-1"), {"a": "\u00fc"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a==b", {"a": "=b"}),
        (b"=b", {"": "b"}),
    ],
)
def test_reads_what_java_reads(text, expected):
    assert properties.loads(text) == expected


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"#only\n#comments\n", b"a=\\u12", b"a=\\u12g4", b"a=\\uD83D", b"a=1\\", b"a=1\n\x00\x00"]
)
def test_broken_text_names_the_file(text):
    with pytest.raises(Corrupt, match=r"t/\.hoodie/hoodie\.properties") as error:
        properties.loads(text, "t/.hoodie/hoodie.properties")
    assert error.value.next_step


def test_written_bytes_are_hudis_form():
    data = properties.dumps(
        {"b": " x:y=#!\\", "a key": "\u00fc\U0001f600\n z ", "e": ""},
        comment="Properties saved on 2026-03-07T22:24:59.031Z",
        now_ms=NOW_MS,
    )
    assert data.decode("ascii").splitlines() == [
        "#Properties saved on 2026-03-07T22:24:59.031Z",
        "#Sat Mar 07 22:24:59 UTC 2026",
        r"a\ key=\u00FC\uD83D\uDE00\n z ",
        r"b=\ x\:y\=\#\!\\",
        "e=",
    ]


@pytest.mark.parametrize("comment", ["two\nlines", "\u00fc", "tab\t"])
def test_comment_must_stay_one_ascii_line(comment):
    with pytest.raises(InvalidRequest):
        properties.dumps({"a": "1"}, comment=comment, now_ms=NOW_MS)


def test_half_a_surrogate_pair_is_refused():
    with pytest.raises(InvalidRequest, match="surrogate"):
        properties.dumps({"a": "\ud83d"}, comment="c", now_ms=NOW_MS)


def test_every_real_file_reads_and_has_our_checksum(hudi_fixtures, hudi_fixture_names):
    checked = 0
    for name in hudi_fixture_names:
        for path in hudi_fixtures(name).rglob("hoodie.properties"):
            values = properties.loads(path.read_bytes(), str(path))
            assert values["hoodie.table.checksum"] == properties.table_checksum(
                values["hoodie.table.name"], values.get("hoodie.database.name", "")
            )
            again = properties.dumps(values, comment="c", now_ms=NOW_MS)
            assert properties.loads(again) == values
            # Apart from order and comments, the same lines as Java wrote.
            lines = path.read_text("ascii").splitlines()
            assert sorted(again.decode().splitlines()[2:]) == sorted(line for line in lines if not line.startswith("#"))
            checked += 1
    assert checked == 24
