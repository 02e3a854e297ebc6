"""Every citation in the code leads to a section that is in this repository.

Goal: a reader of `Source: docs/format §6.2` finds that section. Method: search the text of the product and its tests for
citations, compare them with the numbered headings, and look for names of documents that were never part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = {".py", ".java", ".html", ".yaml", ".md"}
PAGES = sorted((ROOT / "docs").rglob("*.md"))
FOLDERS = ("format", "protocol")
"""Documents of numbered sections, each a folder of pages."""

# A document, then its sections; a line may break inside, in a comment too.
_GAP = r"(?:\s|\n\s*#)+"
_SECTION = r"§\d+(?:\.\d+)*"
CITATION = re.compile(rf"docs/(?P<name>[\w-]+){_GAP}(?P<sections>{_SECTION}(?:(?:,| to| and){_GAP}{_SECTION})*)")
LINK = re.compile(r"docs/(?P<name>[\w/-]+\.md)")
LISTED = re.compile(r"\]\(([\w-]+\.md)")
WORDS_MAX = 2_000
HEADING = re.compile(r"^#{2,4} (?P<number>\d+(?:\.\d+)*)\s+\S", re.MULTILINE)

ELSEWHERE = re.compile(
    "|".join((
        r"\bformat facts?\b",
        r"\bfacts? \d+\b",
        r"\bDESIGN\b",
        r"\bhalf [AB]\b",
        r"hudi-format-",
        r"\bmodel, S\d",
        r"\b(?:performance|airflow|reliability|protocols|style|design)(?: reference)? §",
        r"\b(?:performance|design) reference\b",
        r"\breference/\w+\.md",
        r"\bC\.\d\b",
    ))
)
"""Documents of the time before the first release, by the names that citations gave them."""


def texts() -> Iterator[tuple[Path, str]]:
    """Files that may cite: the product, what runs it, and the tests but for this one."""
    for folder in ("hudi_ops", "plugins", "dags", "spark_apps", "tests"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in SUFFIXES and "__pycache__" not in file.parts and file != Path(__file__).resolve():
                yield file, file.read_text(encoding="utf-8")


def place(file: Path, text: str, at: int) -> str:
    return f"{file.relative_to(ROOT)}:{text.count(chr(10), 0, at) + 1}"


def headings(text: str) -> list[str]:
    return HEADING.findall(text)


def sections(folder: str) -> set[str]:
    """Numbers of the sections of a document."""
    pages = sorted((ROOT / "docs" / folder).glob("*.md"))
    return {number for page in pages for number in headings(page.read_text(encoding="utf-8"))}


def test_every_citation_leads_to_a_heading():
    numbers = {folder: sections(folder) for folder in FOLDERS}
    found, offenders = 0, []
    for file, text in texts():
        for match in CITATION.finditer(text):
            for section in re.findall(_SECTION, match["sections"]):
                found += 1
                if section[1:] not in numbers.get(match["name"], set()):
                    offenders.append(f"{place(file, text, match.start())} docs/{match['name']} {section}")
    assert offenders == []
    assert found >= 80, "citations are no longer found: did their spelling change?"


def test_every_section_sign_belongs_to_a_document():
    """A bare number of a section leads nowhere; other documents are cited by the name of the section."""
    offenders = []
    for file, text in texts():
        cited = [match.span() for match in CITATION.finditer(text)]
        offenders += [
            place(file, text, sign.start())
            for sign in re.finditer("§", text)
            if not any(start <= sign.start() < end for start, end in cited)
        ]
    assert offenders == []


def test_every_document_that_is_named_exists():
    names = {page.relative_to(ROOT / "docs").as_posix() for page in PAGES}
    guides = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    named = [*texts(), *((file, file.read_text(encoding="utf-8")) for file in guides)]
    offenders = [
        f"{place(file, text, match.start())} docs/{match['name']}"
        for file, text in named
        for match in LINK.finditer(text)
        if match["name"] not in names
    ]
    assert offenders == []


def test_no_citation_names_a_document_from_elsewhere():
    offenders = [
        f"{place(file, text, match.start())} {match[0]}" for file, text in texts() for match in ELSEWHERE.finditer(text)
    ]
    assert offenders == []


def test_no_page_numbers_a_section_twice():
    """Parts of a long section lie on several pages."""
    offenders = []
    for page in PAGES:
        numbers = headings(page.read_text(encoding="utf-8"))
        offenders += [f"{page.name} {number}" for number in sorted(set(numbers)) if numbers.count(number) > 1]
    assert offenders == []


def test_every_page_of_a_document_is_short_and_in_its_contents():
    offenders = []
    for folder in FOLDERS:
        contents = (ROOT / "docs" / folder / "README.md").read_text(encoding="utf-8")
        for page in sorted((ROOT / "docs" / folder).glob("*.md")):
            count = len(page.read_text(encoding="utf-8").split())
            offenders += [f"{folder}/{page.name}: {count} words"] if count > WORDS_MAX else []
            offenders += (
                [f"{folder}/{page.name}: not listed"]
                if page.name not in {"README.md", *LISTED.findall(contents)}
                else []
            )
    assert offenders == []


def test_sections_named_inside_a_document_exist():
    offenders = []
    for folder in FOLDERS:
        numbers = sections(folder)
        for file in sorted((ROOT / "docs" / folder).glob("*.md")):
            text = file.read_text(encoding="utf-8")
            elsewhere = [match.span() for match in CITATION.finditer(text)]
            offenders += [
                f"{place(file, text, match.start())} {match[0]}"
                for match in re.finditer(_SECTION, text)
                if match[0][1:] not in numbers and not any(start <= match.start() < end for start, end in elsewhere)
            ]
    assert offenders == []


def test_the_patterns_find_what_they_should():
    """The rules are worth nothing if their patterns match nothing."""
    broken = "Source: docs/format §6.3,\n    # §7.1"
    (match,) = CITATION.finditer(broken)
    assert re.findall(_SECTION, match["sections"]) == ["§6.3", "§7.1"]
    assert headings("## 1 The log\n\n### 2.10 Names\n\n## Unnumbered\n") == ["1", "2.10"]
    for text in ("(format facts §6.5)", "(fact 13)", "(DESIGN §5)", "half B §6.2", "(model, S1)", "airflow §5", "C.4"):
        assert ELSEWHERE.search(text), text
    for text in ("the facts that Hudi does not store", "docs/airflow.md", "a design of ours", "in fact two rows"):
        assert not ELSEWHERE.search(text), text
