"""Command lines that the ``argparse`` parser of a program certainly rejects, where literals say all of the parser."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, dotted, last_name, source_text

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_PARSER = "argparse.ArgumentParser"
_PLAIN = frozenset({"description", "prog", "usage", "epilog", "formatter_class", "add_help", "allow_abbrev"})
"""What a parser may be given that does not change which words it takes, or that is read."""
_METHODS = frozenset({"add_argument", "parse_args", "set_defaults", "print_help", "print_usage", "error", "exit"})
_GROUPS = frozenset({"add_argument_group", "add_mutually_exclusive_group"})
_ACTIONS = frozenset({"store", "store_true", "store_false", "append", "count"})
_TYPES = {"int": int, "float": float, "str": str}
_OTHERS = regex.compile(r"\bparse_(?:known|intermixed)|\bargv\b|add_subparsers|fromfile_prefix|set_known")
"""What reads or changes the words before the parser does, or lets it leave some out."""
_AROUND = (ast.If, ast.Try, ast.With, ast.Match, ast.comprehension, *LOOPS)
MAX_FOLLOWED = 4
"""Most names and functions that lead from a parser to the call that parses."""


@dataclass(frozen=True, slots=True)
class _Option:
    """One call of ``add_argument``: its words, and its literal keywords."""

    words: tuple[str, ...]
    nargs: object
    action: str
    required: bool
    kind: str | None
    """The name of the type; None for a function of which nothing is known."""
    choices: tuple[object, ...] | None


@dataclass(frozen=True, slots=True)
class _Declared:
    options: tuple[_Option, ...]
    has_help: bool
    abbreviates: bool


class _RejectedError(Exception):
    """The parser ends the program with an error."""


class _Parser(argparse.ArgumentParser):
    has_help = False
    """Whether ``--help`` ends the program first."""

    def error(self, message: str) -> NoReturn:
        raise _RejectedError(message)


def rejects(project: Project, module: ModuleIndex, words: Sequence[str]) -> bool:
    """Return whether the parser of a program certainly ends it for such words."""
    parser = _built(project, module)
    if parser is None:
        return False
    try:
        parser.parse_args([*words])
    except _RejectedError:
        return not (parser.has_help and {"-h", "--help"} & {*words})
    return False


@query
def _built(project: Project, module: ModuleIndex) -> _Parser | None:
    """Return a parser that takes the same words as that of a module; None where that is uncertain."""
    declared = _declared(project, module)
    if declared is None:
        return None
    parser = _Parser(add_help=False, allow_abbrev=declared.abbreviates)
    parser.has_help = declared.has_help
    try:
        if declared.has_help:
            parser.add_argument("-h", "--help", action="store_true")
        for option in declared.options:
            parser.add_argument(*option.words, **_keywords(option))
    except (TypeError, ValueError, argparse.ArgumentError):
        return None
    return parser


def _keywords(option: _Option) -> dict[str, Any]:
    given: dict[str, Any] = {"action": option.action}
    if option.required:
        given["required"] = True
    if option.action in ("store", "append"):
        given["type"] = _TYPES.get(option.kind or "", str)
        if option.nargs is not None:
            given["nargs"] = option.nargs
        if option.choices is not None and option.kind is not None:
            given["choices"] = option.choices
    return given


def _declared(project: Project, module: ModuleIndex) -> _Declared | None:
    """Return what the one parser of a module takes, if that is certain: each use of it is seen, nothing else gets it,
    and the module parses the words of its command with it, whatever happens before."""
    made = module.calls_by_name.get("ArgumentParser", ())
    parses, declares = (module.calls_by_name.get(name, ()) for name in ("parse_args", "add_argument"))
    if not made or not parses or regex.occurs(_OTHERS, module.syntax.source.text):
        return None
    if any(call.args or call.keywords or not _always_runs(module, call) for call in parses):
        return None
    if not all(_is_plain(project, module, call, made) for call in made) or len(made) > 2:
        return None
    seen = _Uses(project, module)
    if not all(seen.follow(call, MAX_FOLLOWED) for call in made):
        return None
    options = [_option(module, call) for call in declares]
    known = [option for option in options if option is not None]
    if len(known) != len(options) or not {*parses, *declares} <= seen.called:
        return None
    outer = [call for call in made if keyword_value(call, "parents") is not None] or [*made]
    helps, short = ([keyword_value(call, name) for call in outer] for name in ("add_help", "allow_abbrev"))
    if len(outer) != 1 or any(one is not None and not isinstance(one, ast.Constant) for one in (*helps, *short)):
        return None
    return _Declared(
        tuple(known),
        *(one[0] is None or (isinstance(one[0], ast.Constant) and one[0].value is True) for one in (helps, short)),
    )


def _is_plain(project: Project, module: ModuleIndex, call: ast.Call, made: Sequence[ast.Call]) -> bool:
    names = project.fact(Resolver).call_names(module, call)
    if names != {_PARSER} or len(call.args) > 4 or not _always_runs(module, call):
        return False
    for one in call.keywords:
        if one.arg == "parents" and len(made) == 2:
            match one.value:
                case ast.List(elts=[ast.Call(args=[], keywords=[])]):
                    continue
        if one.arg not in _PLAIN:
            return False
    return len(made) == 1 or len([one for one in made if keyword_value(one, "parents") is not None]) == 1


def _always_runs(module: ModuleIndex, call: ast.Call, depth: int = MAX_FOLLOWED) -> bool:
    """Return whether no condition or loop is around a call, and its module calls its function, likewise."""
    inner: ast.AST = call
    for up in module.syntax.ancestors(call):
        if isinstance(up, FUNCTIONS):
            sites = module.calls_by_name.get(up.name, ())
            plain = not up.decorator_list and module.class_of(up) is None
            return plain and depth > 0 and any(_always_runs(module, site, depth - 1) for site in sites)
        if isinstance(up, ast.If) and _is_main(module, up.test):
            if inner not in up.body:
                return False
        elif isinstance(up, (*_AROUND, ast.ClassDef, ast.Lambda)):
            return False
        inner = up
    return True


def _is_main(module: ModuleIndex, test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and "__main__" in source_text(module, test)


class _Uses:
    """The calls of methods of parsers, as all uses of the names that hold them show."""

    def __init__(self, project: Project, module: ModuleIndex) -> None:
        self.project, self.module = project, module
        self.called = set[ast.Call]()

    def follow(self, value: ast.expr, depth: int) -> bool:
        """Return whether all that is done with a value is known."""
        parents = self.module.syntax.parents
        match parents.get(value):
            case ast.Attribute(attr=name) as method:
                return self._method(method, name, depth)
            case ast.Assign(targets=[ast.Name() as target]) if depth:
                return self._holder(target, depth - 1)
            case ast.Return() if depth:
                function = self.module.function(value)
                return function is not None and self._results(function.name, depth - 1)
            case ast.List() as parents_list:
                return isinstance(up := parents.get(parents_list), ast.keyword) and up.arg == "parents"
            case ast.Expr():
                return True
        return False

    def _method(self, method: ast.Attribute, name: str, depth: int) -> bool:
        call = self.module.syntax.parents.get(method)
        if not isinstance(call, ast.Call) or call.func is not method:
            return False
        self.called.add(call)
        if name in _GROUPS and depth:
            return self.follow(call, depth - 1)
        return name in _METHODS

    def _holder(self, target: ast.Name, depth: int) -> bool:
        bindings = self.module.scope(target).lookup(target.id)
        uses, scope = self.module.uses.get(target.id, ()), self.module.scope(target)
        own = [use for use in uses if self.module.scope(use).lookup(use.id) == bindings]
        if len(bindings) == 1:
            return all(self.follow(use, depth) for use in own)
        # ``args = parser(); args = args.parse_args()``: what is read below the second one is no parser
        second = [one for one in self.module.named.get(target.id, ()) if isinstance(one.ctx, ast.Store)]
        stores = [one for one in second if self.module.scope(one) is scope]
        if len(stores) != 2 or len(bindings) != 2 or stores[0] is not target:
            return False
        again = self.module.syntax.parents.get(stores[1])
        if not isinstance(again, ast.Assign) or last_name(getattr(again.value, "func", again.value)) != "parse_args":
            return False
        return all(self.follow(use, depth) for use in own if use.lineno <= again.lineno)

    def _results(self, name: str, depth: int) -> bool:
        calls = self.module.calls_by_name.get(name, ())
        named = {call.func for call in calls}
        if any(use not in named for use in self.module.uses.get(name, ())) or not calls:
            return False
        return all(isinstance(call.func, ast.Name) and self.follow(call, depth) for call in calls)


def _option(module: ModuleIndex, call: ast.Call) -> _Option | None:
    """Return what a call declares; None if it is not certain that it does, or what."""
    words = [part.value for part in call.args if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    given = {one.arg: one.value for one in call.keywords}
    if not words or len(words) != len(call.args) or None in given or not _always_runs(module, call):
        return None
    nargs, required = _literal(given.get("nargs")), _literal(given.get("required"))
    action = _literal(given.get("action"), "store")
    if Ellipsis in (nargs, required) or action not in _ACTIONS or not isinstance(action, str):
        return None
    if not (nargs is None or nargs in ("?", "*", "+") or type(nargs) is int):
        return None
    kind = dotted(given["type"]) if "type" in given else "str"
    return _Option(
        tuple(words), nargs, action, required is True, kind if kind in _TYPES else None, _choices(given.get("choices"))
    )


def _choices(node: ast.expr | None) -> tuple[object, ...] | None:
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) if _are_constants(parts):
            return tuple(part.value for part in parts if isinstance(part, ast.Constant))
    return None


def _are_constants(parts: Iterable[ast.expr]) -> bool:
    return all(isinstance(part, ast.Constant) for part in parts)


def _literal(node: ast.expr | None, default: object = None) -> object:
    """Return the value of a literal, or an ellipsis for anything else."""
    if node is None:
        return default
    return node.value if isinstance(node, ast.Constant) else Ellipsis
