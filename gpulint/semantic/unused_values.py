"""Values that nothing reads: variables that are dropped or assigned again, options that no code asks for."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator

from gpulint.query import query
from gpulint.semantic.lookups_by_name import finds_names
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef, Scope


def is_dropped(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the value of a call goes into a local variable that nothing reads then."""
    made = module.syntax.parents.get(call)
    match made:
        case ast.Assign(targets=[ast.Name(id=name) as target], value=value) if value is call:
            pass
        case _:
            return False
    home = module.scope(target)
    if not isinstance(home.node, FUNCTIONS) or name in home.outer or finds_names(module):
        return False
    bindings = home.lookup(name)
    return not any(
        any(one.node is made for one in reaching(module, bindings, use))
        for use in module.uses.get(name, ())
        if module.scope(use).lookup(name) is bindings
    )


def is_replaced(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the variable of a call's value is assigned again in the block before anything reads it."""
    made = module.syntax.parents.get(call)
    match made:
        case ast.Assign(targets=[ast.Name(id=name)]):
            pass
        case _:
            return False
    replaced: tuple[ast.stmt, ast.Name] | None = None
    for statement, part in _below(module, made, name):
        if replaced is not None and statement is not replaced[0]:
            break
        if isinstance(part.ctx, ast.Load):
            return False
        if isinstance(statement, ast.Assign):
            replaced = statement, part
    return replaced is not None and _readers(module, name, module.scope(replaced[1])) <= {module.function(call)}


def _below(module: ModuleIndex, made: ast.stmt, name: str) -> Iterator[tuple[ast.stmt, ast.Name]]:
    """Yield where a variable is mentioned below a statement, and the statements of its block that hold the places."""
    syntax = module.syntax
    here, parent, names = syntax.place(made), syntax.parents.get(made), module.named.get(name, [])
    end = made.end_lineno or made.lineno, made.end_col_offset or 0
    for part in names[bisect_left(names, end, key=lambda part: (part.lineno, part.col_offset)) :]:
        whole: ast.AST | None = part
        while whole is not None and (up := syntax.parents.get(whole)) is not parent:
            whole = up
        if not isinstance(whole, ast.stmt) or (place := syntax.place(whole)) is None:
            return
        if here is not None and place[0] == here[0]:
            yield whole, part


@query
def _readers(module: ModuleIndex, name: str, home: Scope) -> frozenset[FunctionNode | None]:
    """The functions (None: the module itself) that read the variable of a scope."""
    bindings = home.lookup(name)
    parts = (part for part in module.uses.get(name, ()) if module.scope(part).lookup(name) is bindings)
    return frozenset(module.function(part) for part in parts)


def is_option_read(option: NodeRef) -> bool:
    """Return whether the module of an option (``add_argument("--batch_size")``) reads an attribute or a key of its
    name."""
    module, declared = option.module, option.node
    assert isinstance(declared, ast.Call)
    named = [*declared.args, *(keyword.value for keyword in declared.keywords if keyword.arg == "dest")]
    names = {str(part.value).lstrip("-").replace("-", "_") for part in named if isinstance(part, ast.Constant)}
    return any(node.attr in names for node in module.syntax.of(ast.Attribute)) or any(
        isinstance(node.slice, ast.Constant) and node.slice.value in names for node in module.syntax.of(ast.Subscript)
    )
