"""Edits that import what a repair needs."""

from __future__ import annotations

import ast

from gpulint.facts.scopes import ModuleScopes
from gpulint.fix import Edit


def add_import(scopes: ModuleScopes, name: str) -> tuple[Edit, ...]:
    """``import name`` above the first import (or statement) of the module; nothing if it is there already."""
    if any(binding.target == name for binding in scopes.top.bindings.get(name, [])):
        return ()
    module = scopes.module
    body = [node for node in module.tree.body if not _stays_first(node)]
    if not body:
        return ()
    first = next((node for node in body if isinstance(node, ast.Import | ast.ImportFrom)), body[0])
    start = module.offsets(first)[0]
    decorators = getattr(first, "decorator_list", [])
    if decorators:
        start = module.source.text.rindex("@", 0, module.offsets(decorators[0])[0])
    line_break = "\r\n" if "\r\n" in module.source.text else "\n"
    return (Edit(module.path, module.span_at(start, start), f"import {name}{line_break}"),)


def _stays_first(node: ast.stmt) -> bool:
    """Docstrings and ``from __future__`` imports come before everything else."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
