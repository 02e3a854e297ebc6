"""Bad input ends in a page that says so, and no text of a table or a request becomes HTML, script or style."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

import hudi_ops.page
from hudi_ops.health.verdict import HealthVerdict
from hudi_ops.page import reading, threads
from hudi_ops.page.app import make_app
from hudi_ops.page.asset_files import TYPES
from hudi_ops.page.guard import HEADERS, POLICY
from hudi_ops.registry.database import engine_of, opened
from hudi_ops.registry.migrate import migrate
from hudi_ops.registry.picture import Picture
from hudi_ops.registry.recording import record_picture, record_run, record_verdict
from hudi_ops.registry.rows import Run, TableKey
from hudi_ops.registry.store import table_named
from tests.unit.page.shown_pages import Element, FakeRights, client_of, elements, parsed

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(hudi_ops.page.__file__).parent
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}{%x%}`a`&amp;&#x41;javascript:x"
COLUMNS = {"type", "index", "status", "state", "check", "kind", "unit", "form", "since", "at", "error"}
"""Fields whose values choose what is shown: they are words of this program, and stay in the hostile copy."""


# ---- the registry cannot be used ----


@pytest.fixture(scope="module")
def registries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with registries of other releases, and a file that is none."""
    folder = tmp_path_factory.mktemp("registries")
    migrate(f"sqlite:///{folder}/old.db", "0001")
    migrate(f"sqlite:///{folder}/newer.db")
    with engine_of(f"sqlite:///{folder}/newer.db").begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    (folder / "text.db").write_text("this is no database, and has more than a hundred bytes of text in it" * 20)
    return folder


@pytest.mark.parametrize(
    ("url", "command"),
    [
        ("sqlite:///{folder}/none/registry.db", "hudi-ops registry migrate"),
        ("postgresql+psycopg2://reader:sesame@127.0.0.1:1/registry", "HUDI_OPS_REGISTRY"),
        ("no-url", "correct the variable"),
        ("sqlite:///{folder}/old.db", "hudi-ops registry migrate"),
        ("sqlite:///{folder}/newer.db", "use the release of hudi-ops that migrated it"),
        ("sqlite:///{folder}/text.db", "HUDI_OPS_REGISTRY"),
    ],
)
def test_a_registry_that_cannot_be_used_is_503_with_the_command(
    registries: Path, monkeypatch: pytest.MonkeyPatch, url: str, command: str
) -> None:
    monkeypatch.setenv("HUDI_OPS_REGISTRY", url.format(folder=registries))
    for path in ("", "tables/trips"):
        answer = client_of().get(path)
        shown = parsed(answer.text).one("main", id="content").text
        assert answer.status_code == 503
        assert "The registry cannot be used" in shown
        assert command in shown
        assert "sesame" not in answer.text
    assert not (registries / "none").exists()


def test_an_error_in_place_of_a_part_renews_itself_as_that_did(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page goes on asking after an error; a page that was opened with the error does not, since its frame is another one."""
    renewing = {"hx-get", "hx-trigger", "hx-select", "hx-swap"}
    for path, part in (("", "tables"), ("tables/trips", "content")):
        asking = {"hx-request": "true", "hx-target": part}
        before = parsed(client_of().get(path, headers=asking).text).one(id=part).attributes
        with monkeypatch.context() as patched:
            patched.setenv("HUDI_OPS_REGISTRY", "no-url")
            answers = [client_of().get(path, headers=headers) for headers in (asking, {})]
        assert [one.status_code for one in answers] == [503, 503]
        amid, opened_so = (parsed(one.text) for one in answers)
        assert {name: amid.one(id=part).attributes.get(name) for name in renewing} == {
            name: before[name] for name in renewing
        }
        assert len([one for one in amid.all() if "hx-get" in one.attributes]) == 1
        assert [one for one in opened_so.all() if "hx-get" in one.attributes] == []


# ---- wrong requests ----

NAMES = {
    "dots": "%2e%2e",
    "dots and a slash": "..%2f..%2fetc%2fpasswd",
    "a slash": "trips%2Friders",
    "a blank": "a%20b",
    "markup": "%3Cscript%3Ealert(1)%3C/script%3E",
    "NUL": "a%00b",
    "no UTF-8": "%ff%fe",
    "10 kB": "a" * 10_240,
    "line": "a%0ab",
    "unknown": "none",
    "half of a character": "%ed%a0%80",
}


@pytest.mark.parametrize("kind", NAMES)
def test_a_wrong_name_is_4xx_shown_as_text(world: Path, kind: str) -> None:
    answer = client_of().get(f"http://page.test/hudi-ops/tables/{NAMES[kind]}")
    assert 400 <= answer.status_code < 500
    shown = parsed(answer.text)
    assert all("src" in one.attributes and not one.text for one in shown.all("script"))
    assert len(answer.text) < 5_000


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("?page=0", 422),
        ("?page=x", 422),
        ("?sort=%3Cb%3E", 422),
        ("?page=99999999999999999999", 422),
        ("?page=999", 200),
        ("?search=%00", 200),
        ("?search=%25", 200),
        (f"?search={'x' * 3000}", 200),
        ("no/such/page", 404),
        ("assets/page.py", 404),
        ("assets/..%2fapp.py", 404),
        ("assets/%2e%2e/app.py", 404),
        ("docs", 404),
        ("openapi.json", 404),
    ],
)
def test_wrong_values_and_paths_have_a_page_of_their_own(world: Path, path: str, status: int) -> None:
    answer = client_of().get(f"http://page.test/hudi-ops/{path}")
    assert answer.status_code == status, answer.text
    assert parsed(answer.text).one("main", id="content")


# ---- what every answer has ----


def test_every_answer_has_the_headers(world: Path) -> None:
    class Broken(FakeRights):
        async def reader(self, request: Any) -> Any:
            raise RuntimeError("sesame")

    asked = [
        ("GET", ""),
        ("GET", "tables/trips"),
        ("GET", "tables/none"),
        ("GET", "no/such"),
        ("POST", "tables/x/look"),
    ]
    asked += [("GET", f"assets/{name}") for name in TYPES]
    answers = [client_of(rights).request(*one) for one in asked for rights in (FakeRights(), FakeRights(None))]
    answers += [client_of().put(""), client_of().put("", headers={"sec-fetch-site": "none"})]
    answers += [client_of(raise_server_exceptions=False, rights=Broken()).get("")]
    assert {one.status_code for one in answers} >= {200, 401, 403, 404, 405, 500}
    for answer in answers:
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, answer.url
        kept = answer.headers["cache-control"]
        assert kept == "no-store" or "/assets/" in str(answer.url), answer.url
        assert "sesame" not in answer.text
    assert re.sub(r"'self'|'none'|data:", "", POLICY).split() == [
        *("default-src", ";", "base-uri", ";", "img-src", ";", "script-src", ";", "style-src", ";", "connect-src", ";"),
        *("form-action", ";", "frame-ancestors"),
    ]


def test_assets_are_kept_by_the_digest_of_their_content(world: Path) -> None:
    client = client_of()
    shown = parsed(client.get("tables/trips").text)
    links = [str(one.attributes["href"]) for one in shown.all("link")] + [
        str(one.attributes["src"]) for one in shown.all("script")
    ]
    assert {link.partition("?")[0] for link in links} == {
        f"../assets/{name}" for name in ("page.css", "page.js", "theme.js", "htmx.min.js", "icon.svg")
    }
    for link in links:
        answer = client.get(link.removeprefix("../"))
        assert (answer.status_code, "immutable" in answer.headers["cache-control"]) == (200, True)
        assert "immutable" not in client.get(link.removeprefix("../").partition("?")[0]).headers["cache-control"]


def test_a_websocket_is_closed_and_the_lifespan_passes() -> None:
    with TestClient(make_app(FakeRights(None))) as client, pytest.raises(WebSocketDisconnect) as closed:
        client.websocket_connect("/").__enter__()
    assert closed.value.code == 1008


def test_a_fault_of_a_route_is_a_page_without_its_text(world: Path) -> None:
    app = make_app(FakeRights())

    def fails() -> None:
        raise RuntimeError("secret")

    app.add_api_route("/fails", fails)
    outer = FastAPI()
    outer.mount("/hudi-ops", app)
    answer = TestClient(outer, raise_server_exceptions=False).get("/hudi-ops/fails")
    assert (answer.status_code, answer.headers["content-security-policy"]) == (500, POLICY)
    assert "secret" not in answer.text
    assert "fault of the page" in answer.text


# ---- nothing inline, nothing unescaped ----


def offences(page: Element) -> Iterator[str]:
    """What the policy forbids, or would let a text act."""
    for one in page.all():
        if one.tag == "style" or (one.tag == "script" and ("src" not in one.attributes or one.children)):
            yield f"inline <{one.tag}>"
        for name, value in one.attributes.items():
            if name == "style" or name.startswith(("on", "hx-on", "data-hx-on")):
                yield f"{name} of <{one.tag}>"
            if name in {"href", "src", "action"} and (value or "").partition(":")[0].lower() in {
                "javascript",
                "data",
                "http",
            }:
                yield f"{name}={value}"


def test_nothing_is_inline_in_pages_and_templates(world: Path) -> None:
    for path in ("", "tables/trips", "tables/riders", "tables/gone", "tables/none", "?sort=x"):
        assert list(offences(parsed(client_of().get(path).text))) == [], path
    templates = sorted((FOLDER / "templates").rglob("*.html"))
    assert len(templates) >= 10
    for file in templates:
        text = file.read_text()
        found = re.findall(
            r"\bstyle\s*=|<style|\bon[a-z]+\s*=|\|\s*safe\b|autoescape|hx-on|<script(?![^>]*\bsrc=)", text
        )
        assert found == [], file.name


def hostile(value: Any, name: str = "") -> Any:
    """A copy of a value with a hostile text behind every other text that is not empty."""
    match value:
        case str() if value and name not in COLUMNS and not re.fullmatch(r"\d{17}", value):
            return value + HOSTILE
        case dict():
            return {key: hostile(one, key) for key, one in value.items()}
        case list():
            return [hostile(one, name) for one in value]
    return value


def test_no_text_of_a_table_becomes_html(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: the same table with and without hostile texts has the same elements with the same attributes."""
    details = table_named(opened(), "trips")
    assert details is not None
    assert details.verdict is not None
    assert details.picture is not None
    error = {"error": "Unavailable", "exit_code": 13, "message": "storage did not answer"}
    lease = {
        "instant": "20260601000000000",
        "role": "writer",
        "owner": "worker:1",
        "run": "",
        "beat_ms": 0,
        "is_dead": True,
    }
    line = {"owner": "worker:1", "host": "worker", "run": "", "purpose": "commit", "since_ms": 0}
    picture = details.picture | {
        "leases": [lease],
        "lock": {"lock": "zookeeper://a/b", "is_visible": True, "line": [line]},
        "errors": {"indexes": error},
    }
    checks = [dict(one, error=error if at == 0 else None) for at, one in enumerate(details.verdict["checks"])]
    verdict = details.verdict | {"checks": checks, "note": "a note"}
    run = Run(
        "r", "clean", "failed", 0, 1000, "20260601000000000", note="it failed", error=error, dag_run="", requester="ben"
    )
    shown = {}
    for kind in ("plain", "hostile"):
        monkeypatch.setenv("HUDI_OPS_REGISTRY", f"sqlite:///{tmp_path}/{kind}.db")
        migrate()
        change = hostile if kind == "hostile" else lambda value, name="": value
        key = TableKey("t", "s3://lake/t" + (HOSTILE if kind == "hostile" else ""), "id")
        told = {name: change(one, name) for name, one in verdict.items()} | {
            "table": "t",
            "path": key.location,
            "seen": None,
        }
        taken = {name: change(one, name) for name, one in picture.items()} | {"path": key.location, "table_id": "id"}
        record_verdict(opened(), key, HealthVerdict.model_validate(told))
        record_picture(opened(), key, Picture.model_validate(taken))
        named = {name: change(getattr(run, name), name) for name in ("note", "error", "requester")}
        record_run(opened(), key, replace(run, **named))
        shown[kind] = [client_of().get(path).text for path in ("", "tables/t")]
    for plain, changed in zip(shown["plain"], shown["hostile"], strict=True):
        assert HOSTILE not in changed
        page = parsed(changed)
        assert list(offences(page)) == []
        assert not page.all("img")
        kept = [one for one in elements(page) if one[0] not in {"code", "button", "span"}]
        assert kept == [one for one in elements(parsed(plain)) if one[0] not in {"code", "button", "span"}]
    table = shown["hostile"][1]
    assert table.count(escape("<script>alert(1)</script>")) > 100
    assert "49" not in re.findall(r"7\*7|\b49\b", table), "a text was rendered as a template"


# ---- what is loaded ----

PROGRAM = """
import json, sys
from fastapi import FastAPI
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from hudi_ops.page.app import make_app
from hudi_ops.page.rights import Reader
class Rights:
    async def reader(self, request): return Reader("anna", lambda dag: True)
    async def log(self, *given): pass
client = TestClient(make_app(Rights()))
said = [client.get(path).status_code for path in ("/", "/tables/trips", "/assets/page.css")]
heavy = ("pyarrow", "numpy", "pandas", "pyspark", "obstore", "kazoo", "airflow")
print(json.dumps([said, [name for name in heavy if name in sys.modules]]))
"""


def test_the_server_does_not_load_what_reads_tables(world: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    assert json.loads(done.stdout.strip().splitlines()[-1]) == [[200, 200, 200], []]


def test_a_registry_that_hangs_takes_no_thread_of_the_server(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released, found = Event(), reading.opened

    def hanging() -> Any:
        released.wait(60)
        return found()

    monkeypatch.setattr(threads, "LIMIT_S", 0.2)
    monkeypatch.setattr(reading, "opened", hanging)
    client = client_of()
    for _ in range(threads.THREADS + 2):
        begun_s = monotonic()
        answer = client.get("")
        assert answer.status_code == 503
        assert "did not answer in time" in answer.text
        assert monotonic() - begun_s < 5
    assert client.get("assets/page.css").status_code == 200
    released.set()
    until_s = monotonic() + 20
    while client.get("").status_code != 200:
        assert monotonic() < until_s, "its threads did not come back"
