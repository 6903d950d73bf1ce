"""Calls that raise an error: they pass arguments that the function does not take, leave some out, or pass no path
where one is joined."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import with_defaults
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.argument_binding import CallbackCall, argument_of, parameters
from gpulint.semantic.call_graph import all_call_sites
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.run_methods import handed_method, run_method
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, FunctionNode, NodeRef, dotted, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex


_JOINS = ("os.path.join", "path.join", "osp.join")


@query
def joins_no_path(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call raises a ``TypeError``, as what it calls joins a path with an argument that is none:
    ``save_checkpoint(state, False)`` of ``def save_checkpoint(state, folder): os.path.join(folder, "last.pt")``."""
    callees = project.fact(Resolver).callees(module, call)
    return bool(callees) and all(isinstance(one.node, FUNCTIONS) and _joins_no_path(one.node, call) for one in callees)


def _joins_no_path(function: FunctionNode, call: ast.Call) -> bool:
    given = {name: argument_of(function, call, name) for name in sorted(parameters(function))}
    no_paths = {
        name
        for name, value in given.items()
        if isinstance(value, ast.Constant) and not isinstance(value.value, str | bytes)
    }
    first = (statement.value for statement in function.body if isinstance(statement, ast.Assign | ast.Expr))
    joined = {
        argument.id
        for value in first
        if no_paths
        for part in walk(value)
        if isinstance(part, ast.Call) and dotted(part.func) in _JOINS
        for argument in part.args
        if isinstance(argument, ast.Name)
    }
    stored = {part.id for part in walk(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return not (no_paths & joined).isdisjoint(joined - stored)


@query
def fails_each_call(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place is in a function of the module that the tree only names to import it or to call it, and
    each call raises a ``TypeError``."""
    function = module.function(node)
    if function is None or function not in module.syntax.tree.body or not isinstance(function, FUNCTIONS):
        return False
    if function.decorator_list or function.args.kwarg is not None:
        return False
    sites = [
        site.node for site in project.fact(Resolver).call_sites(module, function) if isinstance(site.node, ast.Call)
    ]
    return bool(sites) and all(_fails(function, call) for call in sites) and is_only_called(project, module, function)


@query
def is_only_called(project: Project, module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether the tree names a function only to import it and in calls that are known to reach it."""
    word = word_of(function.name)
    called = {call.func for _, call in all_call_sites(project, project.fact(Resolver), module, function)}
    users = [project.module_at(path) for path in project.word_index.mentioning(word)]
    return not project.is_in_other_files(word) and all(
        user is not None
        and ((user is not module and _has_its_own(user, function.name)) or _only_calls(user, function.name, called))
        for user in users
    )


def _has_its_own(module: ModuleIndex, name: str) -> bool:
    """Return whether a module names only a function of its own by a name."""
    bindings = module.top.bindings.get(name, ())
    return (
        bool(bindings)
        and all(binding.kind is BindingKind.FUNCTION for binding in bindings)
        and not any(part.attr == name for part in module.syntax.of(ast.Attribute))
        and not any(alias.name == name for part in module.syntax.of(ast.ImportFrom) for alias in part.names)
    )


@query
def does_not_fit(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call raises a ``TypeError``, as the one function or constructor of the tree that it reaches
    does not take its arguments: ``Photos(root, train=True)`` of ``def __init__(self, root)``."""
    if isinstance(call, CallbackCall):
        return False
    method = only_method(project, module, call)
    if method is not None:
        taker = method.node
        return isinstance(taker, FUNCTIONS) and taker.args.kwarg is None and _misses(taker, call, bound=True)
    of_module = isinstance(call.func, ast.Attribute)
    name = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    bindings = module.scope(name).lookup(name.id) if isinstance(name, ast.Name) else []
    if len(bindings) != 1 or (of_module and bindings[0].kind is not BindingKind.IMPORT):
        return False
    found = project.fact(Resolver).points_to(module, call.func)
    if len(found) != 1 or found[0].path or not is_only(project, found[0], imported_as(project, module, bindings[0])):
        return False
    made = found[0].node
    if isinstance(made, ast.FunctionDef):
        return not made.decorator_list and made.args.kwarg is None and _misses(made, call, bound=False)
    constructor = constructor_of(project, found[0]) if isinstance(made, ast.ClassDef) else None
    return constructor is not None and _misses(constructor, call, bound=True)


@query
def only_method(project: Project, module: ModuleIndex, call: ast.Call) -> NodeRef | None:
    """Return the one method that a call runs, which no decorator changes, if no other file may have another class of
    the name of its own."""
    found = run_method(project, module, call) or handed_method(project, module, call, _handed(project, module, call))
    if found is None or not isinstance(found[1].node, ast.FunctionDef) or found[1].node.decorator_list:
        return None
    made, method = found
    owner = NodeRef(method.module, method.module.syntax.parents[method.node])
    return method if all(one.module is module or is_only(project, one) for one in (made, owner)) else None


def _handed(project: Project, module: ModuleIndex, call: ast.Call) -> tuple[tuple[ModuleIndex, ast.Name], ...]:
    """Return what all callers of a function hand over as the parameter whose method or itself is called there; none if
    one is unknown."""
    name = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    function = module.function(call)
    if not isinstance(name, ast.Name) or not isinstance(function, ast.FunctionDef) or function.decorator_list:
        return ()
    bindings = module.scope(name).lookup(name.id)
    if [one.kind for one in bindings] != [BindingKind.PARAMETER] or name.id not in parameters(function):
        return ()
    if function not in module.syntax.tree.body or not is_only_called(project, module, function):
        return ()
    sites = project.fact(Resolver).call_sites(module, function)
    given = [
        (site.module, argument_of(function, site.node, name.id)) if isinstance(site.node, ast.Call) else (module, None)
        for site in sites
    ]
    found = tuple((where, value) for where, value in given if isinstance(value, ast.Name))
    return found if len(found) == len(given) else ()


def imported_as(project: Project, module: ModuleIndex, binding: Binding) -> str:
    """Return the module from which an import takes a name, or that it gives a name, with all packages above it."""
    if binding.kind is not BindingKind.IMPORT:
        return ""
    name = project.absolute(binding.target, module.path)
    return name if project.module_path(name, module.path) is not None else name.rpartition(".")[0]


def is_only(project: Project, ref: NodeRef, home: str = "") -> bool:
    """Return whether nothing else of its module has the name of a class or function, nor of another file of the name
    of that module, which may be the one that is found where the program is started. An import of its ``home`` by the
    names of all packages above (``from models.unet.net import Net``) finds none in other packages."""
    if not isinstance(ref.node, ast.ClassDef | ast.FunctionDef) or ref.node not in ref.module.syntax.tree.body:
        return False
    name = ref.node.name
    if len(ref.module.top.bindings.get(name, ())) != 1:
        return False
    place = tuple(home.split("."))
    ends = place if ref.module.path.with_suffix("").parts[-len(place) :] == place else (ref.module.path.stem,)
    same = (
        path
        for path in project.files
        if path.name == ref.module.path.name
        and path != ref.module.path
        and path.with_suffix("").parts[-len(ends) :] == ends
    )
    return not any(project.contains(path, name.encode()) for path in same)


def constructor_of(project: Project, ref: NodeRef) -> FunctionNode | None:
    """The constructor of a class of which no decorator, metaclass or second base may make another."""
    assert isinstance(ref.node, ast.ClassDef)
    for _, owner in project.fact(Resolver).mro(ref.module, ref.node):
        own = [part for part in owner.body if isinstance(part, FUNCTIONS)]
        if owner.decorator_list or owner.keywords or len(owner.bases) > 1 or any(one.name == "__new__" for one in own):
            return None
        found = [one for one in own if one.name == "__init__"]
        if found:
            plain = len(found) == 1 and not found[0].decorator_list and found[0].args.kwarg is None
            return found[0] if plain else None
    return None


def _only_calls(module: ModuleIndex, name: str, called: set[ast.expr]) -> bool:
    """Return whether a module uses a name for known calls, and imports it under that name."""
    names = [*module.uses.get(name, ()), *(part for part in module.syntax.of(ast.Attribute) if part.attr == name)]
    aliases = [
        alias
        for statement in module.syntax.of(ast.ImportFrom)
        for alias in statement.names
        if alias.name == name and alias.asname not in (None, name)
    ]
    return called.issuperset(names) and not aliases and not any(name in text for text in module.strings)


def _fails(function: FunctionNode, call: ast.Call) -> bool:
    """Return whether the arguments of a call do not fit the parameters of a function."""
    if isinstance(call, CallbackCall) or last_name(call.func) != function.name:
        return False
    return _misses(function, call, bound=False)


def _misses(function: FunctionNode, call: ast.Call, *, bound: bool) -> bool:
    """Return whether a call passes what a function does not take, or leaves out what it needs beside its object, where
    it is ``bound`` to one."""
    given = {keyword.arg for keyword in call.keywords}
    own = function.args
    if None not in given and not given <= {one.arg for one in (*own.args, *own.kwonlyargs)}:
        return True
    if None in given or any(isinstance(argument, ast.Starred) for argument in call.args):
        return False
    places = [one.arg for one in (*own.posonlyargs, *own.args)][bound:]
    if own.vararg is None and len(call.args) > len(places):
        return True
    if not own.posonlyargs and not given.isdisjoint(places[: len(call.args)]):
        return True  # passed twice, by its place and by its name
    optional = {argument.arg for argument, default in with_defaults(own) if default is not None}
    return not {*places[len(call.args) :], *(one.arg for one in own.kwonlyargs)} <= optional | given
