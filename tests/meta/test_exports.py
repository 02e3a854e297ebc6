"""What the signatures of the public API name can be imported from `hudi_ops`.

Goal: a user who passes or keeps a value of the API never imports from an inner module. Method: from `hudi_ops.__all__` on, the
annotations of public functions, methods, properties and fields are followed in the syntax trees, until no new type is found. What
types of inner packages are made of is not followed: users only pass these on.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path

import hudi_ops

FOLLOWED = tuple(f"hudi_ops.{package}." for package in ("config", "services", "health", "table", "read", "verify"))
"""Packages whose types are made for users."""


def names_in(annotation: ast.expr | None) -> Iterator[str]:
    """Yield the names in an annotation, also those in a string."""
    for node in ast.walk(annotation) if annotation is not None else ():
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


def imports_of(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """Return for each name that a module imports from the product its module and its name there."""
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hudi_ops")
        for alias in node.names
    }


def annotations(node: ast.stmt) -> Iterator[ast.expr | None]:
    """Yield the annotations of a public function, or of the public members of a class."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        yield from (argument.annotation for argument in arguments if argument is not None)
        yield node.returns
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.target.id.startswith("_"):
        yield node.annotation
    elif isinstance(node, ast.ClassDef):
        yield from node.bases
        for member in node.body:
            if not getattr(member, "name", "").startswith("_"):
                yield from annotations(member)


def named_by(module: str, name: str) -> set[tuple[str, str]]:
    """Return the types of the product that a public definition names: module and name."""
    file = importlib.util.find_spec(module).origin  # type: ignore[union-attr]
    tree = ast.parse(Path(str(file)).read_text(encoding="utf-8"))
    known = imports_of(tree) | {node.name: (module, node.name) for node in tree.body if isinstance(node, ast.ClassDef)}
    definition = next((node for node in tree.body if getattr(node, "name", None) == name), None)
    if definition is None:  # an alias of a type, or a name that this module passes on
        return {known[name]} if name in known and known[name] != (module, name) else set()
    return {known[found] for annotation in annotations(definition) for found in names_in(annotation) if found in known}


def test_every_type_of_a_public_signature_can_be_imported() -> None:
    public = {name: getattr(hudi_ops, name) for name in hudi_ops.__all__}
    todo = [
        (value.__module__, name)
        for name, value in public.items()
        if getattr(value, "__module__", "").startswith(FOLLOWED)
    ]
    seen, missing = set(todo), {}
    while todo:
        module, name = todo.pop()
        for found in sorted(named_by(module, name)):
            value = getattr(importlib.import_module(found[0]), found[1], None)
            if found in seen or found[1].startswith("_") or not inspect.isclass(value):
                continue
            seen.add(found)
            if value.__module__.startswith(FOLLOWED):
                todo.append((value.__module__, found[1]))
            if public.get(found[1]) is not value:
                missing[found[1]] = f"{found[0]}, named by {module}.{name}"
    assert missing == {}
    assert len(seen) >= 40
