"""Options that a program reads of its arguments, and that its parser does not declare: ``args.test_area`` raises an
``AttributeError``."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import cyclic, query
from gpulint.records import dataclass
from gpulint.semantic.argument_binding import CallbackCall, argument_of
from gpulint.semantic.argument_parsers import GROUPS, is_lent, parser_of, returned_by
from gpulint.semantic.declared_options import option_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, ModuleIndex, NodeRef, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpulint.project import Project

_NAMED = regex.compile(
    r"(\w+_)?(args?|argv|arguments|opts?|options?|params?|flags?|hparams|config|cfg|conf|parsed)", re.IGNORECASE
)
"""Names of what may hold the arguments of a program."""
_SETS_MORE = regex.compile(
    rb"setattr\((?!\s{0,9}(self|cls|model|net|module|layer|m)\b)(?!\s{0,9}[\w.]+\s{0,9},\s{0,9}[\"']\w+[\"'],)"
    rb"|__dict__|^[ \t]*[\w.]+[ \t]*=[ \t]*vars\("
    rb"|vars\(\s{0,9}\w+\s{0,9}\)\s{0,9}(\.update|\[|\|)|\bNamespace\(|\bexec\(|\bglobals\(|\bnamespace\s{0,9}="
    rb"|add_subparsers|\bparents\s{0,9}=\s{0,9}\[",
    re.MULTILINE,
)
"""How arguments get attributes that no option declares; what ``setattr`` gets as a text is found as one."""
_BY_NAME = frozenset({"update", "set_defaults", "dict", "SimpleNamespace", "replace"})
"""Calls whose keywords may become attributes."""
_READ_ONLY = frozenset(
    "print pprint pformat info debug warning log str repr vars dict len type id isinstance getattr hasattr deepcopy"
    " copy dump dumps save write format update init add_hparams log_hyperparams add_text asdict".split()
)
"""Functions of libraries that add nothing to the arguments that they get."""
_ADD_NOTHING = GROUPS | frozenset(
    "parse_args print_help print_usage format_help format_usage error exit get_default".split()
)
_ACTIONS = frozenset(
    "store store_const store_true store_false append append_const count extend help version"
    " BooleanOptionalAction".split()
)
_SETTINGS = frozenset(
    "prog usage description epilog formatter_class add_help allow_abbrev exit_on_error argument_default"
    " conflict_handler".split()
)
_ALWAYS = frozenset(
    {"__dict__", "__class__", "__contains__", "__eq__", "__repr__", "_get_kwargs", "_get_args", "__doc__"}
)
_NOBODY: _Namespace | None = None
_STEPS = 3
"""Most functions that hand arguments on."""


@dataclass(frozen=True, slots=True)
class _Namespace:
    """What a parser makes of a command line."""

    names: frozenset[str]
    paths: tuple[Path, ...]
    """The files that declare the options, and that hand the arguments on."""


@query
def absent_options(project: Project, module: ModuleIndex) -> tuple[ast.Attribute, ...]:
    """Return what a module reads of the arguments of a program that no option declares, and that nothing sets."""
    if module.path.suffix != ".py":
        return ()
    return tuple(
        part
        for part in module.syntax.of(ast.Attribute)
        if isinstance(part.value, ast.Name)
        and isinstance(part.ctx, ast.Load)
        and _NAMED.fullmatch(part.value.id)
        and (made := _held(project, module, part.value)) is not None
        and part.attr not in made.names | _ALWAYS
        and not _may_be_set(project, module, part, made)
    )


@query
def options_missing(
    project: Project, module: ModuleIndex, call: ast.Call, function: NodeRef
) -> tuple[ast.Attribute, ...]:
    """Return what a function reads of the arguments of a program that a call hands to it, and that no option of this
    program declares and nothing in its files sets: other programs may set it before they call the function."""
    where, node = function.module, function.node
    if not isinstance(node, ast.FunctionDef) or module.path.suffix != ".py" or where.path.suffix != ".py":
        return ()
    reads = reads_of_parameters(where, node)
    return tuple(
        part for part, name in reads if is_missing(project, module, call, function, NodeRef(where, part), name)
    )


@query
def is_missing(
    project: Project, module: ModuleIndex, call: ast.Call, function: NodeRef, read: NodeRef, name: str
) -> bool:
    """Return whether the arguments of a program that a call hands to a parameter of a function have no attribute that
    is read of them there, or in a constructor that gets them from it."""
    assert isinstance(function.node, FUNCTIONS)
    assert isinstance(read.node, ast.Attribute)
    handed = argument_of(function.node, call, name)
    made = _held(project, module, handed) if isinstance(handed, ast.Name) else None
    if made is None or read.node.attr in made.names | _ALWAYS:
        return False
    seen = _Namespace(made.names, (*made.paths, module.path))
    return not _may_be_set(project, read.module, read.node, seen)


@query
def reads_of_parameters(module: ModuleIndex, function: ast.FunctionDef) -> tuple[tuple[ast.Attribute, str], ...]:
    """Return what a function reads of those of its parameters that are named like the arguments of a program."""
    found = []
    for part in walk(function):
        match part:
            case ast.Attribute(value=ast.Name(id=name) as value, ctx=ast.Load()) if _NAMED.fullmatch(name):
                if is_parameter_of(reaching(module, module.scope(value).lookup(name), value), function):
                    found.append((part, name))
    return tuple(found)


def is_parameter_of(bindings: Sequence[Binding], function: ast.FunctionDef) -> bool:
    return (
        len(bindings) == 1
        and bindings[0].kind is BindingKind.PARAMETER
        and bindings[0].scope.node is function
        and not bindings[0].path
    )


def _held(project: Project, module: ModuleIndex, name: ast.Name, steps: int = _STEPS) -> _Namespace | None:
    """Return the arguments that a variable certainly holds."""
    bindings = reaching(module, module.scope(name).lookup(name.id), name)
    return _bound(project, module, bindings[0], name.id, steps) if len(bindings) == 1 else None


@cyclic(_NOBODY)
def _bound(project: Project, module: ModuleIndex, binding: Binding, name: str, steps: int) -> _Namespace | None:
    if binding.path or not steps:
        return None
    if binding.kind is BindingKind.ASSIGN and isinstance(binding.value, ast.Call):
        return _made(project, module, binding.value, steps)
    function = binding.scope.node
    if binding.kind is not BindingKind.PARAMETER or not isinstance(function, ast.FunctionDef):
        return None
    if function not in module.syntax.tree.body or function.decorator_list:
        return None
    sites = project.fact(Resolver).call_sites(module, function)
    found = [_passed(project, site, function, name, steps - 1) for site in sites]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found) or _is_handed_over(project, module, function, sites):
        return None
    paths = (*(path for one in known for path in one.paths), *(site.module.path for site in sites))
    return _Namespace(frozenset().union(*(one.names for one in known)), tuple(dict.fromkeys(paths)))


def _passed(project: Project, site: NodeRef, function: ast.FunctionDef, name: str, steps: int) -> _Namespace | None:
    """Return the arguments of the program that a call passes to a function."""
    if not isinstance(site.node, ast.Call) or isinstance(site.node, CallbackCall):
        return None
    passed = argument_of(function, site.node, name)
    if isinstance(passed, ast.Name):
        return _held(project, site.module, passed, steps)
    return _made(project, site.module, passed, steps) if passed is not None else None


def _is_handed_over(
    project: Project, module: ModuleIndex, function: ast.FunctionDef, sites: tuple[NodeRef, ...]
) -> bool:
    """Return whether a function is used other than in calls that are known: ``spawn(main, nprocs=2)``."""
    called = {site.node.func for site in sites if isinstance(site.node, ast.Call)}
    users = (project.module_at(path) for path in project.word_index.mentioning(word_of(function.name)))
    return any(
        use not in called
        for user in users
        if user is not None and (user is module or module.path in project.imported(user.path))
        for use in user.uses.get(function.name, ())
    )


def _made(project: Project, module: ModuleIndex, call: ast.expr, steps: int) -> _Namespace | None:
    """Return what ``parser.parse_args()`` returns, or a function of the tree that does nothing but that."""
    match call:
        case ast.Call(func=ast.Attribute(attr="parse_args", value=parser), args=[] | [_], keywords=keywords):
            if any(keyword.arg != "args" for keyword in keywords):
                return None
            names = _declared(project, module, parser)
            return _Namespace(names, (module.path,)) if names is not None else None
    returned = returned_by(project, module, call) if isinstance(call, ast.Call) else None
    if returned is None or not steps:
        return None
    where, value = returned
    found = (
        _held(project, where, value, steps - 1)
        if isinstance(value, ast.Name)
        else _made(project, where, value, steps - 1)
    )
    return _Namespace(found.names, (*found.paths, module.path)) if found is not None else None


def _declared(project: Project, module: ModuleIndex, parser: ast.expr) -> frozenset[str] | None:
    """Return the names of all options of a parser; None if they are unknown."""
    found = parser_of(project, module, parser)
    if found is None or not {keyword.arg for keyword in found.made.keywords} <= _SETTINGS:
        return None
    names = [_added(call) for call in found.calls]
    known = [one for one in names if one is not None]
    if len(known) < len(names) or any(is_lent(project, holder) for holder in found.holders):
        return None
    return frozenset().union(*known)


def _added(call: ast.Call) -> frozenset[str] | None:
    """Return the names that a call of a method of a parser adds; None if they are unknown."""
    match last_name(call.func):
        case "add_argument":
            option = option_of(call)
            return option.names if option.action in _ACTIONS else None
        case "set_defaults":
            names = [keyword.arg for keyword in call.keywords]
            return None if None in names or call.args else frozenset(filter(None, names))
        case name if name in _ADD_NOTHING:
            return frozenset()
    return None


def _may_be_set(project: Project, module: ModuleIndex, read: ast.Attribute, made: _Namespace) -> bool:
    """Return whether something sets or tests an attribute that is read in the files that see the arguments, or may set
    any attribute of them."""
    paths = _seen_by(project, module, made.paths)
    if any(_sets_any(project, path, last_name(read.value)) for path in paths):
        return True
    users = [path for path in project.word_index.mentioning(word_of(read.attr)) if path in paths]
    return any(_sets(one, read.attr) for one in map(project.module_at, users) if one is not None)


@query
def _seen_by(project: Project, module: ModuleIndex, paths: tuple[Path, ...]) -> frozenset[Path]:
    """Return the files that arguments may get to: those that handle them and what these import."""
    own = {module.path, *paths}
    return frozenset(own.union(*(project.imported(path) for path in own)))


@query
def _sets_any(project: Project, path: Path, name: str) -> bool:
    """Return whether a file may set any attribute of arguments, or passes a variable to what may and is not in the
    tree."""
    module = project.module_at(path)
    return module is not None and (
        project.finds(path, _SETS_MORE)
        or any(
            isinstance(given, ast.Name)
            and last_name(call.func) not in _READ_ONLY
            and not _is_of_tree(project, module, call)
            for call, given in module.handed_over.get(name, ())
        )
    )


def _is_of_tree(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    found = project.fact(Resolver).points_to(module, call.func)
    return bool(found) and all(isinstance(one.node, (*FUNCTIONS, ast.ClassDef)) for one in found)


@query
def _sets(module: ModuleIndex, name: str) -> bool:
    """Return whether a module stores an attribute of a name, or has the name as a text or as a keyword that may become
    one."""
    if not module.strings.isdisjoint({name, f"--{name}", name.replace("_", "-"), f"--{name.replace('_', '-')}"}):
        return True
    if any(part.attr == name and not isinstance(part.ctx, ast.Load) for part in module.syntax.of(ast.Attribute)):
        return True
    calls = (call for one in _BY_NAME for call in module.calls_by_name.get(one, ()))
    return any(keyword.arg == name for call in calls for keyword in call.keywords)
