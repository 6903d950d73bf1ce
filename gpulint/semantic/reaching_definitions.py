"""Which of several bindings of a name can reach a use: order and branches within one scope, no full data flow."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Sequence

from gpulint.documents.python import walk
from gpulint.semantic.operating_systems import is_for_another_system
from gpulint.workspace.module_index import (
    COMPREHENSIONS,
    FUNCTIONS,
    LOOPS,
    SCOPES,
    Binding,
    BindingKind,
    ModuleIndex,
    last_name,
)

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
MAX_BINDINGS = 60
"""Most bindings of one name that are looked at for one use, on either side of it."""


def reaching(module: ModuleIndex, bindings: Sequence[Binding], use: ast.AST) -> Sequence[Binding]:
    """The bindings that may be in force at ``use``.

    The last binding before the use that certainly runs before it hides the earlier ones. Bindings in the other
    branch of an ``if`` are left out, as are those for Windows or macOS if there are others. From another scope (a
    closure or a global) every binding counts, of a module's those that hold once it has run, unless it calls its
    functions before. Where more than MAX_BINDINGS would have to be looked at, one of unknown value is the answer.
    """
    if len(bindings) <= 1:
        return bindings
    question = use, bindings[0]
    if question not in module.reaching:
        found = _find_reaching(module, bindings, use)
        module.reaching[question] = _on_linux(module, found, use) if found is not None else None
    found = module.reaching[question]
    if found is None:
        module.report_limit(f"a name has more than {MAX_BINDINGS} assignments that may reach one use")
        return [Binding(BindingKind.OTHER, use, bindings[0].scope)]
    return found


def _on_linux(module: ModuleIndex, bindings: Sequence[Binding], use: ast.AST) -> Sequence[Binding]:
    """Those that hold where jobs with GPUs run; all, if none does or the use is for another system itself."""
    here = [binding for binding in bindings if not is_for_another_system(module, binding.node)]
    return here if here and len(here) < len(bindings) and not is_for_another_system(module, use) else bindings


def _find_reaching(module: ModuleIndex, bindings: Sequence[Binding], use: ast.AST) -> Sequence[Binding] | None:
    """None if too many come into question."""
    scope = module.scope(use)
    while isinstance(scope.node, COMPREHENSIONS) and bindings[0].scope is not scope and scope.parent is not None:
        scope = scope.parent
    if bindings[0].scope is not scope:
        return _at_end(module, _in_turn(module, bindings, use)) if len(bindings) <= MAX_BINDINGS else None
    parted = _parted(module, bindings, use)
    if parted is None:
        return None
    blocks, loops = _blocks(module, use)
    before, after = parted
    kept: list[Binding] = []
    inner = set[ast.AST]()
    branches = dict[ast.AST, set[str]]()
    for number, binding in enumerate(reversed(before)):
        if number == MAX_BINDINGS:
            return None
        own, own_loops = _blocks(module, binding.node)
        if _exclusive(blocks, own):
            continue
        kept.append(binding)
        if _dominates(module, binding, blocks):
            inner = own_loops if binding.kind is not BindingKind.PARAMETER else inner
            break
        if (choice := _bound_by_all(module, binding, blocks, branches)) is not None:
            inner = _blocks(module, choice)[1]
            break
    around = _around(module, after, blocks, loops - inner)
    return None if around is None else [*reversed(kept), *around]


def _in_turn(module: ModuleIndex, bindings: Sequence[Binding], use: ast.AST) -> Sequence[Binding]:
    """Those of a module's bindings that a function of its top finds which is itself defined again further down, and
    until then called at the top alone, as in the cells of a notebook: without those that are replaced before the first
    call, or made after the last."""
    body = module.syntax.tree.body
    function = next((up for up in module.syntax.ancestors(use) if isinstance(up, ast.FunctionDef) and up in body), None)
    if function is None or function.decorator_list or any(binding.node not in body for binding in bindings):
        return bindings
    start = _start(function)
    later = [_start(one.node) for one in module.top.bindings.get(function.name, ()) if _start(one.node) > start]
    uses = [one for one in module.uses.get(function.name, ()) if later and start < _start(one) < min(later)]
    if not uses or any(module.function(one) is not None for one in uses):
        return bindings
    first, last = _start(uses[0]), _start(uses[-1])
    replaced = max((_start(one.node) for one in bindings if _effective(one) <= first), default=first)
    return [one for one in bindings if replaced <= _start(one.node) < last] or bindings


def _at_end(module: ModuleIndex, bindings: Sequence[Binding]) -> Sequence[Binding]:
    """Those of a module's bindings that its functions find: without what an assignment at its top replaces before the
    module calls anything of its own."""
    if len(bindings) == 1:
        return bindings
    last = bindings[-1]
    statement = last.node if isinstance(last.node, ast.Assign | ast.AnnAssign) else None
    if bindings[0].scope is not module.top or statement is None or statement not in module.syntax.tree.body:
        return bindings
    name = next((part.id for target in _targets(statement) for part in walk(target) if isinstance(part, ast.Name)), "")
    if statement.value is None or any(isinstance(part, ast.Name) and part.id == name for part in walk(statement.value)):
        return bindings  # made of what it was
    starts = [_start(binding.node) for binding in bindings]
    if max(starts[:-1]) > starts[-1] or any(module.function(binding.node) is not None for binding in bindings):
        return bindings
    own = {part.name for part in (*module.functions, *module.classes)}
    for between in module.syntax.tree.body:
        if not min(starts) <= _start(between) < starts[-1] or isinstance(between, (*FUNCTIONS, ast.ClassDef)):
            continue
        if any(isinstance(part, LOOPS) or _calls(part, own) for part in walk(between)):
            return bindings
    return [last]


def _targets(statement: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _calls(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in names


def _parted(
    module: ModuleIndex, bindings: Sequence[Binding], use: ast.AST
) -> tuple[Sequence[Binding], Sequence[Binding]] | None:
    """The nearest bindings that hold before ``use``, and the others; None if these are too many to be told apart."""
    here = _start(use)
    if len(bindings) <= MAX_BINDINGS:
        loops = _blocks(module, use)[1]
        before, after = list[Binding](), list[Binding]()
        for binding in bindings:
            holds = _effective(binding) <= here or (binding.node in loops and binding.kind is BindingKind.LOOP)
            (before if holds else after).append(binding)
        return before, after
    known = module.starts.get(bindings[0])
    if known is None:
        starts = [_effective(binding) for binding in bindings]
        known = module.starts[bindings[0]] = starts if starts == sorted(starts) else []
    if not known:
        return None
    place = bisect_right(known, here)
    return bindings[max(place - MAX_BINDINGS - 1, 0) : place], bindings[place : place + MAX_BINDINGS + 1]


def _around(
    module: ModuleIndex, after: Sequence[Binding], blocks: dict[ast.AST, str], loops: set[ast.AST]
) -> list[Binding] | None:
    """Bindings behind the use in ``loops`` around it, which an earlier round may have made; None if too many."""
    if not loops:
        return []
    end = max((getattr(loop, "end_lineno", 0), getattr(loop, "end_col_offset", 0)) for loop in loops)
    found: list[Binding] = []
    for number, binding in enumerate(after):
        if _start(binding.node) > end:
            continue
        if number == MAX_BINDINGS:
            return None
        own, own_loops = _blocks(module, binding.node)
        if loops & own_loops and not _exclusive(blocks, own):
            found.append(binding)
    return found


def _start(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _effective(binding: Binding) -> tuple[int, int]:
    """From where on a binding holds: the end of an assignment, the header of a loop or ``with``, a function's first
    line."""
    node = binding.node
    if binding.kind in (BindingKind.ASSIGN, BindingKind.AUGMENT, BindingKind.IMPORT) and isinstance(node, ast.stmt):
        return node.end_lineno or node.lineno, node.end_col_offset or 0
    return _start(node)


def _blocks(module: ModuleIndex, node: ast.AST) -> tuple[dict[ast.AST, str], set[ast.AST]]:
    """({statement around the node: which of its blocks holds it}, loops around the node), within the node's scope."""
    if node not in module.blocks:
        module.blocks[node] = _find_blocks(module, node)
    return module.blocks[node]


def _find_blocks(module: ModuleIndex, node: ast.AST) -> tuple[dict[ast.AST, str], set[ast.AST]]:
    blocks: dict[ast.AST, str] = {}
    loops: set[ast.AST] = set()
    parents = module.syntax.parents
    inner = node
    if isinstance(node, LOOPS):
        loops.add(node)
    while (up := parents.get(inner)) is not None:
        if isinstance(up, SCOPES) and not isinstance(up, COMPREHENSIONS):
            blocks[up] = "body"
            break
        if isinstance(up, ast.stmt | ast.ExceptHandler | ast.match_case):
            if (place := module.syntax.place(inner)) is not None:
                name, index = place
                blocks[up] = name if name not in ("handlers", "cases") else f"{name}{index}"
            if isinstance(up, LOOPS) and blocks.get(up) == "body":
                loops.add(up)
        inner = up
    return blocks, loops


def are_exclusive(module: ModuleIndex, one: ast.AST, other: ast.AST) -> bool:
    """Return whether two places of a scope are in different branches of one ``if`` or ``match``."""
    return _exclusive(_blocks(module, one)[0], _blocks(module, other)[0])


def _exclusive(use: dict[ast.AST, str], own: dict[ast.AST, str]) -> bool:
    """Return whether the two places are in different branches of one ``if`` or ``match``."""
    return any(own.get(node, branch) != branch and isinstance(node, ast.If | ast.Match) for node, branch in use.items())


def _bound_by_all(
    module: ModuleIndex, binding: Binding, use_blocks: dict[ast.AST, str], branches: dict[ast.AST, set[str]]
) -> ast.AST | None:
    """The ``if`` or ``match`` before the use whose branches all bind the name, with this binding, or lead elsewhere.

    ``branches`` has the branches of those that are known to bind it.
    """
    if binding.kind is not BindingKind.ASSIGN:
        return None
    around = [*_blocks(module, binding.node)[0].items()]
    for number, (node, branch) in enumerate(around):
        if isinstance(node, ast.With | ast.match_case):
            continue
        if not isinstance(node, ast.If | ast.Match) or node in use_blocks:
            return None
        branches.setdefault(node, set()).add(branch)
        if not branches[node] >= _passed_branches(node):
            return None
        if all(use_blocks.get(up) == name or isinstance(up, ast.With) for up, name in around[number + 1 :]):
            return node
    return None


def _passed_branches(node: ast.If | ast.Match) -> set[str]:
    """The branches through which a program comes to what follows; of a ``match`` that may match nothing, one more."""
    if isinstance(node, ast.If):
        bodies = {"body": node.body, "orelse": node.orelse}
    else:
        bodies = {f"cases{number}": case.body for number, case in enumerate(node.cases)}
        last = node.cases[-1]
        if last.guard is not None or not isinstance(last.pattern, ast.MatchAs) or last.pattern.pattern is not None:
            bodies["none"] = []
    return {name for name, body in bodies.items() if not body or not isinstance(body[-1], _LEAVES)}


def _dominates(module: ModuleIndex, binding: Binding, use_blocks: dict[ast.AST, str]) -> bool:
    """Return whether the binding's own block encloses the use, so that the binding certainly ran."""
    if binding.kind is BindingKind.PARAMETER:
        return True
    if binding.kind in (BindingKind.LOOP, BindingKind.WITH):
        return use_blocks.get(binding.node) == "body"
    own, _ = _blocks(module, binding.node)
    return all(use_blocks.get(node) == name or isinstance(node, ast.With) for node, name in own.items())
