"""Whether what a function computes leaves it with its graph, so that someone may differentiate it later."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import cyclic, query
from gpulint.semantic.points_to import Resolver
from gpulint.training.differentiation import propagated
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef, dotted, last_name

_CUTS = frozenset(
    "item detach numpy tolist float int len round str bool argmax argsort size numel dim format range time "
    "perf_counter shape dtype device data keys ne eq gt lt ge le long isnan isfinite nonzero unique strftime".split()
)
"""Functions, methods and attributes whose result carries no graph."""
_COMBINES = frozenset("sum max min abs sorted list tuple set dict zip enumerate reversed tqdm".split())
"""Functions whose result carries the graphs of what they are given."""
_NUMERIC = ("np", "numpy", "math", "metrics", "sklearn", "scipy", "pd", "time", "os", "random", "json")
"""Modules whose functions refuse tensors with a graph, or take no tensors at all."""
_FILLS = frozenset({"append", "extend", "insert", "appendleft", "setdefault", "update", "add"})
_READERS = frozenset(
    "print info log debug warning error write writelines writerow set_postfix set_description add_scalar add_scalars "
    "log_metrics log_dict report save dump dumps savetxt isnan isfinite step update set_postfix_str format_map "
    "save_checkpoint".split()
)
"""Functions that read a value, and differentiate nothing."""
_DEPTH = 3


def keeps_graphs(project: Project, module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether something that a function computes may still carry its graph where others can differentiate it:
    what it returns, if not all callers only read that, and what it stores in objects and lists that it is given."""
    if isinstance(function, ast.Lambda) or any(_stored(project, module, function)):
        return True
    return any(
        not _is_own(function, part) and not _is_free(project, module, function, part)
        for value in project.fact(Resolver).returns(function)
        for part in (value.elts if isinstance(value, ast.Tuple | ast.List) else [value])
    ) and not _is_only_read(project, module, function, _DEPTH)


def carries_no_graph(project: Project, module: ModuleIndex, function: FunctionNode, value: ast.expr) -> bool:
    """Return whether a value of a function certainly carries no graph."""
    return _is_free(project, module, function, value)


def _is_own(function: FunctionNode, value: ast.expr) -> bool:
    """Return whether a value is a parameter as it is."""
    return isinstance(value, ast.Name) and value.id in _parameters(function)


def _parameters(function: FunctionNode) -> set[str]:
    given = function.args
    return {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)}


def _stored(project: Project, module: ModuleIndex, function: FunctionNode) -> Iterator[ast.expr]:
    """Yield what a function stores with its graph in something that is not its own."""
    assert not isinstance(function, ast.Lambda)
    outer = module.scope(function.body[0]).outer
    for target, value in _given(function):
        if isinstance(target, ast.Name):
            kept = target.id in outer
        else:
            kept = isinstance(target, ast.Attribute) or not _is_inside(module, function, target, outer)
        if kept and not _is_free(project, module, function, value):
            yield value
    for call in _fillings(function):
        assert isinstance(call.func, ast.Attribute)
        if not _is_inside(module, function, call.func.value, outer):
            # Of meters and metrics, whose methods have such names as well, nobody asks for gradients.
            plain = call.func.attr not in ("update", "add")
            given = [one for one in call.args if plain or isinstance(one, ast.Dict)]
            yield from (one for one in given if not _is_free(project, module, function, one))
    for call in (part for part in walk(function) if isinstance(part, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr not in _FILLS:
            given = [*call.args, *(key.value for key in call.keywords)]
            free = all(_is_free(project, module, function, one) for one in given)
            if not free and any(
                _keeps_argument(one.module, one.node) for one in project.fact(Resolver).callees(module, call)
            ):
                yield call


@query
def _keeps_argument(_module: ModuleIndex, function: ast.AST) -> bool:
    """Return whether a method stores a parameter as it is in its object."""
    if not isinstance(function, FUNCTIONS) or isinstance(function, ast.Lambda) or function.name == "__init__":
        return False
    given = _parameters(function) - {"self"}
    kept = [value for target, value in _given(function) if _root(target) == "self"]
    for call in _fillings(function):
        assert isinstance(call.func, ast.Attribute)
        kept += call.args if _root(call.func.value) == "self" else ()
    return any(isinstance(value, ast.Name) and value.id in given for value in kept)


def _is_inside(module: ModuleIndex, function: FunctionNode, target: ast.expr, outer: frozenset[str]) -> bool:
    """Return whether what a target is a part of is a variable that the function itself sets."""
    name = _root(target)
    return bool(name) and name not in _parameters(function) | outer and name in _values(module, function)


def _root(target: ast.expr) -> str:
    while isinstance(target, ast.Attribute | ast.Subscript | ast.Starred):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""


def _fillings(function: FunctionNode) -> list[ast.Call]:
    """The calls that put something into a list or a table."""
    calls = (part for part in walk(function) if isinstance(part, ast.Call))
    return [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in _FILLS]


def _given(function: FunctionNode) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(target, value) of the assignments of a function."""
    for part in walk(function):
        match part:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _paired(target, value)
            case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                yield target, value
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield target, value


def _paired(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple | ast.List):
        values = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts) else None
        for index, one in enumerate(target.elts):
            yield from _paired(one, values[index] if values is not None else value)
    else:
        yield target, value


@query
def _values(_module: ModuleIndex, function: FunctionNode) -> Mapping[str, list[ast.expr]]:
    """Return what the variables of a function are set to, and what is put into them."""
    found = dict[str, list[ast.expr]]()
    for target, value in _given(function):
        found.setdefault(_root(target), []).append(value)
    for call in _fillings(function):
        if isinstance(call.func, ast.Attribute) and (name := _root(call.func.value)) in found:
            found[name] += [*call.args, *(key.value for key in call.keywords)]
    return found


@query
def _loops(_module: ModuleIndex, function: FunctionNode) -> Mapping[str, list[ast.For | ast.comprehension]]:
    """The loops and comprehensions of a function by the variables that they bind."""
    found = dict[str, list[ast.For | ast.comprehension]]()
    for loop in (part for part in walk(function) if isinstance(part, ast.For | ast.comprehension)):
        for name in {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}:
            found.setdefault(name, []).append(loop)
    return found


def _is_free(project: Project, module: ModuleIndex, function: FunctionNode, value: ast.expr) -> bool:
    """Return whether a value certainly carries no graph."""

    def all_free(values: Iterator[ast.expr] | list[ast.expr]) -> bool:
        return all(_is_free(project, module, function, one) for one in values)

    match value:
        case ast.Constant() | ast.JoinedStr() | ast.Compare():
            return True
        case ast.Name(id=name):
            return _is_free_name(project, module, function, name)
        case ast.Attribute(value=owner, attr=attr):
            return attr in _CUTS or dotted(value).split(".")[0] in _NUMERIC or all_free([owner])
        case ast.Subscript(value=owner) | ast.Starred(value=owner) | ast.UnaryOp(operand=owner):
            return all_free([owner])
        case ast.BinOp(left=left, right=right):
            return all_free([left, right])
        case ast.BoolOp(values=values) | ast.Tuple(elts=values) | ast.List(elts=values) | ast.Set(elts=values):
            return all_free(values)
        case ast.Dict(keys=keys, values=values):
            return all_free(values) and None not in keys
        case ast.IfExp(body=body, orelse=orelse):
            return all_free([body, orelse])
        case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part) | ast.SetComp(elt=part) | ast.DictComp(value=part):
            return all_free([part, *(one.iter for one in value.generators)])
        case ast.Call(func=func, args=args, keywords=keywords):
            given = [*args, *(key.value for key in keywords)]
            root = dotted(func).split(".")[0]
            if last_name(func) in _CUTS or last_name(func).endswith("_score") or root in _NUMERIC:
                return True
            if root in ("torch", "F") or last_name(func) in _COMBINES:
                return all_free(given)
            if isinstance(func, ast.Attribute):
                return all_free([func.value, *given])
            callees = project.fact(Resolver).callees(module, value)
            return bool(callees) and all(map(_has_no_weights, callees)) and all_free(given)
    return False


def _has_no_weights(function: NodeRef) -> bool:
    """Return whether a function may get weights only as what it is given: it is no method, such as ``forward``."""
    return isinstance(function.node, ast.FunctionDef) and function.module.class_of(function.node) is None


@cyclic(True)
def _is_free_name(project: Project, module: ModuleIndex, function: FunctionNode, name: str) -> bool:
    if name in _parameters(function):
        return False
    values, loops = _values(module, function).get(name, []), _loops(module, function).get(name, [])
    for loop in loops:
        drawn = isinstance(loop, ast.For) and project.fact(LoopContexts).over_loader(module, loop)
        if not drawn and not _is_free(project, module, function, loop.iter):
            return False
    if values or loops:
        return all(_is_free(project, module, function, value) for value in values)
    bound = module.top.bindings.get(name, [])
    return bool(bound) and all(one.target or isinstance(one.value, ast.Constant) for one in bound)


@cyclic(True)
def _is_only_read(project: Project, module: ModuleIndex, function: FunctionNode, depth: int) -> bool:
    """Return whether all that call a function only read what it returns."""
    sites = project.fact(Resolver).call_sites(module, function)
    name = getattr(function, "name", "")
    if not sites or depth == 0 or any(_hands_over(where, name) for where in {module, *(one.module for one in sites)}):
        return False
    return all(isinstance(one.node, ast.expr) and _is_read(project, one.module, one.node, depth, 0) for one in sites)


def _hands_over(module: ModuleIndex, name: str) -> bool:
    """Return whether a module uses a function otherwise than by calling it (``grad(total_loss)``)."""
    parents = module.syntax.parents
    named: Iterator[ast.Name | ast.Attribute] = module.syntax.of(ast.Name, ast.Attribute)
    return any(
        (node.id if isinstance(node, ast.Name) else node.attr) == name
        and isinstance(node.ctx, ast.Load)
        and not (isinstance(call := parents.get(node), ast.Call) and call.func is node)
        for node in named
    )


def _is_read(project: Project, module: ModuleIndex, node: ast.expr, depth: int, assigned: int) -> bool:
    """Return whether the value of an expression is only compared, printed, logged or the like."""
    inner: ast.AST = node
    for up in module.syntax.ancestors(node):
        match up:
            case ast.Expr() | ast.Compare() | ast.FormattedValue() | ast.Assert() | ast.If() | ast.While():
                return True
            case ast.Attribute(attr=attr) if attr in _CUTS:
                return True
            case ast.Call(func=func) if func is not inner:
                if last_name(func) in _CUTS | _READERS or dotted(func).split(".")[0] in _NUMERIC:
                    return True
                if isinstance(func, ast.Attribute) and func.attr in ("append", "extend"):
                    used = propagated(project, module, module.function(node))
                    return isinstance(func.value, ast.Name) and func.value.id not in used
                if last_name(func) not in _COMBINES and dotted(func).split(".")[0] != "torch":
                    return False
            case ast.Assign(targets=targets):
                return all(_is_name_read(project, module, target, depth, assigned) for target in targets)
            case ast.AugAssign(target=target):
                return _is_name_read(project, module, target, depth, assigned)
            case ast.Return():
                caller = module.function(up)
                return caller is not None and _is_only_read(project, module, caller, depth - 1)
            case ast.stmt() | ast.Lambda() | ast.comprehension():
                return False
        inner = up
    return False


def _is_name_read(project: Project, module: ModuleIndex, target: ast.expr, depth: int, assigned: int) -> bool:
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    if assigned >= _DEPTH or not all(isinstance(name, ast.Name) for name in names):
        return False
    function = module.function(target)
    used = propagated(project, module, function)
    for name in names:
        assert isinstance(name, ast.Name)
        if name.id in used:
            return False
        for use in module.uses.get(name.id, []):
            if module.function(use) is function and not _is_read(project, module, use, depth, assigned + 1):
                return False
    return True
