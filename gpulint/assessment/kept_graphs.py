"""Graphs without activations that a total keeps until its epoch ends: some memory of the host, where the model is
small."""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.constants import figure
from gpulint.assessment.graph_nodes import is_model_class, nodes_of_class, of_method
from gpulint.assessment.layer_rounds import MAX_DEPTH
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, BindingKind, ModuleIndex, NodeRef, dotted, last_name

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_KEEPS = frozenset({"append", "extend", "insert", "put", "add"})
"""Methods that keep what they are given."""
_MODEL = regex.compile(r"model|net|encoder|decoder|backbone|module|head", re.IGNORECASE)
"""Names of what may run a model by a method."""
_RETURN_SELF = frozenset("train eval cuda cpu to apply float half double bfloat16 requires_grad_".split())
"""Methods of a module that return the module itself."""


def small_graphs(subject: Subject) -> str:
    """Return what a total of losses takes of the host's memory until its epoch ends, in words; empty where the model is
    deep or unknown, or where the graphs of all epochs may stay."""
    module, node, project = subject.module, subject.node, subject.project
    if module is None or not isinstance(node, ast.expr):
        return ""
    loop = next((up for up in module.syntax.ancestors(node) if isinstance(up, (*LOOPS, *FUNCTIONS))), None)
    if not isinstance(loop, ast.For) or not project.fact(LoopContexts).over_loader(module, loop):
        return ""
    if not _ends_with_epoch(project, module, loop, _total(module, node)):
        return ""
    nodes = nodes_of_step(project, module, loop, frozenset(_names(node)))
    if nodes is None:
        return ""
    each = nodes * figure("graph", "node_bytes")
    if each * figure("graph", "steps")[1] >= figure("graph", "small_bytes"):
        return ""
    return f"some {max(10, round(each / 10_000) * 10)} KB of host memory a step until the epoch ends"


def _total(module: ModuleIndex, node: ast.AST) -> str:
    """The plain name of what takes a value."""
    for up in module.syntax.ancestors(node):
        match up:
            case ast.AugAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                return name
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
                return name
            case ast.stmt():
                return ""
    return ""


def _ends_with_epoch(project: Project, module: ModuleIndex, loop: ast.For, name: str) -> bool:
    """Return whether a total is made anew for each pass over the data, and nothing keeps it longer."""
    function = module.function(loop)
    if not name or (made := _last_made(module, loop, name)) is None:
        return False
    outer = [up for up in project.fact(LoopContexts).around(module, loop) if up is not loop]
    if outer:
        return outer[0] in module.syntax.ancestors(made) and not _is_kept(function or module.syntax.tree, loop, {name})
    if not isinstance(function, FUNCTIONS) or function not in module.syntax.ancestors(made):
        return False
    if _is_kept(function, loop, {name}):
        return False
    if not _gives(function, name):
        return True
    sites = project.fact(Resolver).call_sites(module, function)
    return bool(sites) and all(_ends_at(site) for site in sites)


def _last_made(module: ModuleIndex, loop: ast.For, name: str) -> ast.AST | None:
    found = [
        binding.node
        for binding in module.scope(loop).lookup(name)
        if _line(binding.node) < loop.lineno and not isinstance(module.syntax.parents.get(binding.node), ast.AugAssign)
    ]
    return max(found, key=_line, default=None)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _is_kept(function: ast.AST, loop: ast.AST | None, names: set[str]) -> bool:
    """Return whether a function puts one of some values, outside of the loop that sums it up, where it stays."""
    inside = {*walk(loop)} if loop is not None else set()
    for part in walk(function):
        if part in inside:
            continue
        match part:
            case ast.Call(func=ast.Attribute(attr=attr), args=args) if attr in _KEEPS:
                if any(_holds(one, names) for one in args):
                    return True
            case ast.AugAssign(value=value):
                if _holds(value, names):
                    return True
            case ast.Assign(targets=targets, value=value):
                if not all(isinstance(one, ast.Name) for one in targets) and _holds(value, names):
                    return True
                if any(isinstance(one, ast.Name) and one.id not in names for one in targets) and _holds(value, names):
                    return True
            case ast.Yield(value=ast.expr() as value) | ast.Global(names=value) | ast.Nonlocal(names=value):
                if isinstance(value, list) and names.intersection(value):
                    return True
                if isinstance(value, ast.expr) and _holds(value, names):
                    return True
    return False


def _holds(value: ast.expr, names: set[str]) -> bool:
    """Return whether a value holds the graph of one of some names: ``total / len(loader)``, not ``total.item()``."""
    match value:
        case ast.Call(func=ast.Attribute(attr="item" | "detach" | "tolist")) | ast.Call(func=ast.Name(id="float")):
            return False
        case ast.Attribute(attr="data"):
            return False
        case ast.Name(id=name):
            return name in names
    return any(_holds(part, names) for part in ast.iter_child_nodes(value) if isinstance(part, ast.expr))


def _gives(function: ast.AST, name: str) -> bool:
    returned = (part.value for part in walk(function) if isinstance(part, ast.Return) and part.value is not None)
    return any(_holds(value, {name}) for value in returned)


def _ends_at(site: NodeRef) -> bool:
    """Return whether what a call returns is bound to variables, which the function around neither keeps nor returns."""
    statement = next((up for up in site.module.syntax.ancestors(site.node) if isinstance(up, ast.stmt)), None)
    if isinstance(statement, ast.Expr):
        return statement.value is site.node
    if not isinstance(statement, ast.Assign) or statement.value is not site.node:
        return False
    names = {part.id for target in statement.targets for part in walk(target) if isinstance(part, ast.Name)}
    if any(isinstance(part, ast.Attribute | ast.Subscript) for target in statement.targets for part in walk(target)):
        return False
    function = site.module.function(site.node)
    whole = function or site.module.syntax.tree
    return not _is_kept(whole, statement, names) and not any(_gives(whole, name) for name in names)


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in walk(node) if isinstance(part, ast.Name)}


@query
def nodes_of_step(project: Project, module: ModuleIndex, loop: ast.For, wanted: frozenset[str]) -> int | None:
    """Return the most nodes of the graph of some values of each round of a loop; None where a model is unknown or deep,
    where an inner loop runs one, or where none is seen."""
    models, total = 0, 0
    for call in _calls_for(module, loop, wanted):
        classes = _classes(project, module, call.func)
        if classes:
            if _is_repeated(module, call, loop):
                return None
            counts = [nodes_of_class(project, *one, MAX_DEPTH) for one in classes]
            known = [count for count in counts if count is not None]
            if len(known) < len(counts):
                return None
            models += 1
            total += max(known)
            continue
        count = _of_other(project, module, call)
        if count is None and not _prepares(project, module, loop, call):
            return None
        total += count or 0
    return total if models else None


def _calls_for(module: ModuleIndex, loop: ast.For, wanted: frozenset[str]) -> list[ast.Call]:
    """The calls in a loop that lead to some names."""
    values = _values(module, loop)
    calls, todo, seen = dict[ast.Call, None](), [*wanted], set(wanted)
    while todo:
        for value in values.get(todo.pop(), ()):
            calls.update((part, None) for part in walk(value) if isinstance(part, ast.Call))
            new = _names(value) - seen
            seen |= new
            todo += new
    return [*calls]


@query
def _values(_module: ModuleIndex, loop: ast.For) -> dict[str, list[ast.expr]]:
    """Return what the assignments in a loop give each name."""
    values = defaultdict[str, list[ast.expr]](list)
    for part in walk(loop):
        match part:
            case ast.Assign(targets=targets, value=value):
                pass
            case ast.AugAssign(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                targets = [target]
            case _:
                continue
        for name in dict.fromkeys(name for target in targets for name in _names(target)):
            values[name].append(value)
    return dict(values)


def _prepares(project: Project, module: ModuleIndex, loop: ast.For, call: ast.Call) -> bool:
    """Return whether a call is of a function of the tree, for data that no model has seen."""
    names = frozenset(name for part in (*call.args, *call.keywords) for name in _names(part))
    if isinstance(call.func, ast.Attribute) and dotted(call.func.value) == "self":
        return False
    if any(_MODEL.search(name) for name in names):
        return False
    refs = project.fact(Resolver).points_to(module, call.func)
    return all(isinstance(ref.node, ast.FunctionDef) for ref in refs) and not any(
        _classes(project, module, one.func) for one in _calls_for(module, loop, names)
    )


@query
def _classes(project: Project, module: ModuleIndex, func: ast.expr) -> tuple[tuple[ModuleIndex, ast.ClassDef], ...]:
    """The classes of the tree that a called model may be of, also of modules that are imported by a known name; none
    if one is unknown."""
    if isinstance(func, ast.Attribute) and dotted(func.value) != "self":
        return ()
    resolver, found = project.fact(Resolver), list[tuple[ModuleIndex, ast.ClassDef]]()
    todo, seen = [*resolver.points_to(module, func)], set[NodeRef]()
    while todo:
        ref = todo.pop()
        if ref in seen:
            continue
        seen.add(ref)
        match ref.node:
            case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr in _RETURN_SELF:
                todo += resolver.points_to(ref.module, owner)
                continue
            case ast.Name(id=name) as use if use in ref.module.uses.get(
                name, ()
            ):  # ``model = model.train()`` in a loop
                bindings = ref.module.scope(use).lookup(name)
                if not bindings or any(one.kind is not BindingKind.ASSIGN or one.path for one in bindings):
                    return ()
                todo += [NodeRef(ref.module, one.value) for one in bindings if one.value is not None]
                continue
            case ast.Call(args=[inner, *_]) as made if resolver.unwrapped(ref)[1] is inner:
                todo += resolver.points_to(ref.module, inner)
                continue
            case ast.Call() as made if not ref.path:
                classes = [*resolver.classes_of(ref.module, made), *_by_name(project, ref)]
            case _:
                return ()
        if not classes or not all(is_model_class(project, *one) for one in classes):
            return ()
        found += classes
    return tuple(dict.fromkeys(found))


def _by_name(project: Project, made: NodeRef) -> list[tuple[ModuleIndex, ast.ClassDef]]:
    """``importlib.import_module(args.model).get_model(13)``"""
    func, resolver = made.node.func if isinstance(made.node, ast.Call) else None, project.fact(Resolver)
    found = list[tuple[ModuleIndex, ast.ClassDef]]()
    for ref in resolver.points_to(made.module, func.value) if isinstance(func, ast.Attribute) else ():
        if not isinstance(ref.node, ast.Call) or last_name(ref.node.func) != "import_module" or not ref.node.args:
            return []
        known = project.fact(Constants).of(ref.module, ref.node.args[0])
        texts = {value for value in known.constants if isinstance(value, str)}
        if not known.complete or len(known.values) != len(known.constants):
            return []
        for text in sorted(texts):
            modules = [one for path in _named(project, text) if (one := project.module_at(path)) is not None]
            classes = [
                (one, one.classes_by_name[func.attr])
                for one in modules
                if isinstance(func, ast.Attribute) and func.attr in one.classes_by_name
            ]
            if not classes:
                return []
            found += classes
    return found


@query
def _named(project: Project, name: str) -> tuple[Path, ...]:
    """The files that may be imported under a name, from whatever folder; those of the highest folders."""
    parts = tuple(name.split("."))
    found = [path for path in project.python_files if path.with_suffix("").parts[-len(parts) :] == parts]
    highest = min((len(path.parts) for path in found), default=0)
    return tuple(path for path in found if len(path.parts) == highest)


def _is_repeated(module: ModuleIndex, call: ast.Call, loop: ast.For) -> bool:
    for up in module.syntax.ancestors(call):
        if up is loop:
            return False
        if isinstance(up, (*LOOPS, ast.ListComp, ast.GeneratorExp)):
            return True
    return True


def _of_other(project: Project, module: ModuleIndex, call: ast.Call) -> int | None:
    """Nodes of what is no model of the tree: a loss, a function, a method of a tensor."""
    resolver, few = project.fact(Resolver), int(figure("graph", "layer"))
    functions, objects = list[NodeRef](), 0
    for ref in resolver.points_to(module, call.func):
        if isinstance(ref.node, ast.FunctionDef):
            functions.append(ref)
        elif isinstance(ref.node, ast.Call) and _is_layer(project, ref):
            objects += 1
    counts = [_of_function(project, ref) for ref in functions]
    if functions:
        return None if None in counts else max(count or 0 for count in counts)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    is_model = isinstance(owner, ast.Name | ast.Attribute) and bool(_MODEL.search(last_name(owner)))
    if objects or (owner is not None and dotted(owner) != "self" and not is_model):
        return few
    names = resolver.call_names(module, call)
    return few if any("." in name for name in names) or hasattr(builtins, last_name(call.func)) else None


def _is_layer(project: Project, ref: NodeRef) -> bool:
    """``nn.CrossEntropyLoss()``"""
    assert isinstance(ref.node, ast.Call)
    return any(name.startswith("torch.nn.") for name in project.fact(Resolver).call_names(ref.module, ref.node))


def _of_function(project: Project, ref: NodeRef) -> int | None:
    return of_method(project, ref, False, False, MAX_DEPTH)
