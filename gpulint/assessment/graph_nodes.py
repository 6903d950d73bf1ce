"""How many nodes the graph of a training step has at most, as far as the classes of the tree tell: of each layer that a
model makes, and of what its ``forward`` computes beside them."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from typing import TYPE_CHECKING

from gpulint.assessment.constants import table
from gpulint.assessment.coordinates import is_of_coordinates
from gpulint.assessment.integer_results import gives_integers, is_integer
from gpulint.assessment.layer_rounds import MAX_DEPTH, most, repeats
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import (
    FUNCTIONS,
    LOOPS,
    BindingKind,
    FunctionNode,
    ModuleIndex,
    NodeRef,
    dotted,
    last_name,
)

if TYPE_CHECKING:
    from gpulint.project import Project

_COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
_PLAIN = (
    "numpy.",
    "math.",
    "collections.",
    "typing.",
    "random.",
    "time.",
    "os.",
    "logging.",
    "warnings.",
    "itertools.",
)
_HUBS = ("torch.hub.", "torch.jit.", "torch.utils.checkpoint.")
_MODULE = "torch.nn.Module"
_Class = tuple[ModuleIndex, ast.ClassDef]


def is_model_class(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> bool:
    """Return whether a class of the tree is a module of PyTorch."""
    bases = (
        name
        for where, one in project.fact(Resolver).mro(module, owner)
        for name in project.fact(Resolver).base_names(where, one)
    )
    return any(name.startswith("torch.nn.") for name in bases)


@query
def nodes_of_class(project: Project, module: ModuleIndex, owner: ast.ClassDef, depth: int = MAX_DEPTH) -> int | None:
    """Return the most nodes of a forward pass of a module of the tree; None where a part of it is unknown."""
    resolver = project.fact(Resolver)
    if depth <= 0 or not all(
        name.startswith("torch.nn.") and _layer(name) is not None for name in resolver.base_names(module, owner)
    ):
        return None
    total = 0
    for name in ("__init__", "forward"):
        method = resolver.method(module, owner, name)
        if method is not None:
            assert isinstance(method.node, FUNCTIONS)
            count = nodes_of_function(project, method.module, method.node, name == "__init__", depth - 1)
            if count is None:
                return None
            total += count
    again = _used_again(project, module, owner, depth)
    return None if again is None else total + again


def _used_again(project: Project, module: ModuleIndex, owner: ast.ClassDef, depth: int) -> int | None:
    """Nodes of the parts that the methods of a class call more often than once."""
    uses, values = Counter[str](), dict[str, NodeRef]()
    for where, one in project.fact(Resolver).mro(module, owner):
        for method in one.body:
            for call in where.calls_of(method) if isinstance(method, FUNCTIONS) else ():
                name = dotted(call.func)
                if name.count(".") == 1 and name.startswith("self."):
                    times = repeats(project, where, call)
                    if times is None:
                        return None
                    uses[name] += times
                    values[name] = NodeRef(where, call.func)
    total = 0
    for name, times in uses.items():
        if times > 1:
            count = _of_instance(project, values[name], depth - 1)
            if count is None:
                return None
            total += (times - 1) * count
    return total


def _of_instance(project: Project, func: NodeRef, depth: int) -> int | None:
    """Nodes of a pass through what a name holds; methods, which are followed at each call, count as none."""
    counts = [_of_value(project, ref, depth) for ref in project.fact(Resolver).points_to(func.module, func.node)]
    return most(counts)


def _of_value(project: Project, ref: NodeRef, depth: int) -> int | None:
    if isinstance(ref.node, FUNCTIONS):
        return 0
    return _of_call(project, ref.module, ref.node, True, depth) if isinstance(ref.node, ast.Call) else None


@query
def nodes_of_function(
    project: Project, module: ModuleIndex, function: FunctionNode, making: bool, depth: int
) -> int | None:
    """Return the most nodes of what a function computes, or of the layers that it is ``making``; None where unknown."""
    if depth <= 0:
        return None
    total = 0
    for call in module.calls_of(function):
        if not making and (is_integer(module, call) or is_of_coordinates(module, function, call)):
            continue
        count = _of_call(project, module, call, making, depth)
        times = repeats(project, module, call) if count else 1
        if count is None or times is None:
            return None
        total += count * times
    if not making:
        parts = (part for part in walk(function) if _computes(part))
        total += sum(not is_of_coordinates(module, function, part) for part in parts)
    return total


def _computes(part: ast.AST) -> bool:
    """Return whether an expression computes with tensors, perhaps: not ``images.shape[0]`` or ``shape[1:] = ...``."""
    match part:
        case ast.Subscript(value=value, ctx=ast.Load()):
            return last_name(value) not in _SIZES
        case ast.BinOp(left=left):
            return not isinstance(left, ast.List)
    return False


_SIZES = frozenset({"shape", "size"})


def _of_call(project: Project, module: ModuleIndex, call: ast.Call, making: bool, depth: int) -> int | None:
    resolver = project.fact(Resolver)
    owner = module.class_of(call)
    own = owner is not None and is_model_class(project, module, owner)
    if not making and own and _is_own_part(module, call.func):
        return 0 if _runs_once(module, call) else None
    names = resolver.call_names(module, call)
    if any(name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper() for name in names):
        return most([_layer(name) for name in names if name.startswith("torch.nn.")])
    if any(name.startswith(_HUBS) for name in names):
        return None
    if any(name.startswith("torch.") for name in names):
        return 0 if making else int(table()["graph"]["operation"])
    own = own and dotted(call.func).startswith("self.")
    found = [_of_origin(project, ref, making, own, depth) for ref in resolver.points_to(module, call.func)]
    known = [count for count in found if count != _OTHER]
    if known:
        return most(known)
    return _of_others(call, names, making)


def _is_own_part(module: ModuleIndex, func: ast.expr) -> bool:
    """``self.blocks[i]``, ``block`` of ``for block in self.blocks``: a part that the constructor made."""
    match func:
        case ast.Subscript(value=value):
            return dotted(value).startswith("self.")
        case ast.Name(id=name):
            bindings = module.scope(func).lookup(name)
            values = [one.value for one in bindings if one.kind in (BindingKind.LOOP, BindingKind.ASSIGN)]
            return bool(bindings) and len(values) == len(bindings) and all(map(_is_of_self, values))
    return False


def _is_of_self(value: ast.expr | None) -> bool:
    match value:
        case ast.Call(func=ast.Name(id="enumerate" | "zip" | "reversed"), args=[first, *_]):
            return _is_of_self(first)
        case ast.Subscript(value=inner):
            return _is_of_self(inner)
        case ast.Attribute():
            return dotted(value).startswith("self.")
    return False


def _runs_once(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether the loops around a call of a part of a model go through the parts: one, or as many as lists of
    parts are within each other (``self.blocks[i][j]``)."""
    loops = list[ast.AST]()
    for up in module.syntax.ancestors(call):
        if isinstance(up, FUNCTIONS):
            break
        if isinstance(up, (*LOOPS, *_COMPREHENSIONS)):
            loops.append(up)
    if not loops:
        return True
    indices = _indices(module, call.func)
    return (
        len(loops) <= max(1, len(indices))
        and not any(isinstance(one, ast.While) for one in loops)
        and not any(isinstance(one, ast.Constant) for one in indices)
    )


def _indices(module: ModuleIndex, func: ast.expr) -> list[ast.expr]:
    """The indices of a part in lists of parts, also under a name: of ``part = self.blocks[i][j]``."""
    if isinstance(func, ast.Name):
        bindings = module.scope(func).lookup(func.id)
        values = [one.value for one in bindings if one.kind is BindingKind.ASSIGN and not one.path]
        func = values[0] if len(values) == len(bindings) == 1 and values[0] is not None else func
    indices = list[ast.expr]()
    while isinstance(func, ast.Subscript):
        indices.append(func.slice)
        func = func.value
    return indices


_OTHER = -1
"""What is neither a class nor a function of the tree, nor an object that a call of it makes."""


def _of_origin(project: Project, ref: NodeRef, making: bool, own: bool, depth: int) -> int | None:
    """Nodes of a call of a class, a function or an object; parts of the class around, its ``own``, count as made."""
    match ref.node:
        case ast.ClassDef() as owner:
            is_model = is_model_class(project, ref.module, owner)
            return nodes_of_class(project, ref.module, owner, depth) if is_model else 0
        case ast.FunctionDef() as function:
            return of_method(project, NodeRef(ref.module, function), making, own, depth - 1)
        case ast.Call() as made if not ref.path:
            classes = project.fact(Resolver).classes_of(ref.module, made)
            if any(name.startswith("torch.nn.") for name in project.fact(Resolver).call_names(ref.module, made)):
                return 0 if own else int(table()["graph"]["layer"])
            if not classes:
                return _OTHER
            return 0 if own else most([nodes_of_class(project, *one, depth) for one in classes])
    return _OTHER


def of_method(project: Project, ref: NodeRef, making: bool, own: bool, depth: int) -> int | None:
    """Return the most nodes of a call of a function; of a method of another module, with those of its parts."""
    assert isinstance(ref.node, ast.FunctionDef)
    if ref.node.name == "__init__" or (not making and gives_integers(ref.module, ref.node)):
        return 0
    count, owner = nodes_of_function(project, ref.module, ref.node, making, depth), ref.module.class_of(ref.node)
    if count is None or own or owner is None or not is_model_class(project, ref.module, owner):
        return count
    parts = nodes_of_class(project, ref.module, owner, depth)
    return None if parts is None else count + parts


def _of_others(call: ast.Call, names: frozenset[str], making: bool) -> int | None:
    """Nodes of a call of something else: a method of a tensor, a function of a library or an unknown object."""
    name = last_name(call.func)
    if isinstance(call.func, ast.Attribute):
        owner = call.func.value
        if dotted(owner) == "self":
            return 0 if name in _METHODS else None
        if names and not any(one.startswith(_PLAIN) for one in names) and not _is_method(names):
            return None if making else int(table()["graph"]["operation"])
        return 0 if making or name in _NO_TENSORS else 1
    if hasattr(builtins, name) or any(one.startswith(_PLAIN) for one in names):
        return 0
    return None if making or not any("." in one for one in names) else int(table()["graph"]["operation"])


_METHODS = frozenset(
    "register_buffer register_parameter add_module apply parameters modules named_parameters train eval to".split()
)
"""Methods of all modules that compute nothing."""


_NO_TENSORS = frozenset("size dim numel append extend items keys values get format device is_cuda".split())
"""Methods that make no tensors."""


def _is_method(names: frozenset[str]) -> bool:
    return all(name.split(".")[0] in ("self", "list", "dict", "str") for name in names)


def _layer(name: str) -> int | None:
    """Nodes of a layer of PyTorch."""
    figures, last = table()["graph"], name.rpartition(".")[2]
    if last in figures["deep"]:
        return None
    return int(figures["nodes"].get(last, figures["layer"])) if not name.startswith("torch.nn.init.") else 0
