"""Fixes that a scan may offer: those whose text can be read again, and needs neither a newer library than the program
has nor a name that has no value yet."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.assessment.subject import node_at
from gpulint.edits import by_file
from gpulint.fix import Declined, Edit, Fix
from gpulint.layout import without_layout
from gpulint.programs.api_releases import unless_lacking
from gpulint.project import Project
from gpulint.protected_files import forbids_edits
from gpulint.rule import Kind
from gpulint.semantic.first_bindings import is_named_in, runs_before
from gpulint.texts import Refused, edited
from gpulint.workspace.module_index import ModuleIndex

_NO_CODE = regex.compile(r"\b[rbfuRBFU]{0,2}(?:\"[^\"\n]*\"|'[^'\n]*')|\"[^\"\n]*\"|'[^'\n]*'|#[^\n]*")
_NAME = regex.compile(r"(?<![\w.])[A-Za-z_]\w*(?!\w|[ \t]*=(?!=))")
"""A name that is no attribute, and neither a keyword of a call nor what a statement binds."""
_BOUND = regex.compile(
    r"(?:^|[;\n])[ \t]*(?P<set>[\w, \t*]{1,200}?)=(?!=)|\bfor[ \t]+(?P<each>[^:\n]{1,200}?)[ \t]in\b"
    r"|\b(?:import|as|def|class|lambda)[ \t]+(?P<named>[\w, \t]{1,200})|\b(?P<kept>\w{1,200})[ \t]*:="
)
"""What a piece of Python binds: ``first, rest =``, ``for key, (x, y) in``, ``import a, b``, ``with path as file``."""


def offered(project: Project, fix: Fix | Declined) -> Fix | Declined:
    """Return a fix, without edits of the layout alone, if it can be made in its program, else why not. The text is only
    written out where several blocks begin: that is where edits that are right one by one may not fit together."""
    fix = unless_lacking(project, fix)
    if isinstance(fix, Fix):
        fix = without_layout(project, fix)
    if isinstance(fix, Fix) and any(forbids_edits(project, path) for path in dict.fromkeys(e.path for e in fix.edits)):
        return Declined("the comment at the head of the file asks not to change it")
    if isinstance(fix, Fix) and (name := _early_name(project, fix)):
        return Declined(f"`{name}` has no value yet where it would be used: it is bound further down")
    if isinstance(fix, Declined) or sum(map(_begins_block, fix.edits)) < 2:
        return fix
    for path, by_cell in by_file([fix]).items():
        document = project.document(path)
        if document is None or document.kind is not Kind.PYTHON:
            continue
        try:
            edited(document, project.data(path), by_cell)
        except Refused:
            return Declined("the changes that it needs do not fit together")
    return fix


def _early_name(project: Project, fix: Fix) -> str:
    """Return a name that the new text reads before the module binds it; empty if there is none."""
    bound = (part for edit in fix.edits for match in _BOUND.finditer(edit.text) for part in match.groups() if part)
    own = {name for part in bound for name in _NAME.findall(part)}
    for edit in fix.edits:
        module = project.module_at(edit.path) if _NAME.search(edit.text) else None
        if module is None or _is_target(module, edit):
            continue
        for name in _names(edit.text):
            if name in own or name not in module.top.bindings:
                continue
            if runs_before(module, edit.span, name) and not is_named_in(module, edit.span, name):
                return name
    return ""


def _is_target(module: ModuleIndex, edit: Edit) -> bool:
    """Return whether the old text is a name that a statement binds."""
    node = node_at(module, edit.span)
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _names(text: str) -> dict[str, None]:
    """The names that a piece of Python reads, in order."""
    return dict.fromkeys(_NAME.findall(_NO_CODE.sub("''", text)))


def _begins_block(edit: Edit) -> bool:
    return edit.text.rstrip().endswith(":")
