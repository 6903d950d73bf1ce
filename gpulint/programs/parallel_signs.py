"""Signs of parallel work in the code of a module; what it only tells people, in docstrings and messages, is none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gpulint import regex
from gpulint.documents.python import PythonModule
from gpulint.finding import Place
from gpulint.libraries.gpu_libraries import FRAMEWORKS, SECOND_DEVICE, Approach
from gpulint.records import dataclass
from gpulint.source import Span
from gpulint.workspace.module_index import ModuleIndex, dotted, last_name

_COMMENT = regex.compile(r"^[ \t]*#.*$", re.MULTILINE)
_WORD = regex.compile(r"[A-Za-z_]\w*")
_TELLS = frozenset({"print", "info", "debug", "warning", "warn", "error", "critical", "exception", "add_argument"})
_PLAIN_BASES = frozenset({"object", "ABC", "Generic", "Protocol"})
_PLAIN_DECORATORS = frozenset({"dataclass"})


@dataclass(frozen=True, slots=True)
class Parallel:
    """One sign of parallel work in a program."""

    approach: Approach
    name: str
    place: Place


def signs(module: ModuleIndex | None, path: Path, text: str, known: Mapping[str, Approach]) -> Iterator[Parallel]:
    """Yield the first place of each name that stands for an approach, and of a second device."""
    code = _COMMENT.sub(lambda match: " " * len(match.group()), text)
    if not _occurs(code, known):
        return
    if module is not None:
        code = _without_prose(module.syntax, code)

    def place(start: int, end: int) -> Place:
        return Place(path, module.syntax.span_at(start, end) if module is not None else Span(1, 1, 1, 1))

    seen = set[str]()
    for match in _WORD.finditer(code):
        name = match.group()
        approach = _approach(name, known)
        if approach is not None and name not in seen:
            seen.add(name)
            yield Parallel(approach, name, place(*match.span()))
    if second := SECOND_DEVICE.search(code):
        yield Parallel(Approach.MODEL, second.group(), place(*second.span()))


def _occurs(code: str, known: Mapping[str, Approach]) -> bool:
    names = set(_WORD.findall(code))
    return SECOND_DEVICE.search(code) is not None or any(_approach(name, known) is not None for name in names)


def _approach(name: str, known: Mapping[str, Approach]) -> Approach | None:
    return known.get(name) or (Approach.FRAMEWORK if FRAMEWORKS.fullmatch(name) else None)


def _without_prose(syntax: PythonModule, text: str) -> str:
    """Return the code with spaces for docstrings, and for strings of what it prints, logs, raises or shows as help."""
    if len(text) != len(syntax.source.text):
        return text
    for start, end in {syntax.offsets(node) for node in _prose(syntax)}:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _prose(syntax: PythonModule) -> Iterator[ast.expr]:
    for statement in syntax.of(ast.Expr):
        if isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str):
            yield statement.value
    for call in syntax.of(ast.Call):
        if last_name(call.func) not in _TELLS:
            continue
        shown: list[ast.expr] = [*call.args] if last_name(call.func) != "add_argument" else []
        shown += [keyword.value for keyword in call.keywords if keyword.arg in ("help", "msg")]
        for part in shown:
            yield from _strings(part)
    for raised in syntax.of(ast.Raise):
        if isinstance(raised.exc, ast.Call):
            for part in raised.exc.args:
                yield from _strings(part)


def _strings(node: ast.expr) -> Iterator[ast.expr]:
    """Yield a string, or those that are added up or filled in."""
    match node:
        case ast.Constant(value=str()) | ast.JoinedStr():
            yield node
        case ast.BinOp(left=left, right=right):
            yield from _strings(left)
            yield from _strings(right)
        case ast.Call(func=ast.Attribute(attr="format", value=value)):
            yield from _strings(value)


def own_classes(modules: Iterable[ModuleIndex], foreign: frozenset[str]) -> frozenset[str]:
    """Return the names of classes that rest on no library, so that nothing but their own code spreads their work; none
    that is taken of a ``foreign`` package, too."""
    modules = tuple(modules)
    defined: dict[str, list[ast.ClassDef]] = {}
    for module in modules:
        for one in module.classes:
            defined.setdefault(one.name, []).append(one)
    own = {name for name in defined if not any(_takes(module, name, foreign) for module in modules)}
    found = set[str]()
    while more := {name for name in own - found if all(_is_plain(one, found) for one in defined[name])}:
        found |= more
    return frozenset(found)


def _takes(module: ModuleIndex, name: str, foreign: frozenset[str]) -> bool:
    """Return whether a module imports a name of a package, or reads it of one: ``transformers.Trainer``."""
    if any(one.target.partition(".")[0] in foreign for one in module.top.bindings.get(name, ())):
        return True
    owners = (part.value for part in module.syntax.of(ast.Attribute) if part.attr == name)
    bases = {dotted(owner).partition(".")[0] for owner in owners}
    return any(one.target.partition(".")[0] in foreign for base in bases for one in module.top.bindings.get(base, ()))


def _is_plain(made: ast.ClassDef, plain: set[str]) -> bool:
    """Return whether a class has bases of Python's own, and plain ones of the program, alone."""
    bases = {last_name(base.value if isinstance(base, ast.Subscript) else base) for base in made.bases}
    decorators = {last_name(one.func if isinstance(one, ast.Call) else one) for one in made.decorator_list}
    return bases <= _PLAIN_BASES | plain and decorators <= _PLAIN_DECORATORS
