"""Lambdas that make batches, as what workers can be sent where processes are not forked: the function that they call,
or a ``functools.partial`` of it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.fix import Edit
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader
from gpulint.workload.sent_parts import can_be_sent
from gpulint.workspace.module_index import BindingKind, ModuleIndex
from gpulint_fixers.edits.imports import import_partial

_MADE_BEFORE = (ast.Name, ast.Attribute, ast.Constant, ast.Load)


@query
def sendable_collate(project: Project, loader: Loader) -> tuple[Edit, ...]:
    """Replace ``collate_fn=lambda rows: collate(rows, pad=0)`` by ``partial(collate, pad=0)``, with its import; nothing
    where it is something else, or what it is given may not be there yet or cannot be sent."""
    module, given = loader.module, keyword_value(loader.node, "collate_fn")
    match given:
        case ast.Lambda(args=ast.arguments(args=[rows], defaults=[], vararg=None, kwonlyargs=[], kwarg=None)):
            called = given.body
        case _:
            return ()
    if not isinstance(called, ast.Call) or module.syntax.span(given).cell is not None or not _is_known(module, called):
        return ()
    kept = _kept(project, module, called, rows.arg)
    if kept is None or not all(_is_there(project, module, loader.node, value) for _, value in kept):
        return ()
    syntax, function = module.syntax, module.syntax.text(called.func)
    at = syntax.span(given)
    if not kept:
        return (Edit(module.path, at, function),)
    made = import_partial(module)
    if made is None:
        return ()
    partial, imports = made
    texts = (f"{name}={syntax.text(value)}" if name else syntax.text(value) for name, value in kept)
    return (Edit(module.path, at, f"{partial}({', '.join((function, *texts))})"), *imports)


def with_collate(module: ModuleIndex, edits: Sequence[Edit], collate: Sequence[Edit]) -> tuple[Edit, ...]:
    """Edits of a call together with that of its lambda, which one of them may have moved to a line of its own."""
    if not collate:
        return tuple(edits)
    (own, *imports), source = collate, module.syntax.source
    start, end = source.offset(own.span.line, own.span.column), source.offset(own.span.end_line, own.span.end_column)
    text, made = source.text[start:end], list[Edit]()
    for edit in edits:
        span = edit.span
        around = edit.path == own.path and (span.line, span.column) <= (own.span.line, own.span.column)
        if around and (span.end_line, span.end_column) >= (own.span.end_line, own.span.end_column):
            made.append(replace(edit, text=edit.text.replace(text, own.text)))
        else:
            made.append(edit)
    return (*made, *imports) if any(a is not b for a, b in zip(made, edits, strict=True)) else (*made, own, *imports)


def _is_known(module: ModuleIndex, called: ast.Call) -> bool:
    """Return whether a function is bound once at the top of a module, by a definition or an import."""
    root = called.func
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return False
    bound = module.scope(root).lookup(root.id)
    kinds = (BindingKind.IMPORT,) if root is not called.func else (BindingKind.IMPORT, BindingKind.FUNCTION)
    return len(bound) == 1 and bound[0].kind in kinds and bound[0].scope is module.top


def _kept(project: Project, module: ModuleIndex, called: ast.Call, rows: str) -> list[tuple[str, ast.expr]] | None:
    """The arguments of a call other than the rows, those behind them by name; None if it uses the rows otherwise, or
    the names are not known."""
    passed = [*called.args, *(keyword.value for keyword in called.keywords)]
    uses = [part for value in passed for part in walk(value) if isinstance(part, ast.Name) and part.id == rows]
    at = next((number for number, value in enumerate(called.args) if value in uses), None)
    if len(uses) != 1 or at is None or any(isinstance(value, ast.Starred) for value in called.args):
        return None
    if any(keyword.arg is None for keyword in called.keywords):
        return None
    kept = [("", value) for value in called.args[:at]]
    if behind := called.args[at + 1 :]:
        functions = [one.node for one in project.fact(Resolver).callees(module, called)]
        if len(functions) != 1 or not isinstance(functions[0], ast.FunctionDef) or functions[0].args.posonlyargs:
            return None
        names = [one.arg for one in functions[0].args.args[at + 1 :]]
        if len(names) < len(behind):
            return None
        kept += zip(names, behind, strict=False)
    return [*kept, *((keyword.arg or "", keyword.value) for keyword in called.keywords)]


def _is_there(project: Project, module: ModuleIndex, call: ast.Call, value: ast.expr) -> bool:
    """Return whether an argument is the same when the loader is made, and can be sent."""
    if not all(isinstance(part, _MADE_BEFORE) for part in walk(value)) or not can_be_sent(project, module, value):
        return False
    for name in (part for part in walk(value) if isinstance(part, ast.Name)):
        bound = module.scope(name).lookup(name.id)
        if name.id == "self" or len(bound) != 1 or getattr(bound[0].node, "lineno", call.lineno) > call.lineno:
            return False
    return True
