"""Trees of compact nodes are those of ``ast.parse``, and take less memory."""

import ast
import sys
from pathlib import Path

import pytest

from gpulint.documents import python
from gpulint.documents.compact import KINDS, compacted

_SOURCES = [*sorted(Path(python.__file__).parent.glob("*.py")), *sorted(Path(ast.__file__).parent.glob("a*.py"))]
_SPECIAL = """\
@decorated
async def f(a, /, b: int = 1, *c, d=u"x", **e) -> None:
    global g
    match a:
        case {"k": [1, *rest], **others} | None:
            x[1:2, ...] += yield
    return lambda: f"{a!r:>{b}}" if not a else [*c]
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


def test_nodes_know_their_parents_and_have_no_dictionary() -> None:
    _, nodes = compacted(ast.parse(_SPECIAL))
    for node in nodes:
        assert all(child.parent is node for child in python.children(node))
        assert type(node) is KINDS[type(node).__mro__[1]]
        assert not vars(node)


def test_a_name_takes_less_than_half_of_the_memory() -> None:
    plain = ast.parse("x").body[0].value
    compact = compacted(ast.parse("x"))[1][-1]
    assert sys.getsizeof(compact) < (sys.getsizeof(plain) + sys.getsizeof(vars(plain))) / 2
