"""Walk through the UI as a user does, in Chromium: sign in, use three forms well and badly, look at asset and run.

Run by `test_walk.py` as `walk.py ADDRESS PASSWORDS_FILE IMAGES_FOLDER`. Prints JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WAIT_S = 240


class Walk:
    """A signed-in page, and the folder of its pictures."""

    def __init__(self, page: Page, address: str, images: Path) -> None:
        self.page, self.address, self.images = page, address, images

    def picture(self, name: str) -> None:
        self.page.wait_for_timeout(1500)  # what fades in has done so
        self.page.screenshot(path=self.images / f"{name}.png")

    def go(self, path: str, text: str) -> None:
        self.page.goto(self.address + path, wait_until="domcontentloaded")
        self.page.get_by_text(text).first.wait_for(timeout=60_000)

    def sign_in(self, password: str) -> None:
        self.page.goto(self.address, wait_until="domcontentloaded")
        self.page.wait_for_selector("input[name=username]")
        self.picture("sign-in")
        self.page.fill("input[name=username]", "admin")
        self.page.fill("input[name=password]", password)
        self.page.click("button[type=submit]")
        self.page.get_by_text("Welcome").first.wait_for(timeout=60_000)

    def open_form(self, dag: str) -> None:
        self.go(f"/dags/{dag}", dag)
        self.page.get_by_role("button", name="Trigger").first.click(timeout=60_000)
        self.page.get_by_text("Run Parameters").wait_for(timeout=60_000)
        self.page.locator("[name=element_table]").wait_for(state="attached", timeout=60_000)

    def fill(self, field: str, text: str) -> None:
        self.page.locator(f"#element_{field}, [name=element_{field}]").first.fill(text)

    def submit(self) -> None:
        self.page.get_by_role("button", name="Trigger").last.click()

    def runs(self, dag: str) -> list[dict[str, Any]]:
        answer = self.page.request.get(f"{self.address}/api/v2/dags/{dag}/dagRuns?order_by=-id")
        return answer.json()["dag_runs"]

    def ended(self, dag: str, before: int) -> dict[str, Any]:
        """Wait for the run after `before` others."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            runs = self.runs(dag)
            if len(runs) > before and runs[0]["state"] in {"success", "failed"}:
                return runs[0]
            self.page.wait_for_timeout(1000)
        raise TimeoutError(f"{dag}: no run ended within {WAIT_S} s")

    def log(self, dag: str, run: str, task: str) -> str:
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/1"
        answer = self.page.request.get(self.address + path, headers={"Accept": "application/json"})
        return json.dumps(answer.json()["content"])

    def use(self, dag: str, task: str, wrong: tuple[str, str] | None) -> dict[str, Any]:
        """Use a form badly, or with its defaults; the log and the state of its run."""
        before = len(self.runs(dag))
        self.open_form(dag)
        if wrong:
            self.fill(*wrong)
        else:
            self.picture(f"form-{dag}")
        self.submit()
        run = self.ended(dag, before)
        if wrong:
            self.go(f"/dags/{dag}/runs/{run['dag_run_id']}/tasks/{task}", "Logs")
            self.page.get_by_text(f"{wrong[0]} cannot be").first.wait_for(timeout=60_000)
            self.picture(f"refused-{dag}")
        return {"state": run["state"], "log": self.log(dag, run["dag_run_id"], task)}

    def clear_engine(self) -> str:
        """Submit the form of `indexing` without an engine; what the page answers."""
        self.open_form("indexing")
        self.page.locator("#element_engine button[aria-label='Clear selected options']").click()
        self.page.wait_for_timeout(500)
        button = self.page.get_by_role("button", name="Trigger").last
        if button.is_enabled():
            button.click()
        self.picture("refused-indexing")
        return self.page.locator("body").inner_text()


def main(address: str, passwords: str, images: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
        walk = Walk(page, address, Path(images))
        walk.sign_in(json.loads(Path(passwords).read_text())["admin"])
        seen["ingestion badly"] = walk.use("ingestion", "ingest", ("source", "-x"))
        seen["compaction badly"] = walk.use("compaction", "plan", ("partitions", "--engine=spark"))
        seen["indexing badly"] = walk.clear_engine()
        reports = len(walk.runs("report"))
        seen["ingestion"] = walk.use("ingestion", "ingest", None)
        seen["report"] = walk.ended("report", reports)["state"]
        seen["compaction"] = walk.use("compaction", "execute", None)
        seen["indexing"] = walk.use("indexing", "execute", None)
        walk.go("/assets", "hudi://departures")
        page.get_by_text("hudi://departures").first.click()
        page.get_by_text("compaction").first.wait_for(timeout=60_000)
        walk.picture("asset-events")
        run = walk.runs("report")[-1]["dag_run_id"]
        walk.go(f"/dags/report/runs/{run}", "report")
        walk.picture("asset-run")
        events = page.request.get(f"{address}/api/v2/assets/events").json()["asset_events"]
        seen["events"] = [event["extra"] for event in sorted(events, key=lambda event: event["id"])]
        browser.close()
    return seen


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
