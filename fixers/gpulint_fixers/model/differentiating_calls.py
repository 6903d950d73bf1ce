"""Whether a function may reach code that differentiates through a call that cannot be resolved."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.differentiation import takes_gradients
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef, dotted, last_name

_DIFFERENTIATE = frozenset(
    "backward grad manual_backward enable_grad retain_grad register_hook jacobian hessian vjp jvp hvp jacrev jacfwd "
    "value_and_grad".split()
)
_MENTIONS = (b"backward(", b"grad(", b"register_hook(", b"jacobian(", b"hessian(", b"vjp(", b"jacrev(", b"jacfwd(")
_FORWARD = frozenset({"forward", "__call__"})
_TRAINS = frozenset({"fit", "train", "train_model", "learn", "finetune", "fit_one_cycle"})
_TRAINER = regex.compile(r"train|learn|engine|estimator", re.IGNORECASE)
_DEPTH = 3
_PADDED = re.compile(r"TransformerEncoder\(")
"""The encoder fills padded places with zeros where it need not differentiate, and with values where it may."""


def may_differentiate(project: Project, module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a function takes gradients, or may do so in what it calls by a table, an argument or a method of
    an object that is not known."""
    if takes_gradients(project, module, function) or _differentiates_in_forward(project):
        return True
    if _pads(project):
        return True
    found = _differentiating(project)
    names = frozenset(one.node.name for one in found if isinstance(one.node, ast.FunctionDef))
    handed = bool(names) and _are_handed_over(project, names)
    return _reaches(project, module, function, names, handed, _DEPTH)


@query
def _reaches(
    project: Project, module: ModuleIndex, function: FunctionNode, names: frozenset[str], handed: bool, depth: int
) -> bool:
    methods = _methods(project)
    for call in (part for part in walk(function) if isinstance(part, ast.Call)):
        name = last_name(call.func)
        if name in _DIFFERENTIATE:
            return True
        if name == "train" and _sets_mode(call) and "train" not in methods:
            continue
        callees = [one for one in project.fact(Resolver).callees(module, call) if isinstance(one.node, FUNCTIONS)]
        if name in _TRAINS and isinstance(call.func, ast.Attribute) and _TRAINER.search(dotted(call.func.value)):
            return True
        if callees:
            if depth and any(
                one.node is not function and _reaches(project, one.module, one.node, names, handed, depth - 1)
                for one in callees
                if isinstance(one.node, ast.FunctionDef)
            ):
                return True
            if name not in names or not isinstance(call.func, ast.Attribute):
                continue
        if isinstance(call.func, ast.Attribute) and name in names:
            return True
        if names and isinstance(call.func, ast.Call) and last_name(call.func.func) == "getattr":
            return True
        if handed and isinstance(call.func, ast.Name | ast.Subscript | ast.Call) and not _is_known(module, call.func):
            return True
    return False


def _sets_mode(call: ast.Call) -> bool:
    """``model.train()`` and ``model.train(False)``"""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return isinstance(call.func, ast.Attribute) and all(
        isinstance(one, ast.Constant) and isinstance(one.value, bool) for one in given
    )


@query
def _methods(project: Project) -> frozenset[str]:
    """The names of the methods of the tree that differentiate."""
    found = (one for one in _differentiating(project) if one.module.class_of(one.node) is not None)
    return frozenset(one.node.name for one in found if isinstance(one.node, ast.FunctionDef))


def _is_known(module: ModuleIndex, func: ast.expr) -> bool:
    """Return whether a function is a builtin or imported from a library by its name."""
    if not isinstance(func, ast.Name):
        return False
    bound = module.scope(func).lookup(func.id)
    return not bound or all(one.target or isinstance(one.node, ast.ClassDef) for one in bound)


@query
def _differentiating(project: Project) -> tuple[NodeRef, ...]:
    """The functions of the tree that differentiate themselves."""
    found: dict[ast.AST, NodeRef] = {}
    for path in dict.fromkeys(path for text in _MENTIONS for path in project.python_files_with(text)):
        module = project.module_at(path)
        for call in module.calls_where(_DIFFERENTIATE.__contains__) if module is not None else ():
            function = module.function(call) if module is not None else None
            if function is not None and module is not None and not isinstance(function, ast.Lambda):
                found[function] = NodeRef(module, function)
    return tuple(found.values())


@query
def _differentiates_in_forward(project: Project) -> bool:
    """Return whether the tree has a module whose ``forward`` or ``__call__`` differentiates, by itself or in a function
    of the same file, or has a method that does. Any model may be one."""
    for one in _differentiating(project):
        owner = one.module.class_of(one.node)
        if owner is not None and any(isinstance(part, FUNCTIONS) and part.name in _FORWARD for part in owner.body):
            return True
        for call in one.module.calls_by_name.get(getattr(one.node, "name", ""), ()):
            if getattr(one.module.function(call), "name", "") in _FORWARD:
                return True
    return False


@query
def _pads(project: Project) -> bool:
    paths = project.python_files_with(b"src_key_padding_mask")
    return any(project.matches(path, _PADDED) for path in paths)


@query
def _are_handed_over(project: Project, names: frozenset[str]) -> bool:
    """Return whether a function of such a name is put into a table, given to a function of the tree, or hooked in."""
    for one in _differentiating(project):
        name = getattr(one.node, "name", "")
        if name not in names:
            continue
        module = one.module
        parents = module.syntax.parents
        nodes: Iterator[ast.Name | ast.Attribute] = module.syntax.of(ast.Name, ast.Attribute)
        for node in nodes:
            if (node.id if isinstance(node, ast.Name) else node.attr) != name or not isinstance(node.ctx, ast.Load):
                continue
            up = parents.get(node)
            up = parents.get(up) if isinstance(up, ast.keyword) else up
            if isinstance(up, ast.Dict | ast.List | ast.Tuple | ast.Assign | ast.Return):
                return True
            if not isinstance(up, ast.Call) or up.func is node:
                continue
            if last_name(up.func).startswith("register") or project.fact(Resolver).callees(module, up):
                return True
    return False
