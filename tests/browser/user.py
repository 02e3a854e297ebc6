"""A user in Chromium, who opens the page in Airflow's frame; records requests to other hosts and errors of the console."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, FrameLocator, Page, Playwright, Request, Route

from tests.browser.world import password

ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WAIT_MS = 30_000
FOCUSED = """() => {
  const one = document.activeElement;
  if (!one || one === document.body || one.tagName === "IFRAME") return "";
  return one.getAttribute("aria-label") || one.labels?.[0]?.innerText || one.innerText || "";
}"""
STATUSES = """rows => Object.fromEntries(rows.map((row) => {
  const checks = [...row.querySelectorAll("[data-check]:has(.mark)")];
  const words = checks.map((one) => [one.dataset.check, one.innerText.trim().split(" ").pop()]);
  return [row.querySelector("th a").innerText, Object.fromEntries(words)];
}))"""


@contextmanager
def chromium(playwright: Playwright, profile: Path) -> Iterator[Browser]:
    """Start the browser of this machine; end it at the end."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    assert found is not None, "there is no browser. Next: bin/bootstrap --browser"
    browser = playwright.chromium.launch(
        executable_path=found, args=list(ARGUMENTS), env={"HOME": str(profile), "PATH": "/usr/bin:/bin"}
    )
    try:
        yield browser
    finally:
        browser.close()


class User:
    """A user with a window of the browser, at an address of Airflow."""

    def __init__(self, browser: Browser, address: str, name: str = "op", **context: Any) -> None:
        self.address, self.name = address, name
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **context)
        self.context.set_default_timeout(WAIT_MS)
        self.foreign: list[str] = []
        self.errors: list[str] = []
        self.context.route("**/*", self._route)
        self.page: Page = self.context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _route(self, route: Route, request: Request) -> None:
        asked, own = urlsplit(request.url), urlsplit(self.address)
        if asked.scheme in {"data", "blob"} or (asked.scheme, asked.netloc) == (own.scheme, own.netloc):
            route.continue_()
        else:
            self.foreign.append(request.url)
            route.abort()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def close(self) -> None:
        """Close the window; fail if the page asked another host, or the console has an error."""
        self.context.close()
        assert self.foreign == []
        assert self.errors == []

    def sign_in(self) -> None:
        """Sign in by the form."""
        self.page.goto(f"{self.address}/", wait_until="domcontentloaded")
        self.page.fill("input[name=username]", self.name)
        self.page.fill("input[name=password]", password(self.name))
        self.page.click("button[type=submit]")
        self.page.get_by_text("Welcome").first.wait_for()
        self.errors.clear()  # Airflow's own page asks before it sends one to the form, and is refused

    def open_tables(self) -> None:
        """Open the page by Airflow's navigation, and wait for the list."""
        self.page.get_by_role("link", name="Hudi", exact=True).click()
        self.frame.locator("#tables").wait_for()

    @property
    def frame(self) -> FrameLocator:
        """The page, in Airflow's frame."""
        return self.page.frame_locator("iframe")

    def text(self, selector: str = "#content") -> str:
        """Return what a part of the page says, with single blanks."""
        return " ".join(self.frame.locator(selector).first.inner_text().split())

    def names(self) -> list[str]:
        """Return the tables of the list, in its order."""
        return [link.inner_text() for link in self.frame.locator("#tables tbody th a").all()]

    def statuses(self) -> dict[str, dict[str, str]]:
        """Return what the list says of the checks of each table, without marks."""
        found: dict[str, dict[str, str]] = self.frame.locator("#tables tbody tr").evaluate_all(STATUSES)
        return found

    def plan(self, instant: str) -> dict[str, str]:
        """Return the fields that the page shows of a plan."""
        row = self.frame.locator(f"tr[data-instant='{instant}']").first
        fields = [
            (one.get_attribute("data-field") or "", one.inner_text()) for one in row.locator("[data-field]").all()
        ]
        return {name: " ".join(text.split()) for name, text in fields}

    def open_table(self, name: str) -> None:
        """Open a table of the list."""
        self.frame.get_by_role("link", name=name, exact=True).first.click()
        self.wait_for_table(name)

    def wait_for_table(self, name: str) -> None:
        """Wait until the page of a table is there."""
        self.frame.locator(f"body[data-page=table][data-table={name}]").wait_for()

    def check(self, name: str) -> dict[str, Any]:
        """Return what the page says about a check, as plain values."""
        card = self.frame.locator(f"[data-check={name}]").first
        values = {
            one.get_attribute("data-measure"): one.get_attribute("data-value")
            for one in card.locator("[data-measure]").all()
        }
        return {
            "values": {measure: float(value) if value else None for measure, value in values.items()},
            "evidence": card.locator("[data-field=evidence] code").all_inner_texts(),
            "commands": card.locator(".command code").all_inner_texts(),
            "note": " ".join(card.locator("[data-field=note]").all_inner_texts()),
        }

    def said(self, text: str, seconds: float = 60) -> str:
        """Wait until the dialog says a text; return all that it says."""
        self.frame.locator("#act-state").filter(has_text=text).wait_for(timeout=seconds * 1000)
        return self.text("#act")

    def keys(self, *names: str) -> None:
        """Press keys, one after another."""
        for name in names:
            self.page.keyboard.press(name)

    def tab_to(self, name: str, *, in_frame: bool = True, most: int = 100) -> None:
        """Press Tab until what has the focus is called by this name, in the frame or in Airflow's own page."""
        seen = []
        for _ in range(most):
            self.page.keyboard.press("Tab")
            seen.append(self.focused(in_frame=in_frame))
            if seen[-1] == name:
                return
        raise AssertionError(f"Tab never reaches {name!r}, but {seen}")

    def focused(self, *, in_frame: bool = True) -> str:
        """Return the name of what has the focus; empty: it is elsewhere."""
        frames = [frame for frame in self.page.frames if (frame.parent_frame is not None) == in_frame]
        return next(filter(None, (frame.evaluate(FOCUSED) for frame in frames)), "")
