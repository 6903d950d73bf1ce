"""Code for systems that no GPU job runs on: branches for Windows and macOS.

``platform.system() == "Windows"``, ``os.name == "nt"``, ``sys.platform.startswith("win")``, and names for such a test.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint import regex
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.workspace.module_index import ModuleIndex, dotted

_MENTIONED = regex.compile(r"\bplatform\b|\bos\.name\b|\bos_name\b")
_WORDS = ("platform", "os.name", "os_name")
"""Of which any match holds one; strings are found much faster than the expression."""
_ASKED = frozenset({"platform.system", "sys.platform", "os.name", "platform.platform", "platform.uname"})
_HERE = ("linux", "posix")
_ELSEWHERE = ("win", "nt", "darwin", "cygwin", "mac")


def is_for_another_system(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether ``node`` only runs on another system than Linux."""
    if not _mentions_systems(module):
        return False
    return any(excludes_linux(module, test, holds) for test, holds in conditions(module, node))


@query
def _mentions_systems(module: ModuleIndex) -> bool:
    text = module.syntax.source.text
    return any(word in text for word in _WORDS) and _MENTIONED.search(text) is not None


@query
def excludes_linux(module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    """Return whether a test that holds, or does not, leaves Linux out."""
    if not _mentions_systems(module):
        return False
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    if isinstance(test, ast.BoolOp):
        # `a and b` that holds says the same of each; of `a or b`, each must leave Linux out.
        each = isinstance(test.op, ast.And) is holds
        found = (excludes_linux(module, value, holds) for value in test.values)
        return any(found) if each else all(found)
    if isinstance(test, ast.Name):
        kept = module.scope(test).lookup(test.id)
        value = kept[0].value if len(kept) == 1 else None
        return isinstance(value, ast.Compare | ast.Call) and excludes_linux(module, value, holds)
    return any(
        (named.startswith(_HERE) and holds is not equal) or (named.startswith(_ELSEWHERE) and holds is equal)
        for named, equal in _named(test)
    )


def _named(test: ast.expr) -> Iterator[tuple[str, bool]]:
    """The system that a test names in lower case, and whether it holds there."""
    match test:
        case ast.Compare(
            left=left, ops=[ast.Eq() | ast.NotEq() as operator], comparators=[ast.Constant(value=str(name))]
        ) if _is_asked(left):
            yield name.lower(), isinstance(operator, ast.Eq)
        case ast.Compare(
            left=ast.Constant(value=str(name)), ops=[ast.In() | ast.NotIn() as operator], comparators=[right]
        ) if _is_asked(right):
            yield name.lower(), isinstance(operator, ast.In)
        case ast.Call(func=ast.Attribute(value=left, attr="startswith"), args=[ast.Constant(value=str(name))]) if (
            _is_asked(left)
        ):
            yield name.lower(), True


def _is_asked(node: ast.expr) -> bool:
    """Return whether an expression is the system's name, perhaps in lower case."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("lower", "strip"):
        node = node.func.value
    return dotted(node.func if isinstance(node, ast.Call) else node) in _ASKED
