"""The page in Airflow, as users meet it: trouble is seen, mended, watched; an execution is cancelled; by mouse and by keyboard.

Goal: the page, its rights and its scripts work in a real browser, in a real Airflow, and say what the command line says. Method:
one Airflow for all tests; users never leave the browser. A request to another host, and any error of the console, fails a test.
"""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from hudi_ops.health.verdict import HealthVerdict
from tests.browser.proxy import proxied
from tests.browser.user import User
from tests.browser.world import World, rows, wait_until

MARKS = {"running": "▶ ", "aborted": "✕ "}
"""State of a plan -> its mark on the page."""

REASON = "readers need the old files until noon"


@contextmanager
def signed_in(browser: Browser, address: str, name: str = "op", **context: Any) -> Iterator[User]:
    """Sign a user in; at the end the window is closed, and nothing foreign or wrong was seen."""
    user = User(browser, address, name, **context)
    user.sign_in()
    yield user
    user.close()


def verdicts_of(world: World) -> dict[str, HealthVerdict]:
    """Return what the command line says about all tables."""
    said = world.cli("health", "--all", codes=(2, 4, 13))
    return {one["table"]: HealthVerdict.model_validate(one) for one in said["tables"]}


def test_trouble_is_seen_worst_first_and_mended(world: World, browser: Browser) -> None:
    with signed_in(browser, world.airflow.address) as user:
        user.open_tables()
        verdicts = verdicts_of(world)
        assert user.names() == ["returns", "clicks", "orders", "rides", "trips", "riders"]
        shown = {"not_applicable": "n/a"}
        assert user.statuses() == {
            name: {one.check: shown.get(one.status, one.status) for one in verdict.checks}
            for name, verdict in verdicts.items()
        }
        user.open_table("clicks")
        (missed,) = verdicts["clicks"].missed
        said = user.check(missed.check)
        assert said["values"] == {one.name: one.value for one in missed.measures}
        assert said["evidence"] == [one.name for one in missed.evidence]
        assert said["commands"] == list(missed.commands)
        assert said["note"] == missed.note
        user.frame.get_by_role("button", name="Preview and run").first.click()
        dialog = user.said("This is what it would do")
        dry_run = world.cli("compact", "clicks", "--dry-run")
        assert missed.commands[0] in dialog
        assert all(one["file_id"] in dialog for one in dry_run["verdicts"])
        user.frame.get_by_role("button", name="Run", exact=True).click()
        assert "succeeded" in user.said("The table was looked at again", 120)
        user.frame.get_by_role("button", name="Close").click()
        user.frame.locator("#content .state").filter(has_text="healthy").wait_for()
        assert verdicts_of(world)["clicks"].status == "healthy"


def test_a_clustering_is_cancelled_amid_its_work_and_the_next_ingestion_succeeds(
    world: World, browser: Browser
) -> None:
    with signed_in(browser, world.airflow.address) as user:
        user.open_tables()
        user.open_table("rides")
        held = world.held["rides"]
        instant = held.instant()
        user.frame.get_by_role("button", name="Fresh look").click()
        button = user.frame.locator(f"button[data-act=cancel][data-instant='{instant}']")
        button.wait_for()
        (pending,) = world.cli("plans", "rides")["plans"]
        assert user.plan(instant) == said_of(user.plan(instant), pending)
        button.click()
        dialog = user.text("#act")
        assert instant in dialog
        user.frame.get_by_label("Reason").fill(REASON)
        user.frame.get_by_role("button", name="Cancel plan").click()
        user.said("The cancel is requested")
        held.let_go()
        assert REASON in user.said("The plan is cancelled and removed")
        assert held.end() == "skipped"
        user.frame.get_by_role("button", name="Close").click()
        (plan,) = (one for one in world.cli("plans", "rides", "--aborted")["plans"] if one["instant"] == instant)
        assert (plan["state"], plan["reason"], plan["cancelled_by"]) == ("aborted", REASON, "op")
        user.frame.locator("#content tr[data-instant]", has_text=REASON).wait_for()
        assert user.plan(instant) == said_of(user.plan(instant), plan)
        ingest(world, "rides")
        user.frame.get_by_role("button", name="Fresh look").click()
        newest = world.cli("timeline", "rides")["instants"][-1]
        user.frame.locator("#content").filter(has_text=newest["time"]).wait_for()


def said_of(fields: Iterable[str], plan: dict[str, Any]) -> dict[str, str]:
    """Return fields of a plan of `hudi-ops plans --json` as the page shows them."""
    return {name: f"{MARKS.get(plan[name], '')}{plan[name]}".replace("`", "") for name in fields}


def ingest(world: World, table: str) -> None:
    """Put a file to where a table takes files from, and run the ingestion."""
    pyarrow.parquet.write_table(rows(5, 9), world.folder / "landing" / table / "9.parquet")
    run = world.airflow.trigger("ingestion", {"table": table, "engine": "local"})
    ended = world.airflow.wait("ingestion", run, "ingest", "success", "failed")
    assert ended["state"] == "success", world.airflow.log("ingestion", run, "ingest", 1)


@contextmanager
def proxied_airflow(world: World) -> Iterator[str]:
    """Pass a reverse proxy at `/airflow` to the second API server; return its address."""
    with proxied(world.proxy_port, world.second_port, "/airflow"):
        health = f"{world.proxied_address}/api/v2/monitor/health"
        wait_until(lambda: answers(health), "the second API server does not answer")
        yield world.proxied_address


def answers(url: str) -> bool:
    """Say whether a URL is answered."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_all_of_it_by_keyboard_behind_a_proxy_with_two_workers(world: World, browser: Browser) -> None:
    """Method: keys alone, from Airflow's navigation on; a page that says which button has the focus is enough to follow them."""
    held = world.begin_held("trips")
    with proxied_airflow(world) as address, signed_in(browser, address) as user:
        user.tab_to("Hudi", in_frame=False)
        user.keys("Enter")
        user.frame.locator("#tables").wait_for()
        user.tab_to("orders")
        user.keys("Enter")
        user.wait_for_table("orders")
        user.page.reload()  # the address that Airflow shows for the table is one of the table
        user.wait_for_table("orders")
        user.tab_to("Preview and run")
        user.keys("Enter")
        user.said("This is what it would do")
        user.tab_to("Run")
        user.keys("Enter")
        assert "succeeded" in user.said("The table was looked at again", 120)
        user.keys("Escape")
        user.frame.locator("#act:not([open])").wait_for(state="attached")

        user.tab_to("Hudi tables")
        user.keys("Enter")
        user.frame.locator("#tables").wait_for()
        user.tab_to("trips")
        user.keys("Enter")
        user.wait_for_table("trips")
        user.tab_to("Fresh look")
        instant = held.instant()
        user.keys("Space")
        user.frame.locator(f"button[data-act=cancel][data-instant='{instant}']").wait_for()
        user.tab_to("Cancel")
        user.keys("Enter")
        assert user.focused() == "Reason (required)"
        user.keys("Enter")
        user.frame.locator("#act-error").filter(has_text="why the plan is cancelled").wait_for()
        user.page.keyboard.type(REASON)
        user.keys("Enter")
        user.said("The cancel is requested")
        held.let_go()
        assert REASON in user.said("The plan is cancelled and removed")
        user.keys("Escape")
        assert held.end() == "skipped"


def test_users_without_rights_see_why(world: World, browser: Browser) -> None:
    with signed_in(browser, world.airflow.address, "viewer") as user:
        user.open_tables()
        user.open_table("rides")
        buttons = user.frame.locator("button[data-act=preview]")
        assert buttons.count() > 0
        for button in buttons.all():
            assert button.is_disabled()
            why = user.frame.locator(f"#{button.get_attribute('aria-describedby')}")
            assert "You may not start runs" in (why.text_content() or "")
    with signed_in(browser, world.airflow.address, "nobody") as user:
        user.page.goto(f"{world.airflow.address}/hudi-ops/")
        assert "403" in user.page.locator("body").inner_text()
        user.page.goto("about:blank")
        user.errors.clear()  # the browser reports each 403, Airflow's own ones as well


RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
PICTURES = {
    "tables-list": ("/plugin/hudi-ops", 600),
    "tables-trouble": ("/plugin/hudi-ops/hudi-ops/tables/rides", 1240),
}
"""Picture of the docs -> where it is in Airflow's pages, and its height."""


def test_list_table_and_dialog_are_accessible_in_both_themes(world: World, browser: Browser) -> None:
    images = os.environ.get("HUDI_OPS_IMAGES")
    with signed_in(browser, world.airflow.address, bypass_csp=True) as user:
        found = {}
        for theme in ("light", "dark"):
            user.page.evaluate("theme => localStorage.setItem('theme', theme)", theme)
            user.page.goto(f"{world.airflow.address}/hudi-ops/")
            found[theme, "list"] = violations(user)
            user.page.get_by_role("link", name="trips", exact=True).click()
            user.page.locator("body[data-page=table]").wait_for()
            found[theme, "table"] = violations(user)
            user.page.get_by_role("button", name="Preview and run").first.click()
            user.page.locator("#act-state").filter(has_text="This is what it would do").wait_for()
            assert user.page.locator("html").get_attribute("data-theme") == theme
            found[theme, "dialog"] = violations(user)
            if images:
                world.held["rides"].instant()
                world.cli("registry", "refresh", "--all", codes=(0, 2, 4))
                take_pictures(user, images, theme)
    assert {where: said for where, said in found.items() if said} == {}


def violations(user: User) -> list[str]:
    """Return what axe-core finds on the page as it is now."""
    said = Axe().run(user.page, options={"runOnly": {"type": "tag", "values": RULES}}).response
    return [
        f"{one['id']}: {node['html']} {node['failureSummary']}" for one in said["violations"] for node in one["nodes"]
    ]


def take_pictures(user: User, folder: str, theme: str) -> None:
    """Take the pictures of the docs, in Airflow's frame."""
    for name, (path, height) in PICTURES.items():
        user.page.set_viewport_size({"width": 1280, "height": height})
        user.page.goto(f"{user.address}{path}")
        user.frame.locator("#content").wait_for()
        user.page.wait_for_timeout(700)  # what fades in has done so
        user.page.screenshot(path=Path(folder) / f"{name}-{theme}.png")
