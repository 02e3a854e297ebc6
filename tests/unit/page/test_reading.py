"""What the pages say is what the command line says, and each button names the command beside it."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path

import pytest

from hudi_ops.clock import SystemClock
from hudi_ops.health.verdict import HealthVerdict, said_time, said_value
from hudi_ops.page.facts import AHEAD_MS, STALE_MS
from hudi_ops.page.formats import DASH
from hudi_ops.page.services import SERVICES
from hudi_ops.registry.database import opened
from hudi_ops.registry.migrate import migrate
from hudi_ops.registry.recording import record_run, record_table, record_verdict
from hudi_ops.registry.refresh import refresh
from hudi_ops.registry.rows import Run, TableKey
from hudi_ops.registry.store import list_tables, table_named
from tests.unit.page.shown_pages import Element, FakeRights, client_of, parsed, said

SHAPES = {"healthy": "✓", "missed": "▲", "unknown": "?", "off": DASH, "not_applicable": DASH}
WORDS = {"not_applicable": "n/a"}


def page(path: str, rights: FakeRights | None = None) -> Element:
    answer = client_of(rights).get(path)
    assert answer.status_code == 200, answer.text
    return parsed(answer.text)


def status(name: str) -> str:
    """The text of a status: a shape and a word, so that it can be read without colours."""
    return f"{SHAPES[name]} {WORDS.get(name, name)}"


def test_a_verdict_is_shown_as_the_command_line_says_it(world: Path) -> None:
    (verdict,) = said("health", "trips")["tables"]
    shown = page("tables/trips")
    assert shown.one("p", data_field="status").text == status(verdict["status"])
    assert {one["status"] for one in verdict["checks"]} >= {"missed", "healthy", "not_applicable"}
    for check in verdict["checks"]:
        block = shown.one(data_check=check["check"])
        assert status(check["status"]) in block.text
        for measure in check["measures"]:
            measured = block.one(data_measure=measure["name"])
            for name in ("value", "target"):
                if measure[name] is not None and (name == "target" or measure["unit"] != "s"):  # ages go on
                    assert said_value(measure[name], measure["unit"]) in measured.text.split(measure["name"])[-1]
            assert ("above target" in measured.text) == measure["missed"]
        if check["status"] == "missed":
            evidence = [one.text for one in block.all(data_field="evidence")]
            assert evidence == [f"{one['kind']} {one['name']} {one['detail']}" for one in check["evidence"]]
            commands = [one.all("code")[0].text for one in block.all(class_="command")]
            assert commands == list(Counter(check["commands"]))
        assert check["note"] in block.text


def test_plans_are_shown_as_the_command_line_says_them(world: Path) -> None:
    plans = {plan["instant"]: plan for plan in said("plans", "trips", "--aborted")["plans"]}
    assert {plan["state"] for plan in plans.values()} == {"planned", "aborted"}
    shown = {
        one.attributes["data-instant"]: one
        for one in page("tables/trips").all("tr")
        if "data-instant" in one.attributes
    }
    assert shown.keys() == plans.keys()
    for instant, plan in plans.items():
        fields = {
            one.attributes["data-field"]: one.text for one in shown[instant].all() if "data-field" in one.attributes
        }
        assert fields["state"].partition(" ")[2] == plan["state"]
        compared = fields.keys() - {"state"}
        assert {"instant", "action", "next"} <= compared
        assert {name: fields[name] for name in compared} == {
            name: str(plan[name]).replace("`", "") if plan[name] is not None else DASH for name in compared
        }


def test_buttons_name_the_command_beside_them(world: Path) -> None:
    shown = page("tables/trips")
    previews = shown.all("button", data_act="preview")
    assert previews
    assert json.loads(shown.one("body").attributes["data-services"] or "") == [*SERVICES]
    for button in previews:
        words = json.loads(button.attributes["data-command"] or "")
        if button.parent and button.parent.attributes.get("class") == "command":
            assert shlex.join(["hudi-ops", *words]) == button.parent.all("code")[0].text
        assert words[1] == "trips"
        assert button.attributes["data-service"]
        assert "disabled" not in button.attributes
    (plan,) = said("plans", "trips")["plans"]
    cancel = shown.one("button", id=f"cancel-{plan['instant']}")
    given = {
        name: cancel.attributes[f"data-{name}"] for name in ("act", "instant", "action", "executor", "groups", "policy")
    }
    wanted = {name: str(plan[name]) for name in ("instant", "action", "executor", "groups", "policy")}
    assert given == {"act": "cancel", **wanted}
    run = shown.one("button", id=f"run-{plan['instant']}")
    assert json.loads(run.attributes["data-command"] or "") == [
        "compact",
        "trips",
        "execute",
        "--instant",
        plan["instant"],
    ]


def test_buttons_without_a_right_are_disabled_and_say_why(world: Path) -> None:
    """Who may run the DAG of the table may press its buttons, and no other ones."""
    shown = page("tables/trips", FakeRights(may=lambda dag: dag == "compaction__trips"))
    buttons = shown.all("button", class_="act")
    enabled = {one.attributes["data-act"] for one in buttons if "disabled" not in one.attributes}
    services = {
        one.attributes["data-service"]
        for one in shown.all("button", data_act="preview")
        if "disabled" not in one.attributes
    }
    assert (enabled, services) == ({"preview", "look"}, {"compaction"})
    for button in buttons:
        if "disabled" in button.attributes:
            why = shown.one("span", id=str(button.attributes["aria-describedby"]))
            assert why.text.startswith("You may not start runs of the DAG")


def test_each_instant_is_a_mark_and_a_row(world: Path) -> None:
    instants = said("timeline", "trips")["instants"]
    shown = page("tables/trips")
    marks = [one.all("title")[0].text for one in shown.all("g", class_="dot") if one.all("title")]
    words = [one["state"] if one["state"] in {"completed", "aborted"} else "pending" for one in instants]
    begun = [f"{one['time']} {one['action']} {word}" for one, word in zip(instants, words, strict=True)]
    assert [mark.startswith(text) for mark, text in zip(marks, begun, strict=True)] == [True] * len(instants)
    rows = shown.one(aria_label="Instants").all("tr")[1:]
    assert [row.all("th")[0].text for row in rows] == [one["time"] for one in reversed(instants)]
    legend = [one.text for one in shown.one(class_="legend").all("li")]
    assert legend == [f"{len(instants) - 2} completed", "1 pending", "0 cancelled", "1 aborted"]


def test_facts_indexes_and_keepers_are_shown(world: Path) -> None:
    shown, about = page("tables/trips"), said("show", "trips")
    for name in ("type", "version", "index", "partitions", "file_groups", "log_files"):
        assert shown.one("dd", data_field=name).text == str(about[name])
    indexes = {one["name"]: one for one in said("index", "trips", "show")["indexes"]}
    rows = {row.all("th")[0].text: row for row in shown.one(aria_label="Indexes").all("tr")[1:]}
    assert rows.keys() == indexes.keys()
    assert {name: row.one(data_field="state").text for name, row in rows.items()} == {
        name: one["state"] for name, one in indexes.items()
    }
    assert "savepoint" in shown.one(aria_label="Files kept").text


def test_the_list_is_worst_first_and_searches_sorts_and_counts(world: Path) -> None:
    rows = {row.all("th")[0].all("a")[0].text: row for row in page("").one("tbody").all("tr")}
    assert list(rows) == ["gone", "trips", "riders"]
    (verdict,) = said("health", "trips")["tables"]
    assert {one["check"]: status(one["status"]) for one in verdict["checks"]} == {
        str(one.attributes["data-check"]): one.text for one in rows["trips"].all("td", class_="check")
    }
    assert "is not a Hudi table" in rows["gone"].one("td", data_field="status").text
    assert [one.text for one in page("").all(class_="tally")] == ["▲ missed 1", "? unknown 1", "✓ healthy 1"]
    assert [one.all("a")[0].text for one in page("?sort=name").all("th", scope="row")] == ["gone", "riders", "trips"]
    assert [one.all("a")[0].text for one in page("?search=IDE").all("th", scope="row")] == ["riders"]
    assert "No table has “<x>”" in page("?search=%3Cx%3E").one("main").text


def test_links_lead_to_tables_and_back(world: Path) -> None:
    client = client_of()
    (link,) = [one for one in parsed(client.get("").text).all("a") if one.text == "trips"]
    there = client.get(str(link.attributes["href"]))
    assert there.status_code == 200
    back = parsed(there.text).all("a", href="../")[0]
    assert client.get(str(there.url.join(str(back.attributes["href"])))).status_code == 200


@pytest.mark.parametrize("path", ["", "tables/trips"])
def test_an_unchanged_page_is_not_sent_again(world: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = SystemClock().now_ms()  # a new token each five minutes
    monkeypatch.setattr(SystemClock, "now_ms", lambda clock: now_ms)
    client = client_of()
    shown = parsed(client.get(path).text)
    (asks,) = [one for one in shown.all() if "hx-headers" in one.attributes]
    known = json.loads(str(asks.attributes["hx-headers"]))
    assert client.get(path, headers=known).status_code == 204
    assert client.get(path, headers={"X-Known": "0123456789abcdef"}).status_code == 200
    assert client_of(FakeRights(may=lambda dag: False)).get("tables/trips", headers=known).status_code == 200
    # Each worker of the server has other addresses of functions.
    assert " at 0x" not in repr([*SERVICES.values()])


def test_all_addresses_are_relative_also_behind_a_proxy_at_a_path(world: Path) -> None:
    for path in ("", "tables/trips", "tables/none", "tables/a/b/c"):
        shown = parsed(client_of(path="/airflow").get(path).text)
        named = [
            one.attributes[name]
            for one in shown.all()
            for name in ("href", "src", "hx-get", "action")
            if name in one.attributes
        ]
        assert named
        assert [one for one in named if one is not None and (one.startswith("/") or ":" in one.partition("?")[0])] == []


class TestOtherTables:
    """Tables that no process looks at here: the registry is filled by hand."""

    @pytest.fixture
    def registry(self, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("HUDI_OPS_REGISTRY", f"sqlite:///{tmp_path}/other.db")
        migrate()
        return world

    def test_a_table_that_was_never_judged(self, registry: Path) -> None:
        record_table(opened(), TableKey("new", "s3://lake/new"), {}, 0)
        assert "This table was never judged." in page("tables/new").one("main").text
        assert "○ never judged" in page("").one("tbody").text

    def test_an_old_verdict_is_said_to_be_stale(self, registry: Path) -> None:
        now_ms = SystemClock().now_ms()
        ages = {"old": STALE_MS + 60_000, "fresh": STALE_MS - 60_000, "ahead": -60_000, "later": -2 * AHEAD_MS}
        for name, age_ms in ages.items():
            verdict = HealthVerdict(table=name, at=said_time(now_ms - age_ms), status="healthy", exit_code=0)
            record_verdict(opened(), TableKey(name, f"s3://lake/{name}"), verdict)
        rows = {row.all("th")[0].all("a")[0].text: row.text for row in page("").one("tbody").all("tr")}
        assert {name: "! stale" in text for name, text in rows.items()} == {
            **{"old": True, "fresh": False, "ahead": False, "later": True}
        }
        assert "! stale" in page("tables/old").one("main").text
        assert "! stale" not in page("tables/fresh").one("main").text

    def test_a_table_made_again_does_not_show_the_verdict_before(self, registry: Path) -> None:
        now_ms, place = SystemClock().now_ms(), "s3://lake/trips"
        before = HealthVerdict(
            table="trips", at=said_time(now_ms - 1000), status="missed", exit_code=4, note="of the first"
        )
        record_verdict(opened(), TableKey("trips", place, "first"), before)
        after = before.model_copy(update={"at": said_time(now_ms), "note": "of the second"})
        record_verdict(opened(), TableKey("trips", place, "second"), after)
        shown = page("tables/trips").one("main").text
        assert "of the second" in shown
        assert "of the first" not in shown
        assert "Another table was at this location or had this name." in shown
        assert "id first" in shown

    def test_a_deleted_table_shows_why_it_cannot_be_judged(self, registry: Path) -> None:
        refresh(["riders"], engine=opened())
        details = table_named(opened(), "riders")
        assert details is not None
        gone = {"error": "NotFound", "exit_code": 2, "message": "no such table\n  Next: make it"}
        at = said_time(SystemClock().now_ms())
        verdict = HealthVerdict(table="riders", at=at, status="unknown", exit_code=2, error=gone)
        record_verdict(opened(), TableKey("riders", details.row.location), verdict)
        shown = page("tables/riders").one("main")
        assert "The table cannot be judged" in shown.text
        assert shown.one(data_field="error").text == "no such table Next: make it"
        assert "from the last time it could be read" in shown.text

    def test_pages_of_the_list_hold_all_tables_once(self, registry: Path) -> None:
        names = [f"t{number:03}" for number in range(103)]
        for name in names:
            record_table(opened(), TableKey(name, f"s3://lake/{name}"), {}, 0)
        client, path, found = client_of(), "?sort=name", []
        while path:
            shown = parsed(client.get(path).text)
            found += [one.all("a")[0].text for one in shown.all("th", scope="row")]
            later = shown.all("a", id="next")
            path = str(later[0].attributes["href"]) if later else ""
        assert found == names
        assert list_tables(opened()).total == len(names)

    def test_a_run_links_to_airflow(self, registry: Path) -> None:
        key, now_ms = TableKey("trips", "s3://lake/trips"), SystemClock().now_ms()
        run = "compaction__trips/submit/manual__2026-06-01T00:00:00+00:00"
        record_run(
            opened(), key, Run("r", "compaction", "succeeded", now_ms - 5000, now_ms, dag_run=run, requester="ben")
        )
        address = "dags/compaction__trips/runs/manual__2026-06-01T00%3A00%3A00%2B00%3A00/tasks/submit"
        for path, airflow in (("", "../"), ("tables/trips", "../../")):
            (link,) = page(path).all("a", data_href=address)
            assert (link.attributes["href"], link.attributes["target"]) == (airflow + address, "_top")
        assert "ben" in page("tables/trips").one(aria_label="Runs").text
