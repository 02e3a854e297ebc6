"""The shape of the code: small files, small functions, names and docstrings that say something.

Goal: a reader finds one purpose a file, said in its first line. Method: the syntax tree of every file of the product;
each test collects all offenders before it fails.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_FILE_LINES = 400
MAX_STATEMENTS = 60
MAX_PARAMETERS = 8
MAX_MODULES = 12
MAX_FOLDER_LINES = 2_000
"""Lines below which a folder may have more modules."""
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc"}

FILES = sorted(
    file
    for folder in ("hudi_ops", "dags", "plugins", "spark_apps")
    for file in (ROOT / folder).rglob("*.py")
    if "__pycache__" not in file.parts
)
TREES = {file: ast.parse(file.read_text(encoding="utf-8")) for file in FILES}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def place(file: Path, node: ast.stmt | ast.expr | ast.arg) -> str:
    return f"{file.relative_to(ROOT)}:{node.lineno}"


def functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def public_definitions(body: list[ast.stmt]) -> Iterator[Function | ast.ClassDef]:
    """Classes, functions and methods that a user may name; what is nested in a function or a private class is not."""
    for node in body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) or node.name.startswith("_"):
            continue
        yield node
        if isinstance(node, ast.ClassDef):
            yield from public_definitions(node.body)


def speaks_through_another(node: Function | ast.ClassDef) -> bool:
    """Overloads, setters and explicit overrides are documented where the thing itself is."""
    return any(
        ast.unparse(decorator).rsplit(".", 1)[-1] in {"overload", "override", "setter"}
        for decorator in node.decorator_list
    )


def test_the_product_is_found():
    assert ROOT / "hudi_ops" / "errors.py" in TREES


def test_no_file_is_too_long():
    lines = {str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert {file: count for file, count in lines.items() if count > MAX_FILE_LINES} == {}


def test_no_function_has_too_many_statements():
    offenders = [
        f"{place(file, node)} {node.name}: {count} statements"
        for file, tree in TREES.items()
        for node in functions(tree)
        if (count := sum(isinstance(part, ast.stmt) for part in ast.walk(node)) - 1) > MAX_STATEMENTS
    ]
    assert offenders == []


def parameters(node: Function) -> int:
    """Parameters that a caller may pass; `self` and `cls` are none."""
    of_object = bool(node.args.args) and node.args.args[0].arg in {"self", "cls"}
    plain = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return len(plain) - of_object + (node.args.vararg is not None) + (node.args.kwarg is not None)


def is_command(file: Path, node: Function) -> bool:
    """Whether typer calls it: each parameter is an option of the command line."""
    return file.is_relative_to(ROOT / "hudi_ops" / "cli") and not node.name.startswith("_")


def test_no_function_has_too_many_parameters():
    offenders = [
        f"{place(file, node)} {node.name}: {parameters(node)} parameters"
        for file, tree in TREES.items()
        for node in functions(tree)
        if parameters(node) > MAX_PARAMETERS and not is_command(file, node)
    ]
    assert offenders == []


def test_no_folder_has_too_many_modules():
    modules = [file for file in FILES if file.name != "__init__.py"]
    counts = Counter(file.parent for file in modules)
    lines = Counter[Path]()
    for file in modules:
        lines[file.parent] += len(file.read_text(encoding="utf-8").splitlines())
    offenders = [folder for folder, count in counts.items() if count > MAX_MODULES and lines[folder] > MAX_FOLDER_LINES]
    assert {str(folder): (counts[folder], lines[folder]) for folder in offenders} == {}


def test_every_module_says_first_what_it_is_for():
    offenders = [
        str(file.relative_to(ROOT))
        for file, tree in TREES.items()
        if tree.body and not (ast.get_docstring(tree) or "").split("\n")[0].strip()
    ]
    assert offenders == []


def test_only_package_markers_are_empty():
    offenders = [
        str(file.relative_to(ROOT)) for file, tree in TREES.items() if not tree.body and file.name != "__init__.py"
    ]
    assert offenders == []


def test_modules_are_named_after_something():
    offenders = [
        str(file.relative_to(ROOT))
        for file in FILES
        if EMPTY_NAMES & {word for part in file.relative_to(ROOT).with_suffix("").parts for word in part.split("_")}
    ]
    assert offenders == []


def test_public_names_have_docstrings():
    offenders = [
        f"{place(file, node)} {node.name}"
        for file, tree in TREES.items()
        for node in public_definitions(tree.body)
        if not ast.get_docstring(node) and not speaks_through_another(node)
    ]
    assert offenders == []


def test_functions_are_fully_annotated():
    offenders = []
    for file, tree in TREES.items():
        methods = {id(child) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for child in node.body}
        for node in functions(tree):
            arguments = [*node.args.posonlyargs, *node.args.args]
            is_static = any(ast.unparse(decorator) == "staticmethod" for decorator in node.decorator_list)
            if id(node) in methods and not is_static:
                arguments = arguments[1:]
            arguments += [*node.args.kwonlyargs, *filter(None, [node.args.vararg, node.args.kwarg])]
            bare = [argument.arg for argument in arguments if argument.annotation is None]
            if bare or node.returns is None:
                offenders.append(f"{place(file, node)} {node.name}: {', '.join(bare) or 'its result'}")
    assert offenders == []


def test_the_picture_of_the_architecture_names_every_service():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    box = page.partition("│ services:")[2].partition("├─")[0]
    # The drawing's own column ends at the second bar of a row; what follows it are remarks.
    drawn = [row.removeprefix("  │").partition("│")[0] for row in box.splitlines()]
    named = [word for row in drawn for word in re.findall(r"[a-z_]+", row)]
    assert sorted(named) == sorted(
        folder.parent.name for folder in (ROOT / "hudi_ops" / "services").glob("*/__init__.py")
    )
