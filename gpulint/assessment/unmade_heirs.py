"""Methods that no class has which is made: the classes that configurations name replace them all."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.chosen_names import is_named_as_text, is_named_in_json, registered_names, table_key
from gpulint.query import query
from gpulint.semantic.overridden_methods import makes_nothing, subclasses_of
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_Class = tuple[ModuleIndex, ast.ClassDef]


def is_replaced(subject: Subject) -> bool:
    """Return whether a place is in a method that only classes inherit which nothing makes, while configurations or
    texts name others that replace it."""
    module, node = subject.module, subject.node
    if module is None or node is None or subject.is_notebook:
        return False
    method = module.function(node)
    owner = module.class_of(method) if method is not None else None
    if owner is None or not isinstance(method, FUNCTIONS) or method.name.startswith("__"):
        return False
    return _is_replaced(subject.project, module, owner, method.name)


@query
def _is_replaced(project: Project, module: ModuleIndex, owner: ast.ClassDef, name: str) -> bool:
    below = subclasses_of(project, owner)
    if not below:
        return False
    heirs, others = _heirs(module, owner, below, name)
    chosen = any(_is_chosen(project, other.name, other) for _, other in others)
    if not chosen or any(_may_be_made(project, where, heir) for where, heir in heirs):
        return False
    return not _is_called_above(project, name, {heir.name for _, heir in heirs})


def _heirs(
    module: ModuleIndex, owner: ast.ClassDef, below: tuple[_Class, ...], name: str
) -> tuple[list[_Class], list[_Class]]:
    """The class and those below it that inherit its method, and those that have one of their own or of another class
    below it."""
    family = {one.name for _, one in below}
    replaced = {one.name for _, one in below if name in _methods(one)}
    todo = True
    while todo:
        more = {
            one.name for _, one in below if any(last_name(base) in replaced & family for base in one.bases)
        } - replaced
        replaced |= more
        todo = bool(more)
    heirs = [(module, owner), *(one for one in below if one[1].name not in replaced)]
    return heirs, [one for one in below if one[1].name in replaced]


def _methods(owner: ast.ClassDef) -> set[str]:
    return {part.name for part in owner.body if isinstance(part, FUNCTIONS)}


def _may_be_made(project: Project, module: ModuleIndex, heir: ast.ClassDef) -> bool:
    """Return whether anything makes or names a class, other than to derive from it, to import it or to list it among
    what may be chosen."""
    names = registered_names(heir)
    if heir.decorator_list and not names:
        return True
    word = word_of(heir.name)
    for name in {heir.name, *names}:
        if _is_chosen(project, name, heir) or _is_in_documents(project, name):
            return True
    users = {module, *map(project.module_at, project.word_index.mentioning(word))}
    return any(user is None or _makes(project, user, heir) for user in users)


def _is_chosen(project: Project, name: str, owner: ast.ClassDef) -> bool:
    return is_named_as_text(project, name, owner) or is_named_in_json(project, name)


def _is_in_documents(project: Project, name: str) -> bool:
    whole = regex.compile(rb"(?<!\w)%b(?!\w)" % name.encode())
    notes = [project.root / entry for entry in sorted(project.entries(project.root))]
    documents = [path for path in (*notes, *project.files) if path.suffix in (".md", ".rst", ".ipynb")]
    return any(project.finds(path, whole) for path in documents)


def _makes(project: Project, module: ModuleIndex, heir: ast.ClassDef) -> bool:
    name = heir.name
    if module.aliases.get(name, {name}) != {name} or any(text.endswith(f".{name}") for text in module.strings):
        return True
    uses = [use for use in module.uses.get(name, ()) if isinstance(use.ctx, ast.Load)]
    named = [part for part in module.syntax.of(ast.Attribute) if part.attr == name]
    for use in (*uses, *named):
        key = table_key(module, use)
        if not makes_nothing(module, use) and (key is None or _is_chosen(project, key, heir)):
            return True
    return False


def _is_called_above(project: Project, name: str, heirs: set[str]) -> bool:
    """Return whether a method calls the one of its base (``super().name()``, ``Base.name(self)``)."""
    for path in project.word_index.mentioning(word_of(name)):
        module = project.module_at(path)
        if module is None:
            return True
        for part in module.syntax.of(ast.Attribute):
            if part.attr != name:
                continue
            above = last_name(part.value.func) if isinstance(part.value, ast.Call) else last_name(part.value)
            if above == "super" or above in heirs:
                return True
    return False
