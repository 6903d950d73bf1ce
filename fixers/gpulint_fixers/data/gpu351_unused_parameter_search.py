"""Switch the search for unused parameters off."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from gpulint_rules.data.gpu351_unused_parameter_search import UnusedSearch

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.libraries.names import matches
from gpulint.libraries.operations import AuxiliaryHeads
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name
from gpulint_fixers.data.searched_models import (
    also_searched,
    default_of_search,
    is_chosen_at_run_time,
    is_only_one_searched,
    unreadable,
)
from gpulint_fixers.data.unread_layers import unread_layer
from gpulint_fixers.edits.calls import set_keyword

_RISK = "DDP raises an error in the second step if a parameter is unused"


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found, document = finding.payload, project.document(finding.path)
    if not isinstance(found, UnusedSearch) or document is None or document.python is None:
        return Declined("the finding does not say which call it is")
    assert found.keyword.arg is not None
    text, end = document.python.source.text, document.python.offsets(found.keyword)[1]
    if text[end : text.find("\n", end) + 1 or None].lstrip(", \t").startswith("#"):
        return Declined("the comment behind it may explain why it is enabled")
    source, start = document.python.source, document.python.offsets(found.keyword)[0]
    above = source.line(source.position(start)[0] - 1)
    if above.lstrip().startswith("#"):
        return Declined("the comment above it may explain why it is enabled")
    module = project.module(document)
    if module is not None and is_chosen_at_run_time(project, module, found.call):
        return Declined("which model is trained is decided at run time; all that it may be need a gradient everywhere")
    if module is not None and (name := unreadable(project, module, found.call)):
        return Declined(f"the class of `{name}` is not in the tree, so that it may have parameters without use")
    if _has_auxiliary_heads(project, document.path):
        return Declined("the model has auxiliary heads, which get no gradient if the loss leaves their outputs out")
    if name := unread_layer(project, document.path, found.call.args[0] if found.call.args else None):
        return Declined(f"`forward` never reads `{name}`, which gets no gradient: remove it first")
    if module is not None and is_only_one_searched(module, found.call):
        return Declined("another model is wrapped there without a search: this one may have parameters without use")
    default = default_of_search(project, module, found.keyword.value) if module is not None else None
    if isinstance(default, str):
        return Declined(default)
    if default is not None:
        changed = Edit(document.path, document.python.span(default), found.off)
        return Fix(f"change the default of `{ast.unparse(found.keyword.value)}`; {_RISK}", Safety.UNSAFE, (changed,))
    others = also_searched(document, module, found.call) if module is not None else []
    edits = [set_keyword(document.python, call, found.keyword.arg, found.off) for call in (found.call, *others)]
    return Fix(
        f"disable the search; {_RISK}",
        Safety.UNSAFE,
        tuple(edits),
    )


@query
def _has_auxiliary_heads(project: Project, path: Path) -> bool:
    """Return whether the program builds a model with heads beside the main one, of a library or by its own class."""
    rows: tuple[AuxiliaryHeads, ...] = project.models.rows("auxiliary-heads")
    modules = project.fact(MultiGpuUse).of(path).modules
    named = _reached(path, modules)
    for module in modules:
        owners = [owner for owner in module.classes if owner.name in named]
        if any(map(_may_skip, owners)):
            return True
        for call in module.calls:
            outer = [up for up in module.syntax.ancestors(call) if isinstance(up, (*FUNCTIONS, ast.ClassDef))]
            used = not outer or module.path == path or getattr(outer[-1], "name", "") in named
            if used and any(_builds(project, module, call, row) for row in rows):
                return True
    return False


def _reached(path: Path, modules: Iterable[ModuleIndex]) -> set[str]:
    """The names that a program mentions, and those in the functions and classes of the tree with such names."""
    homes, found, todo = dict[str, list[ast.AST]](), set[str](), list[ast.AST]()
    for module in modules:
        if module.path == path:
            todo.append(module.syntax.tree)
        for node in module.syntax.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                homes.setdefault(node.name, []).append(node)
    while todo:
        named = {last_name(part) for part in walk(todo.pop()) if isinstance(part, ast.Name | ast.Attribute)}
        todo += [home for name in named - found for home in homes.get(name, [])]
        found |= named
    return found


def _builds(project: Project, module: ModuleIndex, call: ast.Call, row: AuxiliaryHeads) -> bool:
    last = last_name(call.func)
    if not matches(tuple(pattern.rpartition(".")[2] for pattern in row.calls), (last,)):
        return False
    if not matches(row.calls, project.fact(Resolver).call_names(module, call)):
        return False
    given = keyword_value(call, row.switch)
    if given is None:
        return row.by_default
    return not project.fact(Constants).of(module, given).every(lambda value: not value)


def _may_skip(owner: ast.ClassDef) -> bool:
    """Return whether ``forward`` runs parts of a model only if a setting of it says so (``if self.training and
    self.deep_supervision: self.aux(x)``), and the model has the parts in any case."""
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    forward, init = methods.get("forward"), methods.get("__init__")
    if forward is None or init is None:
        return False
    always = {ast.unparse(target) for node in init.body if isinstance(node, ast.Assign) for target in node.targets}
    return any(
        isinstance(part, ast.Call) and ast.unparse(part.func) in always
        for branch in walk(forward)
        if isinstance(branch, ast.If) and "self." in ast.unparse(branch.test)
        for statement in (*branch.body, *branch.orelse)
        for part in walk(statement)
    )


FIXER = Fixer("GPU351", fix)
