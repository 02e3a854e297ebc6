"""What importing costs, and who may import whom.

Goal: a DAG file, a CLI call and a Spark worker start fast, and the layers hold. Method: fresh interpreters, and
import-linter.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ["pyspark", "airflow", "pandas"]

# The modules that are there to talk to Spark.
SPARK_ROOMS = {"hudi_ops.engine.spark", *(f"hudi_ops.datasource.{name}" for name in ("reader", "source", "writer"))}


def loaded_after(modules: list[str]) -> list[str]:
    """Which heavy packages a fresh interpreter holds after importing the modules."""
    program = (
        "import importlib, json, sys\n"
        "modules, heavy = json.loads(sys.argv[1])\n"
        "for name in modules: importlib.import_module(name)\n"
        "print(json.dumps([name for name in heavy if name in sys.modules]))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, json.dumps([modules, HEAVY])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return list(json.loads(result.stdout))


def all_modules() -> list[str]:
    files = sorted((ROOT / "hudi_ops").rglob("*.py"))
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files]
    assert "hudi_ops.errors" in names
    return names


def test_the_package_is_light():
    assert loaded_after(["hudi_ops"]) == []


def test_only_the_rooms_of_spark_need_spark():
    assert loaded_after([name for name in all_modules() if name not in SPARK_ROOMS]) == []


def test_layers_hold():
    program = Path(sys.executable).parent / "lint-imports"
    result = subprocess.run(
        [str(program), "--no-logo", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_test_module_imports_from_another():
    """What tests share is in modules of its own; those of `meta` read what test modules register."""
    files = [file for file in (ROOT / "tests").rglob("*.py") if file.parent.name != "meta"]
    offenders = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests")
        if any(name.startswith("test_") for name in (*(node.module or "").split("."), *(a.name for a in node.names)))
    ]
    assert len(files) >= 300
    assert offenders == []


def names_of(file: Path) -> set[str]:
    """Names that a module defines or imports at its top level, also under a condition."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(one.asname or one.name).split(".")[0] for one in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


@pytest.mark.parametrize("folder", ["dags", "plugins", "spark_apps", "docker", "examples"])
def test_what_programs_outside_the_package_import_is_there(folder: str) -> None:
    """mypy reads the package alone; a name that moved would be missed only when a task runs."""
    missing, seen = [], 0
    for file in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom):
                continue
            beside = file.parent / f"{node.module}.py"
            if beside.is_file():  # spark-submit imports _app so, from the folder of the program
                known = names_of(beside)
                missing += [f"{file.name}:{node.lineno} {one.name}" for one in node.names if one.name not in known]
            if (node.module or "").split(".")[0] == "hudi_ops":
                module = importlib.import_module(node.module)
                for one in node.names:
                    seen += 1
                    if not hasattr(module, one.name) and find_spec(f"{node.module}.{one.name}") is None:
                        missing.append(f"{file.name}:{node.lineno} {node.module}.{one.name}")
    assert seen
    assert missing == []


def test_no_test_imports_airflow_while_it_is_collected() -> None:
    """Airflow takes seconds to import, in each process that collects tests."""
    early = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if (isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "airflow")
        or (isinstance(node, ast.Import) and any(name.name.split(".")[0] == "airflow" for name in node.names))
    ]
    assert early == []
