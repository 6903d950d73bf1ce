"""Tokenisers of the tree that only look characters up or take the bytes of a text, which takes microseconds."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workload.dataset_work import ARRANGES
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_LOOKS_UP = ARRANGES | frozenset(
    "encode get frombuffer bytearray bytes tensor Tensor LongTensor as_tensor from_numpy pad ord chr int long len "
    "lower upper strip split join replace startswith endswith ljust items keys values filter next constant_pad_1d "
    "ValueError KeyError TypeError NotImplementedError warn catch_warnings filterwarnings simplefilter".split()
)
"""Calls of what turns characters, bytes or words into their numbers."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
MAX_CALLS = 3
"""How many calls deep the functions of a tokeniser are followed."""


def only_looks_up_tokens(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call is of functions of the tree alone that look up a number for each character, byte or word
    (``list(text.encode())``, ``[self.ids[c] for c in text]``)."""
    called = _called(project, module, call)
    return bool(called) and all(_is_plain(project, one, MAX_CALLS) for one in called)


def _called(project: Project, module: ModuleIndex, call: ast.Call) -> list[NodeRef]:
    """The functions of the tree that a call runs; for an object that is called, its own method."""
    resolver = project.fact(Resolver)
    return [one for one in resolver.callees(module, call) if isinstance(one.node, FUNCTIONS)]


@query
def _is_plain(project: Project, function: NodeRef, calls: int) -> bool:
    """Return whether a function only looks up and puts together, with one loop inside of another at most."""
    module = function.module
    for part in walk(function.node):
        if isinstance(part, ast.While | ast.Try | ast.AsyncFor):
            return False
        if isinstance(part, ast.For | ast.comprehension) and _is_nested(module, part, function.node):
            return False
        if not isinstance(part, ast.Call):
            continue
        called = _called(project, module, part)
        if called and calls and all(one.node is not function.node for one in called):
            if not all(_is_plain(project, one, calls - 1) for one in called):
                return False
        elif called or last_name(part.func) not in _LOOKS_UP:
            return False
    return True


def _is_nested(module: ModuleIndex, loop: ast.AST, function: ast.AST) -> bool:
    """Return whether two loops of a function are around another one."""
    around = 0
    for up in module.syntax.ancestors(loop):
        if up is function:
            break
        around += isinstance(up, (ast.For, *_COMPREHENSIONS))
    return around > 2
