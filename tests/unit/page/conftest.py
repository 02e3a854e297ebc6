"""Real tables, and a registry that has looked at them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hudi_ops.registry.database import opened
from hudi_ops.registry.migrate import migrate
from hudi_ops.registry.refresh import refresh
from tests.unit.page.shown_pages import make_tables


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder of the tables of `make_tables` and their registry, both in force; modules that share it change neither."""
    folder = tmp_path_factory.mktemp("world")
    make_tables(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HUDI_OPS_TABLES", str(folder / "tables.yaml"))
        patched.setenv("HUDI_OPS_REGISTRY", f"sqlite:///{folder}/registry.db")
        migrate()
        refresh(["trips", "riders", "gone"], engine=opened())
        yield folder
