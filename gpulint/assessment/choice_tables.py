"""Functions and classes that are entries of a table from which an option picks another one by default:
``TRAINERS[args.trainer]()``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from gpulint.assessment.documented_choices import is_documented
from gpulint.query import query
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, FunctionNode, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_Definition = ast.ClassDef | FunctionNode
_LOOKS = frozenset({"list", "sorted", "len", "tuple", "set", "join", "print", "keys"})
"""Calls that only tell which entries there are."""
LEAST = 2
"""Entries from which on a table is a choice."""
MAX_ENTRIES = 50
"""Most uses of a name that are looked at."""


def is_other_entry(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether all that names the function or class of the module around a place is a table, from which programs
    take entries by a value that is known and says another one."""
    around = (node, *module.syntax.ancestors(node))
    owner = next((up for up in around if module.syntax.parents.get(up) is module.syntax.tree), None)
    if not isinstance(owner, (*FUNCTIONS, ast.ClassDef)) or owner.decorator_list:
        return False
    return _is_other(project, module, owner)


@query
def _is_other(project: Project, module: ModuleIndex, owner: _Definition) -> bool:
    uses = [*_uses(project, module, owner.name)]
    entries = [_entry(where, use) for where, use in uses]
    return (
        0 < len(uses) <= MAX_ENTRIES
        and not project.is_in_other_files(word_of(owner.name))
        and all(
            entry is not None and _leaves_out(project, where, *entry)
            for (where, _), entry in zip(uses, entries, strict=True)
        )
    )


def _uses(project: Project, module: ModuleIndex, name: str) -> Iterator[tuple[ModuleIndex, ast.expr | None]]:
    """Yield what may mean a name of a module; None for what cannot be told."""
    for path in project.word_index.mentioning(word_of(name)):
        where = module if path == module.path else project.module_at(path)
        if where is None or _is_in_text(where, name):
            yield module, None
            continue
        aliases = [one for part in where.syntax.of(ast.ImportFrom) for one in part.names if one.name == name]
        if any(one.asname not in (None, name) for one in aliases):
            yield where, None
        for use in where.uses.get(name, ()):
            bindings = where.scope(use).lookup(name)
            is_own = any(one.kind is BindingKind.IMPORT for one in bindings) if where is not module else True
            if isinstance(use.ctx, ast.Load) and is_own:
                yield where, use
        yield from ((where, part) for part in where.syntax.of(ast.Attribute) if part.attr == name)


def _is_in_text(module: ModuleIndex, name: str) -> bool:
    """Return whether a text other than the key of a table or a choice of an option is a name."""
    if name not in module.strings:
        return False
    texts = (part for part in module.syntax.of(ast.Constant) if part.value == name)
    return not all(_is_key(module, text) for text in texts)


def _is_key(module: ModuleIndex, text: ast.expr) -> bool:
    up = module.syntax.parents.get(text)
    if isinstance(up, ast.List | ast.Tuple):
        up = module.syntax.parents.get(up)
    return isinstance(up, ast.Dict) or (isinstance(up, ast.keyword) and up.arg in ("choices", "default"))


def _entry(module: ModuleIndex, use: ast.expr | None) -> tuple[str, ast.Dict] | None:
    """Return the text under which a table has what is named, and the table."""
    table = module.syntax.parents.get(use) if use is not None else None
    if not isinstance(table, ast.Dict) or len(table.keys) < LEAST:
        return None
    keys = [key for key, value in zip(table.keys, table.values, strict=True) if value is use]
    match keys:
        case [ast.Constant(value=str(text))]:
            return text, table
    return None


@query
def _leaves_out(project: Project, module: ModuleIndex, key: str, table: ast.Dict) -> bool:
    """Return whether all that takes entries of a table takes others than that of a key."""
    up = module.syntax.parents.get(table)
    match up:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=value)
        ):
            if value is not table:
                return False
            uses = [*_uses(project, module, name)]
            taken = [_taken(where, use) if use is not None else None for where, use in uses]
        case ast.Subscript() | ast.Attribute():
            uses, taken = [(module, table)], [_taken(module, table)]
        case _:
            return False
    asked = [(where, one) for (where, _), one in zip(uses, taken, strict=True) if one is not True]
    return 0 < len(asked) <= MAX_ENTRIES and all(
        one is not None and _is_another(project, where, one, key) for where, one in asked
    )


def _taken(module: ModuleIndex, table: ast.expr) -> ast.expr | Literal[True] | None:
    """Return by what an entry is taken; True where none is, None where that is unknown."""
    up = module.syntax.parents.get(table)
    match up:
        case ast.Subscript(value=value, slice=key, ctx=ast.Load()) if value is table:
            return key
        case ast.Attribute(attr="get") if isinstance(call := module.syntax.parents.get(up), ast.Call) and call.args:
            return call.args[0]
        case ast.Attribute(attr="keys"):
            return True
        case ast.Compare(comparators=[asked], ops=[ast.In() | ast.NotIn()]) if asked is table:
            return True
        case ast.Call(func=called) if last_name(called) in _LOOKS:
            return True
        case ast.keyword(arg="choices"):
            return True
        case ast.FormattedValue():
            return True
    return None


def _is_another(project: Project, module: ModuleIndex, asked: ast.expr, key: str) -> bool:
    if isinstance(asked, ast.Call) and isinstance(asked.func, ast.Attribute) and asked.func.attr in ("lower", "strip"):
        asked = asked.func.value
    values = [one for one in project.fact(Constants).of(module, asked).constants if isinstance(one, str)]
    return bool(values) and all(key not in (one, one.lower()) for one in values) and not is_documented(project, [key])
