"""Where another option of a loader belongs: in its call, or in the table of options that the call unpacks."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.documents.python import PythonModule
from gpulint.fix import Edit
from gpulint.project import Project
from gpulint.query import query
from gpulint.source import Span
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.training.loader_flow import LoaderFlow
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import BindingKind, Scope
from gpulint_fixers.edits.calls import add_keyword

_ENTRY = regex.compile(r"([ ]+)[\w.-]+:[ \t]+[^\s#{\[&*|>][^\n]*")
"""``  batch_size: 64`` in a section of a YAML file."""
_IN_YAML = {"True": "true", "torch.cuda.is_available()": "true"}
_ALWAYS = ("batch_size", "num_workers")
"""Options of which at least one is in each section for a loader."""


def add_options(project: Project, loader: Loader, *options: tuple[str, str]) -> Edit:
    """Add options (``("pin_memory", "True")``) to a loader: beside the others that its only ``**options`` has, if
    nothing but loaders without them take it, else to its call."""
    syntax = loader.module.syntax
    unpacked = [keyword.value for keyword in loader.node.keywords if keyword.arg is None]
    if len(unpacked) == 1:
        made = _in_table(project, loader, unpacked[0], options) or _in_file(project, loader, unpacked[0], options)
        if made is not None:
            return made
    return add_keyword(syntax, loader.node, *(f"{name}={value}" for name, value in options))


def _in_table(project: Project, loader: Loader, table: ast.expr, options: tuple[tuple[str, str], ...]) -> Edit | None:
    """``options = {"batch_size": 64}`` in the function that makes the loader."""
    module = loader.module
    if not isinstance(table, ast.Name):
        return None
    home = module.scope(table)
    bindings = home.bindings.get(table.id, [])
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.ASSIGN or bindings[0].path:
        return None
    uses = [use for use in module.uses.get(table.id, ()) if module.scope(use).lookup(table.id) is bindings]
    calls = [_unpacks(module.syntax, use) for use in uses]
    others = [use for use, call in zip(uses, calls, strict=True) if call is None and not _changes(module.syntax, use)]
    users = [call for call in calls if call is not None]
    names, made_in = {name for name, _ in options}, bindings[0].node
    if not all(_is_set(home, value, getattr(made_in, "lineno", 0)) for _, value in options):
        return None
    if others or not all(_is_loader(project, loader, call) for call in users):
        return None
    if any(keyword.arg in names for call in users for keyword in call.keywords):
        return None
    match bindings[0].value:
        case ast.Call(func=ast.Name(id="dict"), args=[]) as made if made.keywords:
            return add_keyword(module.syntax, made, *(f"{name}={value}" for name, value in options))
        case ast.Dict() as made:
            return _in_dict(module.syntax, made, options)
    return None


def _is_set(home: Scope, value: str, line: int) -> bool:
    """Return whether all names of an expression have their values above a line of a scope."""
    names = [part.id for part in ast.walk(ast.parse(value, mode="eval")) if isinstance(part, ast.Name)]
    return all(
        bound and (name not in home.bindings or all(getattr(one.node, "lineno", line) < line for one in bound))
        for name in names
        for bound in [home.lookup(name)]
    )


def _unpacks(syntax: PythonModule, use: ast.AST) -> ast.Call | None:
    """The call that a table is unpacked into."""
    keyword = syntax.parents.get(use)
    call = syntax.parents.get(keyword) if isinstance(keyword, ast.keyword) and keyword.arg is None else None
    return call if isinstance(call, ast.Call) else None


def _changes(syntax: PythonModule, use: ast.AST) -> bool:
    """``options.update(more)`` and ``options["shuffle"] = True``"""
    match syntax.parents.get(use):
        case ast.Attribute(attr="update"):
            return True
        case ast.Subscript(ctx=ast.Store()):
            return True
    return isinstance(use, ast.Name) and isinstance(use.ctx, ast.Store)


@query
def _is_loader(project: Project, loader: Loader, call: ast.Call) -> bool:
    return any(one.node is call for one in project.fact(LoaderFlow).in_module(loader.module))


def _in_dict(syntax: PythonModule, made: ast.Dict, options: tuple[tuple[str, str], ...]) -> Edit | None:
    """Add entries to a dictionary, behind the others of a line or on lines of their own."""
    keys = [key for key in made.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    if not keys or len(keys) < len(made.keys):
        return None
    source, text = syntax.source, syntax.source.text
    quote = syntax.text(keys[-1])[:1]
    entries = [f"{quote}{name}{quote}: {value}" for name, value in options]
    (start, _), end, close = syntax.offsets(keys[-1]), syntax.offsets(made.values[-1])[1], syntax.offsets(made)[1] - 1
    behind = text[end:close]
    line, column = source.position(start)
    indent = source.line(line)[: column - 1]
    if quote not in "\"'" or behind.strip() not in ("", ","):
        return None
    if indent.strip():
        return Edit(syntax.path, syntax.span_at(end, close), f", {', '.join(entries)}")
    if len({source.position(syntax.offsets(key)[0])[0] for key in keys}) < len(keys):
        return Edit(syntax.path, syntax.span_at(end, end), f", {', '.join(entries)}")
    lines = f",\n{indent}".join(entries)
    if behind.startswith(","):
        return Edit(syntax.path, syntax.span_at(end + 1, end + 1), f"\n{indent}{lines},")
    return Edit(syntax.path, syntax.span_at(end, end), f",\n{indent}{lines}")


def _in_file(project: Project, loader: Loader, table: ast.expr, options: tuple[tuple[str, str], ...]) -> Edit | None:
    """``**cfg.loader`` of a YAML file, whose section gets another line."""
    plain = all(value in _IN_YAML or value.isdecimal() for _, value in options)
    if not plain or not isinstance(table, ast.Attribute | ast.Subscript):
        return None
    places = {
        value.place
        for name in _ALWAYS
        for ref in loader_argument(project, loader, name).refs
        for value in project.fact(Constants).of(ref.module, ref.node).values
    }
    if len({place.path for place in places}) != 1:
        return None
    place = max(places, key=lambda one: one.span.line)
    document = project.document(place.path)
    if document is None or place.path.suffix not in (".yaml", ".yml"):
        return None
    source, line = document.source, place.span.line
    first = min(one.span.line for one in places)
    entries = [_ENTRY.fullmatch(source.line(one.span.line)) for one in places]
    indents = {found[1] if found is not None else "" for found in entries}
    indent = indents.pop()
    if indents or not indent or not all(source.line(one).startswith(indent) for one in range(first, line)):
        return None
    added = [f"{indent}{name}: {_IN_YAML.get(value, value)}" for name, value in options]
    end = len(source.line(line).rstrip("\r\n")) + 1
    return Edit(place.path, Span(line, end, line, end), "".join(f"\n{one}" for one in added))
