"""Counts that may only fall: places that delete files, names that say nothing, sizes of rooms, fields and methods of all."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from types import FunctionType

from hudi_ops.commit.session import Session
from hudi_ops.services.base.service import PlannedService, TableService
from tests.meta.count_lines import ROOT, lines_of

PACKAGE = ROOT / "hudi_ops"
DELETION = re.compile(r"storage\.delete(_all)?\(")

DELETERS = {
    "commit/decide/archive_boundary.py": 2,
    "commit/holds.py": 3,
    "commit/owned/remove.py": 3,
    "commit/recover/staging.py": 1,
    "services/archive/manifests.py": 1,
    "services/clean/service.py": 1,
    "services/indexing/drop.py": 1,
    "services/metadata_table/compact.py": 2,
}
"""Number of deletions by file. Files of an instant are deleted by `commit/owned/remove.py`; the others wait for a row there."""

NAMES = {"one": 672, "found": 649, "said": 120, "wanted": 113, "done": 84, "gone": 82}
"""Assignments of names that say nothing of their value."""

ROOMS = {"commit": 6_300, "services/base": 2_300, "services/rewrite": 1_300}
"""Lines of rooms that services share."""

SERVICES = {
    "compaction": ("compact", 1_000),
    "clustering": ("cluster", 1_450),
    "resize": ("resize", 1_800),
    "clean": ("clean", 2_300),
    "archive": ("archive", 2_100),
    "cancel": ("cancel", 1_450),
    "indexing": ("index", 4_075),
}
"""Service: name of its doors, and its lines with them."""

TABLE_SERVICE_METHODS, SESSION_FIELDS = 18, 20


def modules() -> Iterator[tuple[str, str]]:
    """Each module of the package, and its text."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")


def test_no_new_place_deletes_files() -> None:
    counts = {
        name: len(DELETION.findall(text)) for name, text in modules() if name.startswith(("commit/", "services/"))
    }
    assert {name: count for name, count in counts.items() if count} == DELETERS, (
        "delete files of an instant by a row of commit/owned/kinds.py; where fewer places are left, lower the count here"
    )


def test_names_that_say_nothing_become_fewer() -> None:
    stored = Counter(
        node.id
        for _, text in modules()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NAMES
    )
    print(dict(stored))
    assert all(stored[name] <= most for name, most in NAMES.items()), f"name the value: {dict(stored)}"


def test_what_all_services_share_does_not_grow() -> None:
    methods = [
        name
        for name, value in (*vars(PlannedService).items(), *vars(TableService).items())
        if not name.startswith("__") and isinstance(value, FunctionType | staticmethod)
    ]
    assert len(fields(Session)) <= SESSION_FIELDS
    assert len(methods) <= TABLE_SERVICE_METHODS, sorted(methods)
    sizes = {room: lines_of(f"hudi_ops/{room}") for room in ROOMS}
    assert all(sizes[room] <= most for room, most in ROOMS.items()), sizes


def test_no_service_grows_past_its_ceiling() -> None:
    sizes = {}
    for service, (door, _) in SERVICES.items():
        doors = [
            f"{folder}/{name}.py"
            for folder in ("hudi_ops/cli/services", "hudi_ops/config/requests", "spark_apps", "dags")
            for name in {door, service, "resizing" if service == "resize" else service}
        ]
        places = [f"hudi_ops/services/{service}", *(place for place in doors if (ROOT / place).exists())]
        sizes[service] = sum(map(lines_of, places))
    print(sizes)
    assert all(sizes[service] <= most for service, (_, most) in SERVICES.items()), sizes
