"""Command lines that the ``argparse`` parser of a program certainly rejects, where literals say all of the parser."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from gpulint import regex
from gpulint.documents.call_syntax import keyword_value
from gpulint.query import query
from gpulint.semantic.argument_parsers import GROUPS, Holder, Parser, holder_of, parser_of
from gpulint.semantic.declared_options import Option, literal, option_of
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, last_name, source_text

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_PLAIN = frozenset({"description", "prog", "usage", "epilog", "formatter_class", "add_help", "allow_abbrev"})
"""What a parser may be given that does not change which words it takes, or that is read."""
_METHODS = GROUPS | {"add_argument", "parse_args", "set_defaults", "print_help", "print_usage", "error", "exit"}
_ACTIONS = frozenset({"store", "store_true", "store_false", "append", "count"})
_TYPES = {"int": int, "float": float, "str": str}
_OTHERS = regex.compile(r"\bparse_(?:known|intermixed)|\bargv\b|add_subparsers|fromfile_prefix|set_known")
"""What reads or changes the words before the parser does, or lets it leave some out."""
_AROUND = (ast.If, ast.Try, ast.With, ast.Match, ast.comprehension, *LOOPS)
MAX_FOLLOWED = 4
"""Most functions around the call that parses, each called by the next."""


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
    found = _certain(project, module)
    if found is None:
        return None
    has_help, abbreviates = (
        literal(keyword_value(found.made, name), default=True) for name in ("add_help", "allow_abbrev")
    )
    if Ellipsis in (has_help, abbreviates):
        return None
    parser = _Parser(add_help=False, allow_abbrev=abbreviates is True)
    parser.has_help = has_help is True
    try:
        if parser.has_help:
            parser.add_argument("-h", "--help", action="store_true")
        for call in (call for one in (*found.parents, found) for call in _options(one)):
            keywords = _keywords(option_of(call))
            if keywords is None:
                return None
            parser.add_argument(*option_of(call).words, **keywords)
    except (TypeError, ValueError, argparse.ArgumentError):
        return None
    return parser


def _keywords(option: Option) -> dict[str, Any] | None:
    """Return what else decides which words an option takes; None if that is uncertain."""
    nargs, required = option.literal("nargs"), option.literal("required")
    if not option.words or not option.is_whole or required is Ellipsis or option.action not in _ACTIONS:
        return None
    if not (nargs is None or nargs in ("?", "*", "+") or type(nargs) is int):
        return None
    given: dict[str, Any] = {"action": option.action}
    if required is True:
        given["required"] = True
    if option.action in ("store", "append"):
        given["type"] = _TYPES.get(option.kind, str)
        if nargs is not None:
            given["nargs"] = nargs
        if option.choices is not None and option.kind in _TYPES:
            given["choices"] = option.choices
    return given


def _certain(project: Project, module: ModuleIndex) -> Parser | None:
    """Return the one parser of a module, if that is certain: each use of it is seen, nothing else gets it, and the
    module parses the words of its command with it, whatever happens before."""
    parses, declares, made = (
        module.calls_by_name.get(name, ()) for name in ("parse_args", "add_argument", "ArgumentParser")
    )
    if not parses or regex.occurs(_OTHERS, module.syntax.source.text):
        return None
    if any(call.args or call.keywords or not _always_runs(module, call) for call in parses):
        return None
    found = [parser_of(project, module, call.func.value) for call in parses if isinstance(call.func, ast.Attribute)]
    parsers = [parser for parser in found if parser is not None]
    if len(parsers) < len(parses) or len({(parser.made, _options(parser)) for parser in parsers}) > 1:
        return None
    holders = dict.fromkeys(holder for one in (*parsers[0].parents, *parsers) for holder in one.holders)
    if not {*made} <= {holder.value for holder in holders}:
        return None
    if not {*parses, *declares} <= {call for holder in holders for call in holder.calls}:
        return None
    return parsers[0] if _is_plain(parsers[0]) and all(_is_certain(module, one) for one in holders) else None


def _options(parser: Parser) -> tuple[ast.Call, ...]:
    return tuple(call for call in parser.calls if last_name(call.func) == "add_argument")


def _is_plain(parser: Parser) -> bool:
    """Return whether the class and all settings of a parser and its parents are known."""
    own = {keyword.arg for keyword in parser.made.keywords} - {"parents"}
    return parser.is_certain and own <= _PLAIN and all(_is_plain(parent) for parent in parser.parents)


def _is_certain(module: ModuleIndex, holder: Holder) -> bool:
    """Return whether a program certainly gets to a value that is its parser, which takes the options that are seen. Of
    another module, each call of a function makes a parser."""
    where, value = holder.module, holder.value
    function = where.function(value) if where is not module else None
    declares = [call for call in holder.calls if last_name(call.func) == "add_argument"]
    if holder.sets or not {last_name(call.func) for call in holder.calls} <= _METHODS:
        return False
    if not all(_always_runs(where, call, function) for call in (value, *declares)):
        return False
    if where is module:
        return all(_is_only_called(module, one) for one in holder.returns)
    return function is not None and not holder.names and not regex.occurs(_OTHERS, where.syntax.source.text)


def _is_only_called(module: ModuleIndex, returned: ast.Return) -> bool:
    """Return whether a module does nothing with a function that returns a parser but use the parser."""
    function = module.function(returned)
    calls = module.calls_by_name.get(function.name, ()) if function is not None else ()
    named = {call.func for call in calls if isinstance(call.func, ast.Name)}
    if function is None or not calls or not {*module.uses.get(function.name, ())} <= named or len(named) < len(calls):
        return False
    return all(holder_of(module, call) is not None for call in calls)


def _always_runs(module: ModuleIndex, call: ast.Call, within: ast.AST | None = None, depth: int = MAX_FOLLOWED) -> bool:
    """Return whether no condition or loop is around a call, and its module calls its function, likewise, or it is
    ``within`` a function that is called."""
    inner: ast.AST = call
    for up in module.syntax.ancestors(call):
        if isinstance(up, FUNCTIONS):
            if up.decorator_list or module.class_of(up) is not None:
                return False
            sites = module.calls_by_name.get(up.name, ()) if depth and within is None else ()
            return up is within or any(_always_runs(module, site, None, depth - 1) for site in sites)
        if isinstance(up, ast.If) and _is_main(module, up.test):
            if inner not in up.body:
                return False
        elif isinstance(up, (*_AROUND, ast.ClassDef, ast.Lambda)):
            return False
        inner = up
    return True


def _is_main(module: ModuleIndex, test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and "__main__" in source_text(module, test)
