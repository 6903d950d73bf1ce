"""Rows that name parameters by their places agree with the libraries that are installed here, read as text."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulint.libraries import BUILT_IN

MAX_HOPS = 6
"""Re-exports that are followed one after the other."""


def module_file(parts: list[str]) -> Path | None:
    """The source of a module, without importing anything; None if it is not installed."""
    try:
        spec = importlib.util.find_spec(parts[0])
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    base = Path(spec.origin)
    if len(parts) == 1:
        return base
    inner = base.parent.joinpath(*parts[1:])
    return next((path for path in (inner / "__init__.py", inner.with_suffix(".py")) if path.is_file()), None)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """What a module defines and imports, also under conditions."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield from statements(child)


def definition(qualified: str, hops: int = MAX_HOPS) -> ast.ClassDef | ast.FunctionDef | None:
    """The class or function of that name, also where a package takes it from a module of its own."""
    parts = qualified.split(".")
    *home, name = parts
    path = module_file(home) if home else None
    if path is None:
        return None
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and hops and any((item.asname or item.name) == name for item in node.names):
            package = home if path.name == "__init__.py" else home[:-1]
            package = package[: len(package) - node.level + 1] if node.level else []
            source = [*package, *(node.module or "").split(".")]
            origin = next(item.name for item in node.names if (item.asname or item.name) == name)
            found = definition(".".join([*filter(None, source), origin]), hops - 1)
            if found is not None:
                return found
    return None


def parameters(found: ast.ClassDef | ast.FunctionDef) -> list[str] | None:
    """Positional parameters of a function or of a class's constructor; None where they are only handed on."""
    if isinstance(found, ast.ClassDef):
        methods = [item for item in found.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
        if not methods:
            return None
        names = [given.arg for given in [*methods[-1].args.posonlyargs, *methods[-1].args.args]][1:]
        return None if methods[-1].args.vararg is not None else names
    return [given.arg for given in [*found.args.posonlyargs, *found.args.args]]


def stated() -> Iterator[tuple[str, int, str]]:
    """(qualified name, place, parameter) of every row that says so."""
    for row in BUILT_IN.rows("loader"):
        yield from ((name, place, given) for name in row.classes for place, given in enumerate(row.signature))
    for row in BUILT_IN.rows("saver"):
        if row.position is not None:
            yield from ((name, row.position, row.path) for name in row.calls if "*" not in name)
    for row in BUILT_IN.rows("hub-download"):
        if row.position is not None:
            yield from ((f"{module}{row.name}", row.position, row.argument) for module in row.modules if module)


@pytest.mark.parametrize("name", sorted({name for name, _, _ in stated()}))
def test_the_places_of_parameters(name: str) -> None:
    found = definition(name)
    if found is None:
        pytest.skip(f"{name.partition('.')[0]} is not installed, or has no {name} any more")
    known = parameters(found)
    if known is None:
        pytest.skip(f"{name} hands its parameters on")
    for place, given in ((place, given) for row, place, given in stated() if row == name):
        assert known[place : place + 1] == [given], f"{name}: '{given}' is not at {place} of {known}"


def test_the_check_reads_a_library() -> None:
    """What is installed wherever these tests run."""
    found = definition("pluggy.PluginManager")
    assert isinstance(found, ast.ClassDef)
    assert parameters(found) == ["project_name"]


def test_torch_is_read_where_it_is_installed() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    assert definition("torch.utils.data.DataLoader") is not None
    assert definition("torch.save") is not None
