"""Other names under which a module may call a class that loads batches: what imports and assignments call it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query, stored
from gpulint.training.loader_calls import LoaderClasses
from gpulint.workspace.module_index import Binding, BindingKind, ModuleIndex, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project


@query
def calling_names(project: Project, module: ModuleIndex) -> frozenset[str]:
    """Last names of what may be a loader class where a module calls it, to ask of these alone what they are."""
    names, words = _exported(project)
    return _in_module(module, names) if project.word_index.holds_one(module.path, words) else names


@query
def _exported(project: Project) -> tuple[frozenset[str], frozenset[bytes]]:
    """The last names of the classes, and those that modules of the tree give them for others to import; the same as
    words."""
    known = set(project.models.derived(LoaderClasses).last_names)
    todo = sorted(known)
    for name in todo:
        for path in project.word_index.mentioning(word_of(name)):
            more = [other for other in _renamed(project, path, name) if other not in known]
            known.update(more)
            todo += more
    return frozenset(known), frozenset(map(word_of, known))


@stored("renamed at the top")
def _renamed(project: Project, path: Path, name: str) -> tuple[str, ...]:
    """Return what else a file calls something of a name at its top."""
    # Few files have any, and the others are not parsed.
    if path.suffix != ".ipynb" and not _renaming(name).search(project.utf8(path)):
        return ()
    if (module := project.module_at(path)) is None:
        return ()
    names = _in_module(module, frozenset({name}))
    return tuple(sorted(found for found in names if found != name and found in module.top.bindings))


@cache
def _renaming(name: str) -> re.Pattern[bytes]:
    """Return what only files hold that give something another name."""
    word = re.escape(word_of(name))
    given = rb"(?:=|\bpartial\(|\b(?:or|and|else)\b)[\s(\\]*(?:\w+\s*\.\s*)*%b\b(?!\s*\()" % word
    return regex.compile(rb"\b%b\s+as\b|%b" % (word, given))


@query
def _in_module(module: ModuleIndex, names: frozenset[str]) -> frozenset[str]:
    """``names`` and what else the module calls them, in any scope."""
    given = _given(module)
    known, todo = set(names), [*names]
    for name in todo:
        more = given.get(name, set()) - known
        known |= more
        todo += more
    return frozenset(known)


@query
def _given(module: ModuleIndex) -> dict[str, set[str]]:
    """Last name of what is imported or assigned -> other names that it gets."""
    found: dict[str, set[str]] = {}
    for scope in module.scope_of.values():
        for name, bindings in scope.bindings.items():
            for last in {last for binding in bindings for last in _sources(binding)} - {name}:
                found.setdefault(last, set()).add(name)
    return found


def _sources(binding: Binding) -> Iterable[str]:
    """Last names of what a name may be bound to (see :class:`gpulint.semantic.qualified_names.QualifiedNames`)."""
    if binding.kind is BindingKind.IMPORT:
        return (binding.target.rpartition(".")[2],)
    if binding.kind is BindingKind.ASSIGN and binding.value is not None and not binding.path:
        return _named(binding.value)
    return ()


def _named(value: ast.expr) -> Iterator[str]:
    match value:
        case ast.Name() | ast.Attribute():
            yield last_name(value)
        case ast.Call(args=[inner, *_]):
            yield from _named(inner)  # of `partial`
        case ast.IfExp(body=body, orelse=orelse):
            yield from _named(body)
            yield from _named(orelse)
        case ast.BoolOp(values=values):
            for part in values:
                yield from _named(part)
