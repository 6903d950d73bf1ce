"""What no program of the tree uses: classes and functions that nothing names, values and options that nothing reads."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.facts.scopes import FUNCTIONS, FunctionNode, ModuleScopes, Ref
from gpulint.words import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_OWNERS = 3
"""How many classes and functions of a module may use each other without anybody using the last of them."""


def is_unused(project: Project, scopes: ModuleScopes, node: ast.AST) -> bool:
    """Does a node stand in a class, or in a function of the module, that nothing in the tree names?"""
    owner = _owner(scopes, node)
    return owner is not None and not _is_used(project, scopes, owner, MAX_OWNERS)


def is_replaced(scopes: ModuleScopes, call: ast.Call) -> bool:
    """Does the variable of a call's value get another one further down the block before anything reads it?"""
    made = scopes.module.parents.get(call)
    match made:
        case ast.Assign(targets=[ast.Name(id=name)]):
            pass
        case _:
            return False
    block = next((body for body in _blocks(scopes.module.parents.get(made)) if made in body), [])
    for statement in block[block.index(made) + 1 :] if block else []:
        used = [part for part in walk(statement) if isinstance(part, ast.Name) and part.id == name]
        if any(isinstance(part.ctx, ast.Load) for part in used):
            return False
        if used and isinstance(statement, ast.Assign):
            home, function = scopes.scope(used[0]), scopes.function(call)
            return not any(
                part.id == name and isinstance(part.ctx, ast.Load) and scopes.function(part) is not function
                for part in scopes.module.of(ast.Name)
                if home.lookup(name) == scopes.scope(part).lookup(name)
            )
    return False


def _blocks(statement: ast.AST | None) -> list[list[ast.stmt]]:
    return [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]


def is_option_read(option: Ref) -> bool:
    """Does the module of an option (``add_argument("--batch_size")``) read an attribute or a key of its name?"""
    scopes, declared = option.scopes, option.node
    assert isinstance(declared, ast.Call)
    named = [*declared.args, *(keyword.value for keyword in declared.keywords if keyword.arg == "dest")]
    names = {str(part.value).lstrip("-").replace("-", "_") for part in named if isinstance(part, ast.Constant)}
    return any(node.attr in names for node in scopes.module.of(ast.Attribute)) or any(
        isinstance(node.slice, ast.Constant) and node.slice.value in names for node in scopes.module.of(ast.Subscript)
    )


def _owner(scopes: ModuleScopes, node: ast.AST) -> ast.ClassDef | FunctionNode | None:
    """The innermost class around a node, or else the function of the module that it stands in."""
    if (owner := scopes.class_of(node)) is not None:
        return owner
    functions = [up for up in scopes.module.ancestors(node) if isinstance(up, FUNCTIONS)]
    return functions[-1] if functions else None


def _is_used(project: Project, scopes: ModuleScopes, owner: ast.ClassDef | FunctionNode, depth: int) -> bool:
    name = owner.name
    if not depth or owner.decorator_list or "globals" in scopes.calls_by_name:
        return True
    if any(path != scopes.path for path in project.words.mentioning(word_of(name))) or any(
        name in text for text in scopes.strings
    ):
        return True
    for node in scopes.module.of(ast.Name):
        if node.id == name:
            user = _owner(scopes, node)
            if user is None or (user is not owner and _is_used(project, scopes, user, depth - 1)):
                return True
    return any(word_of(name) in project.data(path) for path in project.files if path.suffix != ".py")
