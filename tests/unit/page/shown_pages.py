"""The page with users of several rights, tables for it, and what a reader of its HTML sees."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
from fastapi import FastAPI, HTTPException, Request
from starlette.testclient import TestClient

from hudi_ops.cli.main import main
from hudi_ops.page.app import make_app
from hudi_ops.page.child import Children
from hudi_ops.page.rights import Reader
from hudi_ops.table.table import Table

VOID = {"meta", "link", "input", "br", "hr", "img"}
SHAPES = {"circle", "path", "line"}
ROLES = {
    "op": {"cancel", "health", "compaction", "clustering", "clean"},
    "runner": {"compaction__t"},
    "canceller": {"cancel"},
    "viewer": set[str](),
}
"""DAGs of which each user may start runs."""


@dataclass
class FakeRights:
    """Rights of one user, who may run what is named; None: no user has signed in. The header X-User names one of ROLES instead.

    `logged` is the audit log.
    """

    name: str | None = "anna"
    may: Callable[[str], bool] = lambda dag_id: True
    logged: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)
    is_down: bool = False

    async def reader(self, request: Request) -> Reader:
        if self.name is None:
            raise HTTPException(401, "Not authenticated")
        name = request.headers.get("x-user")
        return Reader(name or self.name, _in_a_thread(ROLES[name].__contains__ if name else self.may))

    async def log(self, request: Request, reader: Reader, event: str, facts: Mapping[str, Any]) -> None:
        """Write to the audit log, unless its database is down."""
        if self.is_down:
            raise HTTPException(503, {"error": "Unavailable", "message": "the audit log does not answer"})
        self.logged.append((reader.name, event, dict(facts)))


def _in_a_thread(may: Callable[[str], bool]) -> Callable[[str], bool]:
    """The same rights, which must not be asked for in the event loop: Airflow asks its database for them."""

    def asked(dag_id: str) -> bool:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return may(dag_id)
        raise AssertionError("rights are asked for in the event loop")

    return asked


def client_of(
    rights: FakeRights | None = None, path: str = "", children: Children | None = None, **options: Any
) -> TestClient:
    """A client of the page, mounted as Airflow does it; its requests are those of the page itself."""
    outer = FastAPI(root_path=path)
    outer.mount("/hudi-ops", make_app(rights or FakeRights(), children=children))
    options = {"base_url": "http://page.test/hudi-ops/", "headers": {"sec-fetch-site": "same-origin"}, **options}
    return TestClient(outer, **options)


@dataclass
class Element:
    """An element of a page."""

    tag: str
    attributes: dict[str, str | None]
    parent: Element | None = None
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Texts of the element, blanks joined."""
        parts = [one if isinstance(one, str) else one.text for one in self.children]
        return " ".join("".join(parts).split())

    def all(self, tag: str = "", **wanted: str) -> list[Element]:
        """Elements within of a tag with values of attributes: `data_field="x"` is `data-field`, `class_` one of the classes."""
        return [one for one in self._within() if (not tag or one.tag == tag) and one._has(wanted)]

    def one(self, tag: str = "", **wanted: str) -> Element:
        """The only such element."""
        (found,) = self.all(tag, **wanted)
        return found

    def _has(self, wanted: Mapping[str, str]) -> bool:
        classes = (self.attributes.get("class") or "").split()
        return all(
            value in classes if name == "class_" else self.attributes.get(name.replace("_", "-")) == value
            for name, value in wanted.items()
        )

    def _within(self) -> Iterator[Element]:
        for one in self.children:
            if isinstance(one, Element):
                yield one
                yield from one._within()


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.at = self.root = Element("", {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        made = Element(tag, dict(attrs), self.at)
        self.at.children.append(made)
        if tag not in VOID:
            self.at = made

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in SHAPES, f"<{tag}/> is no void element of HTML"
        self.at.children.append(Element(tag, dict(attrs), self.at))

    def handle_endtag(self, tag: str) -> None:
        assert self.at.tag == tag, f"</{tag}> ends <{self.at.tag}>"
        assert self.at.parent is not None
        self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        self.at.children.append(data)


def parsed(html: str) -> Element:
    """The elements of a page; each one that begins ends, in its order."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    assert parser.at is parser.root, f"<{parser.at.tag}> does not end"
    return parser.root


def elements(page: Element) -> list[tuple[str, tuple[str, ...]]]:
    """Tags and names of attributes, in their order: what texts can never change."""
    return [(one.tag, tuple(one.attributes)) for one in page.all()]


def said(*words: str) -> dict[str, Any]:
    """What a command prints with `--json`."""
    with redirect_stdout(StringIO()) as out:
        main([*words, "--json"])
    return json.loads(out.getvalue().strip().splitlines()[-1])


def rows(count: int, first: int = 0) -> pa.Table:
    """Rows of the tables here."""
    ids = [f"k{number + first}" for number in range(count)]
    return pa.table({"id": ids, "p": ["x", "y"] * (count // 2), "v": list(range(count))})


def make_tables(folder: Path) -> None:
    """Make `trips`, which needs a compaction and has plans, and `riders`, which needs nothing; `gone` is declared alone."""
    tables = {name: {"path": str(folder / name), "record_key": ["id"]} for name in ("trips", "riders", "gone")}
    (folder / "tables.yaml").write_text(json.dumps({"tables": tables}))
    schema = {"record_key": ["id"], "schema": "id string, p string, v int64"}
    Table.create(folder / "riders", name="riders", table_type="cow", **schema).ingest(rows(6))
    trips = Table.create(folder / "trips", name="trips", table_type="mor", partition_by=["p"], **schema)
    for _ in range(12):
        trips.ingest(rows(6))
    plan = trips.compaction.plan()
    assert plan is not None
    trips.cancel(plan.instant, "the <b>cluster</b> is needed elsewhere", requester="ben", force=True)
    trips.ingest(rows(6, 3))
    assert trips.compaction.plan() is not None
    trips.savepoints.create()


def table_at(folder: Path) -> Table:
    """Make the table `t` with two log files to compact, and a tables.yaml that declares it; return the table."""
    (folder / "tables.yaml").write_text(
        "tables:\n  t: {path: t, record_key: [id], type: mor}\n  gone: {path: gone, record_key: [id]}\n"
    )
    table = Table.create(folder / "t", name="t", record_key=["id"], schema="id string, v int64", table_type="mor")
    for version in range(3):
        table.ingest(pa.table({"id": ["a", "b", "c"], "v": [version] * 3}))
    return table
