"""Which of several bindings of a name can reach a use: order and branches within one scope, no full data flow."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpulint.facts.scopes import COMPREHENSIONS, LOOPS, SCOPES, Binding, Bound, ModuleScopes

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def reaching(scopes: ModuleScopes, bindings: Sequence[Binding], use: ast.AST) -> list[Binding]:
    """The bindings that may be in force at ``use``.

    The last binding before the use that certainly runs before it hides the earlier ones. Bindings in the other
    branch of an ``if`` are left out. From another scope (a closure or a global) every binding counts.
    """
    if len(bindings) <= 1:
        return list(bindings)
    question = use, bindings[0]
    if question not in scopes.reaching:
        scopes.reaching[question] = _find_reaching(scopes, bindings, use)
    return scopes.reaching[question]


def _find_reaching(scopes: ModuleScopes, bindings: Sequence[Binding], use: ast.AST) -> list[Binding]:
    scope = scopes.scope(use)
    while isinstance(scope.node, COMPREHENSIONS) and bindings[0].scope is not scope and scope.parent is not None:
        scope = scope.parent
    if bindings[0].scope is not scope:
        return list(bindings)
    blocks, loops = _blocks(scopes, use)
    here = _start(use)
    before: list[Binding] = []
    around: list[Binding] = []
    for binding in bindings:
        own, own_loops = _blocks(scopes, binding.node)
        if _exclusive(blocks, own):
            continue
        if _effective(binding) <= here or (binding.node in loops and binding.kind is Bound.LOOP):
            before.append(binding)
        elif loops & own_loops:
            around.append(binding)
    kept: list[Binding] = []
    hidden = False
    for binding in reversed(before):
        kept.append(binding)
        if _dominates(scopes, binding, blocks):
            hidden = True
            break
    kept.reverse()
    if hidden and kept[0].kind is not Bound.PARAMETER:
        inner = _blocks(scopes, kept[0].node)[1]
        around = [binding for binding in around if (loops & _blocks(scopes, binding.node)[1]) - inner]
    return kept + around


def _start(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _effective(binding: Binding) -> tuple[int, int]:
    """From where on a binding holds: the end of an assignment, the header of a loop or ``with``, a function's first
    line."""
    node = binding.node
    if binding.kind in (Bound.ASSIGN, Bound.AUGMENT, Bound.IMPORT) and isinstance(node, ast.stmt):
        return node.end_lineno or node.lineno, node.end_col_offset or 0
    return _start(node)


def _blocks(scopes: ModuleScopes, node: ast.AST) -> tuple[dict[ast.AST, str], set[ast.AST]]:
    """({statement around the node: which of its blocks holds it}, loops around the node), within the node's scope."""
    if node not in scopes.blocks:
        scopes.blocks[node] = _find_blocks(scopes, node)
    return scopes.blocks[node]


def _find_blocks(scopes: ModuleScopes, node: ast.AST) -> tuple[dict[ast.AST, str], set[ast.AST]]:
    blocks: dict[ast.AST, str] = {}
    loops: set[ast.AST] = set()
    parents = scopes.module.parents
    inner = node
    if isinstance(node, LOOPS):
        loops.add(node)
    while (up := parents.get(inner)) is not None:
        if isinstance(up, SCOPES) and not isinstance(up, COMPREHENSIONS):
            blocks[up] = "body"
            break
        if isinstance(up, ast.stmt | ast.ExceptHandler | ast.match_case):
            for name in _BLOCKS:
                part = getattr(up, name, None)
                if isinstance(part, list) and inner in part:
                    blocks[up] = name if name not in ("handlers", "cases") else f"{name}{part.index(inner)}"
            if isinstance(up, LOOPS) and blocks.get(up) == "body":
                loops.add(up)
        inner = up
    return blocks, loops


def _exclusive(use: dict[ast.AST, str], own: dict[ast.AST, str]) -> bool:
    """Do the two places lie in different branches of one ``if`` or ``match``?"""
    return any(own.get(node, branch) != branch and isinstance(node, ast.If | ast.Match) for node, branch in use.items())


def _dominates(scopes: ModuleScopes, binding: Binding, use_blocks: dict[ast.AST, str]) -> bool:
    """Does the binding's own block enclose the use, so that the binding certainly ran?"""
    if binding.kind is Bound.PARAMETER:
        return True
    if binding.kind in (Bound.LOOP, Bound.WITH):
        return use_blocks.get(binding.node) == "body"
    own, _ = _blocks(scopes, binding.node)
    return all(use_blocks.get(node) == name or isinstance(node, ast.With) for node, name in own.items())
