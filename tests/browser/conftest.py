"""One Airflow, one registry and one browser for all tests of the page.

They end with the module: an Airflow costs the tests after it time, and a browser holds an event loop in their thread.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.user import chromium
from tests.browser.world import World, running_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Airflow with the page, and its tables."""
    folder = tmp_path_factory.mktemp("world")
    if os.environ.get("HUDI_OPS_IMAGES"):
        # Pictures show where tables lie.
        folder = Path(tempfile.gettempdir()) / "lake"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    with running_world(folder) as world:
        yield world


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser of this machine."""
    with sync_playwright() as playwright, chromium(playwright, tmp_path_factory.mktemp("profile")) as browser:
        yield browser
