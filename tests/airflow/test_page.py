"""The page in the real Airflow: who may open and change what, what Airflow lists of it, and what it costs other processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from hudi_ops.page.guard import POLICY
from hudi_ops.registry.database import opened
from hudi_ops.registry.migrate import migrate
from hudi_ops.registry.recording import record_table
from hudi_ops.registry.rows import TableKey
from tests.airflow.plugin_routes import Address, addresses_of, answers, plugin_addresses

ROOT = Path(__file__).resolve().parents[2]
PAGE = "/hudi-ops/"
CANCEL = {"instant": "20260601000000000", "reason": "the cluster is needed elsewhere"}
COOKIE = "_token"


@pytest.fixture(scope="module")
def world(airflow_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A registry with one table, which tables.yaml declares."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "tables.yaml").write_text(f"tables: {{trips: {{path: {folder}/trips, record_key: [id]}}}}\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HUDI_OPS_TABLES", str(folder / "tables.yaml"))
        patched.setenv("HUDI_OPS_REGISTRY", f"sqlite:///{folder}/registry.db")
        migrate()
        record_table(opened(), TableKey("trips", f"file://{folder}/trips"), {}, 0)
        yield folder


@pytest.fixture(scope="module")
def airflow(world: Path) -> Iterator[TestClient]:
    """Airflow's API server with its plugins."""
    from airflow.api_fastapi.app import create_app, purge_cached_app

    purge_cached_app()
    with TestClient(create_app(apps="core"), base_url="http://airflow.test") as client:
        yield client
    purge_cached_app()


@pytest.fixture(scope="module")
def token(airflow: TestClient) -> Callable[..., str]:
    """Token of a user of a role."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    def made(role: str | None, name: str = "", teams: list[str] | None = None) -> str:
        user = SimpleAuthManagerUser(username=name or f"the-{role}", role=role, teams=teams)
        return get_auth_manager().generate_jwt(user)

    return made


@pytest.fixture(scope="module")
def addresses(airflow: TestClient) -> list[Address]:
    """All routes of all plugins."""
    found = plugin_addresses()
    assert {"/hudi-ops/", "/hudi-ops/tables/trips", "/hudi-ops/assets/page.css"} <= {one.path for one in found}
    assert {one.path.rpartition("/")[2] for one in found if one.changes} >= {"cancel", "look", "preview", "state"}
    return found


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_anonymous_requests_are_401_on_every_route(airflow: TestClient, addresses: list[Address]) -> None:
    found = answers(airflow, addresses, {})
    assert {one: status for one, status in found.items() if status != 401} == {}
    wrong = answers(airflow, addresses, bearer("not-a-token"))
    assert {one: status for one, status in wrong.items() if status not in {401, 403}} == {}


def test_a_user_without_a_role_gets_403_on_every_route(
    airflow: TestClient, addresses: list[Address], token: Callable[..., str]
) -> None:
    for headers, cookies in ((bearer(token(None)), {}), ({"sec-fetch-site": "same-origin"}, {COOKIE: token(None)})):
        found = answers(airflow, addresses, headers, cookies)
        assert {one: status for one, status in found.items() if status != 403} == {}


def test_the_sweep_finds_an_application_without_rights(airflow: TestClient) -> None:
    """The proof that the sweeps above can fail: an application as Airflow mounts it, with one open route."""
    open_app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    open_app.add_api_route("/open/{name}", lambda name: {"name": name}, methods=["GET"])
    outer = FastAPI()
    outer.mount("/other", open_app)
    with TestClient(outer) as client:
        found = answers(client, list(addresses_of(open_app, "/other")), {})
    assert found[Address("GET", "/other/open/trips")] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "cross-site", "origin": "http://airflow.test"},
        {},
        {"origin": "null"},
        {"origin": "https://airflow.test"},
        {"origin": "http://airflow.test:81"},
        {"origin": "http://airflow.test.evil.example"},
        {"origin": "http://evil.example", "x-forwarded-host": "evil.example"},
    ],
)
def test_changes_from_other_sites_are_refused_on_every_route(
    airflow: TestClient, addresses: list[Address], token: Callable[..., str], headers: dict[str, str]
) -> None:
    changing = [one for one in addresses if one.changes]
    found = answers(airflow, changing, headers, {COOKIE: token("admin")})
    assert {one: status for one, status in found.items() if status != 403} == {}


def test_changes_from_the_page_itself_pass(airflow: TestClient, token: Callable[..., str]) -> None:
    """A cancel without a reason is refused for that, so the guard has let it pass; reading passes from everywhere."""
    path = f"{PAGE}tables/trips/cancel"
    passing = [
        {"sec-fetch-site": "same-origin"},
        {"origin": "http://airflow.test"},
        {"origin": "http://AIRFLOW.test:80"},
    ]
    airflow.cookies.set(COOKIE, token("admin"))
    assert [airflow.post(path, json={}, headers=one).status_code for one in passing] == [422] * 3
    assert airflow.get(PAGE, headers={"sec-fetch-site": "cross-site"}).status_code == 200
    airflow.cookies.clear()
    assert airflow.post(path, json={}, headers=bearer(token("admin"))).status_code == 422


def test_viewers_read_and_change_nothing(
    airflow: TestClient, addresses: list[Address], token: Callable[..., str]
) -> None:
    found = answers(airflow, addresses, {"sec-fetch-site": "same-origin"}, {COOKIE: token("viewer")})
    reading = {one.path: status for one, status in found.items() if one.method == "GET"}
    assert reading == {path: 404 if path.endswith("/no/such/route") else 200 for path in reading}
    assert airflow.post(f"{PAGE}tables/trips/cancel", json=CANCEL, headers=bearer(token("viewer"))).status_code == 403
    page = airflow.get(f"{PAGE}tables/trips", headers=bearer(token("viewer")))
    assert "You may not start runs of the DAG compaction." in page.text
    assert "You may not" not in airflow.get(f"{PAGE}tables/trips", headers=bearer(token("op"))).text
    assert page.headers["content-security-policy"] == POLICY


def test_a_cancel_is_in_the_audit_log_with_its_user(airflow: TestClient, token: Callable[..., str]) -> None:
    """The table does not exist, so the cancel itself fails: it was logged before."""
    answer = airflow.post(f"{PAGE}tables/trips/cancel", json=CANCEL, headers=bearer(token("op", "anna")))
    assert answer.status_code >= 400, answer.text
    assert answer.status_code not in {401, 403}, answer.text
    rows = airflow.get("/api/v2/eventLogs?event=hudi_ops.cancel", headers=bearer(token("admin"))).json()["event_logs"]
    (row,) = [one for one in rows if one["owner"] == "anna"]
    assert json.loads(row["extra"]) == {"table": "trips", **CANCEL, "force": False, "method": "POST"}


def test_a_dag_of_another_team_closes_the_page(airflow: TestClient, token: Callable[..., str]) -> None:
    """As for Airflow's own routes: who is not of the team of the DAG `health` may not read it."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.team import Team
    from airflow.utils.session import create_session

    with create_session() as session:
        bundle = DagBundleModel(name="lake")
        bundle.teams.append(Team(name="lake"))
        session.add(bundle)
        session.flush()
        # Another test of this process may have run the DAG.
        dag = session.get(DagModel, "health")
        bundle_before = dag.bundle_name if dag is not None else None
        if dag is None:
            session.add(DagModel(dag_id="health", bundle_name="lake", is_paused=False))
        else:
            dag.bundle_name = "lake"
    DagModel.get_team_name.cache.clear()
    try:
        found = [airflow.get(PAGE, headers=bearer(token("viewer", teams=teams))) for teams in ([], ["lake"])]
        assert [one.status_code for one in found] == [403, 200]
    finally:
        with create_session() as session:
            if bundle_before is None:
                session.delete(session.get(DagModel, "health"))
            else:
                session.get(DagModel, "health").bundle_name = bundle_before
            session.flush()
            for model in (DagBundleModel, Team):
                session.delete(session.get(model, "lake"))
                session.flush()
        DagModel.get_team_name.cache.clear()


def test_airflow_lists_the_plugin_without_errors(airflow: TestClient, token: Callable[..., str]) -> None:
    admin = bearer(token("admin"))
    assert airflow.get("/api/v2/plugins/importErrors", headers=admin).json()["import_errors"] == []
    plugins = airflow.get("/api/v2/plugins", headers=admin).json()["plugins"]
    (ours,) = [one for one in plugins if one["name"] == "hudi_ops_page"]
    (view,) = ours["external_views"]
    assert (view["destination"], view["url_route"]) == ("nav", "hudi-ops")
    for link in (view["href"], view["icon"], view["icon_dark_mode"]):
        assert not link.startswith(("/", "http")), "a proxy at a path would lose it"
        assert airflow.get(f"/{link}", headers=admin).status_code == 200


def test_without_airflows_security_modules_every_route_is_closed(
    airflow: TestClient, token: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hudi_ops.plugins.hudi_ops_security import guarded_page

    monkeypatch.setitem(sys.modules, "airflow.api_fastapi.core_api.security", None)
    closed = guarded_page()
    outer = FastAPI()
    outer.mount(PAGE.rstrip("/"), closed)
    with TestClient(outer) as client:
        found = answers(client, list(addresses_of(closed, PAGE.rstrip("/"))), bearer(token("admin")))
        said = client.get(PAGE, headers=bearer(token("admin"))).text
    assert set(found.values()) == {403}
    assert "security modules cannot be loaded" in said


def test_without_the_extra_the_page_says_so_and_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    from hudi_ops.plugins.hudi_ops_page import LazyPage

    monkeypatch.setitem(sys.modules, "hudi_ops.page.app", None)
    outer = FastAPI()
    outer.mount("/hudi-ops", LazyPage())
    answer = TestClient(outer).get(PAGE)
    assert (answer.status_code, "hudi-ops[page]" in answer.text) == (503, True)


LOADING = """
import importlib.metadata, json, sys, time
import airflow.plugins_manager
(plugin,) = importlib.metadata.entry_points(group="airflow.plugins", name="hudi_ops_page")
before, begun = set(sys.modules), time.process_time()
assert plugin.load().name == "hudi_ops_page"
print(json.dumps({"ms": (time.process_time() - begun) * 1000, "loaded": sorted(set(sys.modules) - before)}))
"""


def test_other_processes_load_nothing_with_the_plugin() -> None:
    """Scheduler, triggerer and workers load the entry point; the best of three times counts: others use the processor, too."""

    def loaded() -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-c", LOADING], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
        )
        return json.loads(done.stdout.strip().splitlines()[-1])

    found = [loaded() for _ in range(3)]
    ours = {name for name in found[0]["loaded"] if name.partition(".")[0] == "hudi_ops"}
    # The package itself, and the folder of the plugins in it, are empty.
    assert ours - {"hudi_ops", "hudi_ops.plugins"} == {"hudi_ops.plugins.hudi_ops_page"}
    packages = {name.partition(".")[0] for name in found[0]["loaded"]}
    assert packages & {"pyarrow", "fastapi", "starlette", "sqlalchemy", "jinja2", "airflow"} == set()
    assert min(one["ms"] for one in found) < 50
