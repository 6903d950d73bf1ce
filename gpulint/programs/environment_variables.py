"""Environment variables set anywhere in a document: ``os.environ``, ``export``, a command's prefix, a spec's ``env``,
ENV."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import reasons, regex
from gpulint.documents.base import Document
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.source import Span
from gpulint.training.guards import Guards
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex, dotted

if TYPE_CHECKING:
    from gpulint.documents.shell import Command, Script
    from gpulint.project import Project


_GROUPED = regex.compile(r"\s*(?:(?:export\s+|ENV\s+)?NCCL_\w+=|os\.environ\[.NCCL_|torch\.backends\.)")
"""Settings that stand together under one comment."""
_ALONE = regex.compile(r"\b(single|one)[- ](node|machine|host)\b", re.IGNORECASE)
"""Words that say why there is nothing to exchange between machines."""
_DECLARATIONS = frozenset({"export", "declare", "typeset", "local", "readonly", "echo", "printf"})


@dataclass(frozen=True, slots=True)
class EnvironmentSetting:
    """A variable gets a value. ``value`` is None when it could not be told.

    ``node`` is the Python statement's expression; ``conditional``: the setting is under a condition.
    """

    name: str
    value: str | None
    span: Span
    node: ast.AST | None = None
    conditional: bool = False


def settings(document: Document, project: Project, names: frozenset[str]) -> Iterator[EnvironmentSetting]:
    """Yield where a document sets one of ``names``, in its own order per language."""
    if (module := project.module(document)) is not None:
        yield from _in_python(module, project, names)
    for script in document.scripts:
        yield from _in_shell(script, names)
    for task in document.tasks:
        for variable in task.env:
            if variable.name in names:
                yield EnvironmentSetting(variable.name, variable.value, variable.span)


def is_explained(document: Document, span: Span) -> bool:
    """Return whether a comment beside or right above says that the line is there for a reason ("do not remove",
    "workaround").

    A comment above several settings of NCCL, or of PyTorch's backends, is about them all.
    """
    return span.cell is None and reasons.is_explained(document, span, more=_ALONE, beside=_GROUPED)


def is_unset_below(document: Document, project: Project, module: ModuleIndex, setting: EnvironmentSetting) -> bool:
    """Return whether a module takes a variable away again further down, or gives it another value."""
    return is_taken_away(module, setting) or any(
        other.node is not None and other.span.line > setting.span.line and other.value not in (None, setting.value)
        for other in settings(document, project, frozenset({setting.name}))
    )


def is_taken_away(module: ModuleIndex, setting: EnvironmentSetting) -> bool:
    """``del os.environ[name]``, ``os.environ.pop(name)`` further down"""
    gone: list[ast.expr] = [target for part in module.syntax.of(ast.Delete) for target in part.targets]
    gone += module.calls_by_name.get("pop", ())
    forms = (f"environ[{setting.name!r}]", f"environ.pop({setting.name!r}")
    return any(entry.lineno > setting.span.line and any(form in ast.unparse(entry) for form in forms) for entry in gone)


def _in_python(module: ModuleIndex, project: Project, names: frozenset[str]) -> Iterator[EnvironmentSetting]:
    for target, value, _ in module.stores.get("environ", []):
        if isinstance(target, ast.Subscript) and value is not None:
            yield from _entry(module, project, names, target.slice, value, target)
    for method in ("setdefault", "putenv", "update"):
        for call in module.calls_by_name.get(method, []):
            if not project.fact(Resolver).call_names(module, call) & {f"os.environ.{method}", f"os.{method}"}:
                continue
            if method != "update" and len(call.args) == 2:
                yield from _entry(module, project, names, call.args[0], call.args[1], call)
            for given in call.args if method == "update" else []:
                if isinstance(given, ast.Dict):
                    for key, value in zip(given.keys, given.values, strict=True):
                        if key is not None:
                            yield from _entry(module, project, names, key, value, call)


def _entry(
    module: ModuleIndex, project: Project, names: frozenset[str], key: ast.expr, value: ast.expr, node: ast.expr
) -> Iterator[EnvironmentSetting]:
    known_key = project.fact(Constants).of(module, key)
    if not known_key.complete or len(known_key.values) != 1 or known_key.values[0].value not in names:
        return
    known = project.fact(Constants).of(module, value)
    # None, the default of an option that has to be given, cannot be put into the environment; `str(None)` can.
    told = known.complete and len(known.values) == 1 and (known.values[0].value is not None or _is_text(value))
    told = told and not _is_what_was(module, project, value, str(known_key.values[0].value))
    text = str(known.values[0].value) if told else None
    statement = module.syntax.parents.get(node)
    span = module.syntax.span(statement if isinstance(statement, ast.Assign | ast.Expr) else node)
    yield EnvironmentSetting(
        str(known_key.values[0].value), text, span, node, project.fact(Guards).is_conditional(module, node)
    )


def _is_what_was(module: ModuleIndex, project: Project, value: ast.expr, name: str) -> bool:
    """Return whether the value is what the variable was before: ``old`` of ``old = os.environ.get(name, "")``."""
    reads = (ref.node for ref in project.fact(Resolver).points_to(module, value))
    return any(
        isinstance(read, ast.Call)
        and dotted(read.func).removeprefix("os.") in ("environ.get", "getenv", "environ.pop")
        and bool(read.args)
        and isinstance(read.args[0], ast.Constant)
        and read.args[0].value == name
        for read in reads
    )


def _is_text(value: ast.expr) -> bool:
    """``str(args.gpus)``, ``f"{args.gpus}"``"""
    return isinstance(value, ast.Call | ast.JoinedStr | ast.BinOp)


def _in_shell(script: Script, names: frozenset[str]) -> Iterator[EnvironmentSetting]:
    prefixes = [assignment for command in script.walk() for assignment in command.assignments]
    for assignment in dict.fromkeys([*script.assignments, *prefixes]):
        if assignment.name in names and (assignment.exported or assignment.prefix or assignment.value is not None):
            value = script.expand(assignment.value) if assignment.value is not None else None
            blocks = any(block.kind in ("if", "case", "and", "or", "while") for block in assignment.blocks)
            yield EnvironmentSetting(assignment.name, value, assignment.span, None, blocks)
    for command in script.walk():
        if command.name not in _DECLARATIONS:  # their words are assignments already
            yield from _env_words(command, names)


def _env_words(command: Command, names: frozenset[str]) -> Iterator[EnvironmentSetting]:
    """``env NAME=value cmd``, ``docker run -e NAME=value``, ``srun --export=ALL,NAME=value``, ``mpirun -x
    NAME=value``."""
    for word in command.argv:
        text = word.value
        if text is None or "=" not in text:
            continue
        for part in text.removeprefix("--export=").removeprefix("--env=").removeprefix("-e").split(","):
            name, equals, value = part.partition("=")
            if equals and name in names:
                yield EnvironmentSetting(name, value, word.span, None, command.conditional)
