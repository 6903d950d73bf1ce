"""Programs that cannot start: they import a module under a path that it no longer has, or what it no longer defines."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.libraries.gpu_libraries import Libraries
from gpulint.query import cyclic, query
from gpulint.semantic.failing_names import lacks, module_named
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_CLASS = regex.compile(r"[A-Z][a-z]+\w*[A-Z]\w*$")
"""Names of classes, of more than one word."""


def cannot_start(subject: Subject) -> bool:
    """Return whether the module of a place, or each that calls the function around it, imports a module of the tree by
    an old name, or from where it was once (``from model.unet import UNet``, which is in ``src/model/seg/unet.py`` by
    now)."""
    return _holds_for_programs(subject, _is_broken)


def imports_what_is_gone(subject: Subject) -> bool:
    """Return whether the module of a place, or each that calls the function around it, imports a name from a module of
    the tree that does not have it (``from flow_model import ConditionalFlow``, where only a ``GlowModel`` is left)."""
    return _holds_for_programs(subject, _lacks_name)


def _holds_for_programs(subject: Subject, test: Callable[[Project, ModuleIndex], bool]) -> bool:
    module, node = subject.module, subject.node
    if module is None or node is None or subject.is_notebook:
        return False
    if test(subject.project, module):
        return True
    function = module.function(node)
    if function is None or function.name in module.calls_by_name:
        return False
    callers = {site.module for site in subject.project.fact(Resolver).call_sites(module, function)}
    return bool(callers) and all(test(subject.project, caller) for caller in callers)


@cyclic(False)
def _lacks_name(project: Project, module: ModuleIndex) -> bool:
    return _lacks_own(project, module) or any(
        other is not None and _lacks_name(project, other) for other in _imported_first(project, module)
    )


def _imported_first(project: Project, module: ModuleIndex) -> Iterator[ModuleIndex | None]:
    """Yield the modules of the tree that a module imports in any case, of which no other file has the name. A package
    that cannot be imported stops all programs, so that somebody is about to repair it."""
    for statement in module.syntax.tree.body:
        match statement:
            case ast.ImportFrom(module=str(name), level=level):
                names = ["." * level + name]
            case ast.Import(names=aliases):
                names = [alias.name for alias in aliases]
            case _:
                continue
        for name in names:
            path = project.module_path(project.absolute(name, module.path), module.path)
            if path is None or path.name == "__init__.py" or path == module.path:
                continue
            if len(_by_stem(project).get(path.stem, ())) == 1:
                yield project.module_at(path)


@query
def _lacks_own(project: Project, module: ModuleIndex) -> bool:
    for statement in module.syntax.tree.body:
        if not isinstance(statement, ast.ImportFrom) or statement.module is None:
            continue
        name = project.absolute("." * statement.level + statement.module, module.path)
        path = module_named(project, module, name)
        names = [alias.name for alias in statement.names if alias.name != "*"]
        if path is not None and any(lacks(project, path, one) for one in names):
            return True
    return False


@query
def _is_broken(project: Project, module: ModuleIndex) -> bool:
    imports = [*_imports(module)]
    return any(_is_moved(project, module, *one) for one in imports if "." in one[0]) or any(
        _is_renamed(project, module, *one) for one in imports if "." not in one[0]
    )


def _is_renamed(project: Project, module: ModuleIndex, name: str, wanted: tuple[str, ...]) -> bool:
    """Return whether nothing in the tree is called like a module, and other modules have all classes that are imported
    from it (``from online_pair import PairDataset``, which is in ``pairs.py`` by now)."""
    libraries = project.models.derived(Libraries)
    if name in sys.stdlib_module_names | libraries.gpu | libraries.no_gpu or not all(map(_CLASS.match, wanted)):
        return False
    if project.module_path(name, module.path) is not None or any(path.stem == name for path in project.files):
        return False
    word = word_of(name)
    if not wanted or name in _folder_names(project) or project.is_in_other_files(word):
        return False
    users = map(project.module_at, project.word_index.mentioning(word))
    return all(
        user is not None
        and {name} == {one for one, _ in _imports(user)} & {name}
        and not any(name in text for text in user.strings)
        for user in users
    ) and all(_is_defined(project, one) for one in wanted)


def _is_defined(project: Project, name: str) -> bool:
    modules = map(project.module_at, project.word_index.mentioning(word_of(name)))
    return any(module is not None and name in module.classes_by_name for module in modules)


def _imports(module: ModuleIndex) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the dotted modules that a module imports in any case, with what it takes from them."""
    for statement in module.syntax.tree.body:
        match statement:
            case ast.ImportFrom(module=str(name), level=0, names=names):
                yield name, tuple(alias.name for alias in names)


def _is_moved(project: Project, module: ModuleIndex, name: str, wanted: tuple[str, ...]) -> bool:
    """Return whether no folder of the tree has a module, though one has the name of its package, and the file of that
    name with what is wanted is elsewhere."""
    parts = tuple(name.split("."))
    if parts[0] in sys.stdlib_module_names | project.models.derived(Libraries).gpu:
        return False
    if project.module_path(name, module.path) is not None or parts[0] not in _folder_names(project):
        return False
    found = _by_stem(project).get(parts[-1], ())
    if any(_may_be(place, parts) for place in (*(place for _, place in found), *_folders(project))):
        return False
    words = [one.encode() for one in wanted if one != "*"]
    return any(words and all(project.contains(path, word) for word in words) for path, _ in found)


def _may_be(place: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Return whether a file may be a module: below some folder, or below the root, whatever that is called."""
    return place[-len(parts) :] == parts or any(place == parts[start:] for start in range(1, len(parts)))


@query
def _folders(project: Project) -> frozenset[tuple[str, ...]]:
    """Folders of Python files, which are packages with or without ``__init__.py``."""
    places = (Path(project.place(path)).parts[:-1] for path in project.files if path.suffix == ".py")
    return frozenset(place[:end] for place in places for end in range(1, len(place) + 1))


@query
def _folder_names(project: Project) -> frozenset[str]:
    return frozenset(name for place in _folders(project) for name in place)


@query
def _by_stem(project: Project) -> dict[str, tuple[tuple[Path, tuple[str, ...]], ...]]:
    """Python files, and their places without suffix, by name; packages by that of their folder."""
    found: dict[str, list[tuple[Path, tuple[str, ...]]]] = {}
    for path in project.files:
        if path.suffix == ".py":
            place = Path(project.place(path)).with_suffix("").parts
            place = place[:-1] if place[-1] == "__init__" else place
            if place:
                found.setdefault(place[-1], []).append((path, place))
    return {name: tuple(paths) for name, paths in found.items()}
