"""Methods of classes of which no object is made, as each call of the class raises an error."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.failing_results import lacks_options
from gpulint.semantic.overridden_methods import makes_nothing, subclasses_of
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project


def cannot_be_made(subject: Subject) -> bool:
    """Return whether a place is in a method of a class whose constructor, in each call, reads an option that the
    program does not have."""
    module, node = subject.module, subject.node
    if module is None or node is None or subject.is_notebook:
        return False
    method = module.function(node)
    owner = module.class_of(method) if method is not None else None
    if owner is None or not isinstance(method, FUNCTIONS) or method.decorator_list or method.name == "__init__":
        return False
    return _cannot_be_made(subject.project, module, owner)


@query
def _cannot_be_made(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> bool:
    word = word_of(owner.name)
    if owner.decorator_list or owner.keywords or subclasses_of(project, owner) != () or project.is_in_other_files(word):
        return False
    users = {module, *map(project.module_at, project.word_index.mentioning(word))}
    if any(user is None or _holds_it(user, owner.name) for user in users):
        return False
    calls = [(user, call) for user in users if user is not None for call in _calls(user, owner.name)]
    return bool(calls) and all(call is not None and lacks_options(project, user, call) for user, call in calls)


def _holds_it(module: ModuleIndex, name: str) -> bool:
    """Return whether a module has the name as a text or as an attribute, or imports it under another one."""
    return (
        name in module.strings
        or module.aliases.get(name, {name}) != {name}
        or any(part.attr == name for part in module.syntax.of(ast.Attribute))
    )


def _calls(module: ModuleIndex, name: str) -> list[ast.Call | None]:
    """The calls of a class, and None for each use that may be another way to make an object."""
    found: list[ast.Call | None] = []
    for use in module.uses.get(name, ()):
        match module.syntax.parents.get(use):
            case ast.Call(func=func) as call if func is use:
                found.append(call)
            case _:
                found += [] if makes_nothing(module, use) else [None]
    return found
