"""Trees of compact nodes are those of ``ast.parse``, and take less memory."""

import ast
import sys
from pathlib import Path

import pytest

from gpulint.documents import python
from gpulint.documents.compact import KINDS, compacted
from gpulint.documents.python import PythonModule
from gpulint.source import SourceText

_SOURCES = [*sorted(Path(python.__file__).parent.glob("*.py")), *sorted(Path(ast.__file__).parent.glob("a*.py"))]
_SPECIAL = """\
@decorated
async def f(a, /, b: int = 1, *c, d=u"x", **e) -> None:
    global g
    match a:
        case {"k": [1, *rest], **others} | None:
            x[1:2, ...] += yield
    return lambda: f"{a!r:>{b}}" if not a else [*c]
größe = ﬁle + f"{größe}"
"""


def _shown(part: object) -> object:
    if isinstance(part, list):
        return [_shown(item) for item in part]
    if not isinstance(part, ast.AST):
        return repr(part)
    return type(part).__name__, [_shown(getattr(part, name)) for name in (*part._fields, *part._attributes)]


@pytest.mark.parametrize("text", [_SPECIAL, "", *(path.read_text(encoding="utf-8") for path in _SOURCES)])
def test_a_compact_tree_is_the_parsed_one(text: str) -> None:
    tree, nodes = compacted(ast.parse(text))
    parsed = ast.parse(text)
    assert _shown(tree) == _shown(parsed)
    assert ast.unparse(tree) == ast.unparse(parsed)
    assert nodes == python.walk(tree)


def test_nodes_know_their_parents_and_hold_only_what_is_unusual_in_a_dictionary() -> None:
    _, nodes = compacted(ast.parse(_SPECIAL))
    for node in nodes:
        assert all(child.parent is node for child in python.children(node))
        assert type(node) is KINDS[type(node).__mro__[1]]
    # A `u` before a string, and names whose characters differ from the bytes in the file.
    ends = [{"end_lineno": 8, "end_col_offset": column} for column in (7, 15, 28)]
    assert [vars(node) for node in nodes if vars(node)] == [ends[0], {"kind": "u"}, *ends[1:]]


def test_lists_without_nodes_are_one_and_stay_empty() -> None:
    tree, _ = compacted(ast.parse("f()\ng(1)"))
    first, second = tree.body
    assert first.value.keywords is second.value.keywords is first.value.args == []


def test_nodes_that_were_released_are_listed_again() -> None:
    module = PythonModule(Path("a.py"), _SPECIAL, SourceText(_SPECIAL).span)
    nodes, names = [*module.nodes], [*module.of(ast.Name)]
    module.release()
    assert module.nodes == nodes
    assert [*module.of(ast.Name)] == names


def test_only_the_last_modules_hold_lists_of_their_nodes() -> None:
    modules = [PythonModule(Path("a.py"), "x", SourceText("x").span) for _ in range(100)]
    held = [module for module in modules if module._nodes is not None]
    assert held == modules[-len(held) :]
    assert len(held) < 50


def test_a_name_takes_less_than_half_of_the_memory() -> None:
    plain = ast.parse("x").body[0].value
    compact = compacted(ast.parse("x"))[1][-1]
    assert sys.getsizeof(compact) < (sys.getsizeof(plain) + sys.getsizeof(vars(plain))) / 2
