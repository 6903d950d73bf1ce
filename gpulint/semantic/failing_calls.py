"""Functions that no call gets into: each passes arguments that the function does not take, or leaves some out."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import with_defaults
from gpulint.query import query
from gpulint.semantic.argument_binding import CallbackCall
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex


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
    if not sites or not all(_fails(function, call) for call in sites):
        return False
    word, called = word_of(function.name), {call.func for call in sites}
    users = [project.module_at(path) for path in project.word_index.mentioning(word)]
    return not project.is_in_other_files(word) and all(
        user is not None and _only_calls(user, function.name, called) for user in users
    )


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
    given = {keyword.arg for keyword in call.keywords}
    own = function.args
    if None not in given and not given <= {one.arg for one in (*own.args, *own.kwonlyargs)}:
        return True
    if None in given or any(isinstance(argument, ast.Starred) for argument in call.args):
        return False
    places = [one.arg for one in (*own.posonlyargs, *own.args)]
    if own.vararg is None and len(call.args) > len(places):
        return True
    optional = {argument.arg for argument, default in with_defaults(own) if default is not None}
    return not {*places[len(call.args) :], *(one.arg for one in own.kwonlyargs)} <= optional | given
