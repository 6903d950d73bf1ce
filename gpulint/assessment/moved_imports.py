"""Programs that cannot start: they import a module under a path that it no longer has, one of another tree, or what a
module no longer defines."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.module_files import always_imported, by_stem
from gpulint.libraries.gpu_libraries import Libraries
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import cyclic, query
from gpulint.semantic.failing_names import lacks, module_named
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, source_text
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_CLASS = regex.compile(r"[A-Z][a-z]+\w*[A-Z]\w*$")
"""Names of classes, of more than one word."""

_OWN = frozenset(
    "architectures common config configs core data data_loader data_loaders data_loading data_utils dataloader "
    "dataloaders dataloading datamodule datamodules dataset dataset_utils engine engines helper helpers layer "
    "layers lib libs loader loaders loss losses metric metrics misc model model_utils models module modules net "
    "nets network networks opt option options src task tasks tool tools train_utils trainer trainers transform "
    "transforms util utils".split()
)
"""Packages with names that only programs give to their own."""
_ON_DISK_ONLY = frozenset({"config", "configs", "data", "opt", "option", "options"})
"""Those of them that often hold what is private, and is on the disks of the authors only."""
_PATHS = regex.compile(r"\bsys\.path\b|PYTHONPATH")
"""What adds folders from which modules are imported."""
_ADDS = regex.compile(r"^(?![ \t]*#).*\bsys\.path\b", re.MULTILINE)
_FOLDERS_ADDED = (b"PYTHONPATH", b"package_dir", b"site.addsitedir", b"pythonpath", b"py_modules")
_ROOTS = frozenset({"src", "lib", "source", "python", "code"})
"""Folders that programs are often started with as a root."""
_OTHER_FOLDERS = rb"PYTHONPATH(?!\}?(?:=[\"']?\$\{?PYTHONPATH|[=:][\"']?\.(?=[/:\s\"'])(?!/\.\.)))"
"""What adds folders of other trees, unlike ``PYTHONPATH=$PYTHONPATH:./src``."""
_FEW_USERS = 4
"""A module that one of so many files imports is not what all need from elsewhere."""
_LEAST = 4
"""Letters of names that say enough to be looked for in all files."""


def cannot_start(subject: Subject) -> bool:
    """Return whether the module of a place, or each that calls the function around it, imports a module of the tree by
    an old name, or from where it was once (``from model.unet import UNet``, which is in ``src/model/seg/unet.py`` by
    now)."""
    return holds_for_programs(subject, _is_broken)


def imports_what_is_gone(subject: Subject) -> bool:
    """Return whether the module of a place, or each that calls the function around it, imports a name from a module of
    the tree that does not have it (``from flow_model import ConditionalFlow``, where only a ``GlowModel`` is left)."""
    return holds_for_programs(subject, _lacks_name)


def holds_for_programs(subject: Subject, test: Callable[[Project, ModuleIndex], bool]) -> bool:
    """Return whether something is so of the module of a place, or of each that calls the function around it."""
    module, node = subject.module, subject.node
    if module is None or node is None or subject.is_notebook:
        return False
    if test(subject.project, module):
        return True
    function = module.function(node)
    if function is None:
        return False
    own = module.calls_by_name.get(function.name, ())
    if not all(_is_of_self_test(module, call) for call in own):
        return False
    sites = subject.project.fact(Resolver).call_sites(module, function)
    callers = {site.module for site in sites if site.node not in own}
    return bool(callers) and all(test(subject.project, caller) for caller in callers)


def _is_of_self_test(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call only runs when a module is started that takes no gradients, to try what it defines."""
    return "backward" not in module.calls_by_name and any(
        isinstance(up, ast.If) and up in module.syntax.tree.body and "__main__" in source_text(module, up.test)
        for up in module.syntax.ancestors(call)
    )


@cyclic(False)
def _lacks_name(project: Project, module: ModuleIndex) -> bool:
    return _lacks_own(project, module) or any(
        other is not None and _lacks_name(project, other) for other in _imported_first(project, module)
    )


def _imported_first(project: Project, module: ModuleIndex) -> Iterator[ModuleIndex | None]:
    """Yield the modules that a module imports in any case, of which no other file has the name, or that are beside it
    in a folder of programs. A package that cannot be imported stops all programs, so that somebody is about to repair
    it."""
    for _, path in always_imported(project, module):
        is_beside = path.parent == module.path.parent and not project.exists(path.parent / "__init__.py")
        if path.name != "__init__.py" and (is_beside or len(by_stem(project).get(path.stem, ())) == 1):
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
    return are_broken(project, module, module.syntax.tree.body)


def are_broken(project: Project, module: ModuleIndex, statements: list[ast.stmt]) -> bool:
    """Return whether one of some statements of a module imports what is not there."""
    imports = [*_imports(statements)]
    return (
        any(_is_moved(project, module, *one) for one in imports if "." in one[0])
        or any(_is_renamed(project, module, *one) for one in imports if "." not in one[0])
        or any(_is_out_of_reach(project, module, *one) for one in imports if "." not in one[0])
        or any(_is_missing(project, module, name) for name, _ in imports if "." in name)
        or any(_is_of_another_tree(project, module, name.partition(".")[0]) for name, _ in imports if "." in name)
        or any(_is_left_out(project, module, name) for name, _ in imports if "." not in name)
    )


def _is_left_out(project: Project, module: ModuleIndex, name: str) -> bool:
    """Return whether a single module with such a name is not there, beside others of the tree that the same program
    imports, and hardly another program needs it."""
    if name not in _OWN or name in _ON_DISK_ONLY or project.contains(project.root / ".gitignore", name.encode()):
        return False
    users = project.word_index.importing(frozenset({word_of(name)}))
    if _FEW_USERS * len(users) > sum(path.suffix == ".py" for path in project.files):
        return False
    return _is_of_another_tree(project, module, name) and bool(project.imported(module.path))


def _is_of_another_tree(project: Project, module: ModuleIndex, package: str) -> bool:
    """Return whether a package with a name for the program's own is not there, and most of the tree does without it."""
    if not _is_own_name(package) or package in _folder_names(project) or package in _stems(project):
        return False
    if _adds_folders(project, module):
        return False
    if project.exists(project.root / ".gitmodules"):
        return False
    above = (up for up in module.path.parents if up == project.root or project.root in up.parents)
    if any(_is_on_disk(project, up, package) for up in above):
        return False
    users = project.word_index.importing(frozenset({word_of(package)}))
    return 2 * len(users) <= sum(path.suffix == ".py" for path in project.files)


def _is_own_name(package: str) -> bool:
    """Return whether only programs give their own packages such a name (``models``, ``Comparative_models``)."""
    return package in _OWN or (package[:1].isupper() and "_" in package and package.rpartition("_")[2] in _OWN)


def _adds_folders(project: Project, module: ModuleIndex) -> bool:
    """Return whether modules may be imported from folders that are not in the tree, as a program or a file of the tree
    adds some: those above its own (``os.path.dirname(__file__)``), up to the root, are in it."""
    if project.is_like_in_other_files(_OTHER_FOLDERS):
        return True
    depth = len(Path(project.place(module.path)).parts) - 1
    return any(_PATHS.search(line) and not _is_in_tree(line, depth) for line in module.syntax.source.text.splitlines())


def _is_in_tree(line: str, depth: int) -> bool:
    """Return whether a line adds a folder that is at most so many above that of its file."""
    if line.lstrip().startswith("#"):
        return True
    if "__file__" not in line or "PYTHONPATH" in line:
        return False
    return line.count("..") + max(line.count("dirname") - 1, 0) + max(line.count(".parent") - 1, 0) <= depth


def _is_missing(project: Project, module: ModuleIndex, name: str) -> bool:
    """Return whether nothing in the tree is called like a module of one of its packages, from which other modules
    import what is there: what is left of another project (``from lib.res2net import Network``)."""
    package, stem = name.partition(".")[0], name.rpartition(".")[2]
    if package in sys.stdlib_module_names | project.models.derived(Libraries).gpu or len(stem) < _LEAST:
        return False
    if package not in _folder_names(project):
        return False
    if project.module_path(name, module.path) is not None or stem in _stems(project):
        return False
    homes = {path.parent for path in _modules_of(project, package)}
    if (
        not homes
        or any(_is_on_disk(project, home, name.partition(".")[2]) for home in homes)
        or project.is_in_other_files(word_of(stem))
    ):
        return False
    users = [project.module_at(path) for path in project.word_index.mentioning(word_of(stem))]
    if any(user is None or any(stem in text for text in user.strings) for user in users):
        return False
    return any(
        _uses_package(project, path, tuple(name.split(".")[:-1]))
        for path in project.word_index.importing(frozenset({word_of(package)}))
    )


def _modules_of(project: Project, package: str) -> Iterator[Path]:
    """Yield the modules in folders of a name."""
    return (path for path in project.files if path.suffix == ".py" and path.parent.name == package)


def _is_on_disk(project: Project, folder: Path, name: str) -> bool:
    """Return whether a folder has a module of a dotted name that Git ignores, as a file or as a package."""
    place = folder.joinpath(*name.split("."))
    return any(project.exists(place.with_name(place.name + suffix)) for suffix in ("", ".py", ".pyx", ".so"))


def _uses_package(project: Project, path: Path, packages: tuple[str, ...]) -> bool:
    """Return whether a module imports something that is there of a package, or of the package in it that is named."""
    package = packages[0]
    return path.parent.name != package and any(
        package in (found.parent.name, found.stem if found.name != "__init__.py" else found.parent.name)
        or Path(project.place(found)).parts[-len(packages) - 1 : -1] == packages
        for found in project.imported(path)
    )


def _is_renamed(project: Project, module: ModuleIndex, name: str, wanted: tuple[str, ...]) -> bool:
    """Return whether nothing in the tree is called like a module, and other modules have all classes that are imported
    from it (``from online_pair import PairDataset``, which is in ``pairs.py`` by now)."""
    libraries = project.models.derived(Libraries)
    if name in sys.stdlib_module_names | libraries.gpu | libraries.no_gpu or not all(map(_CLASS.match, wanted)):
        return False
    if project.module_path(name, module.path) is not None or name in _stems(project):
        return False
    word = word_of(name)
    if not wanted or name in _folder_names(project) or project.is_in_other_files(word):
        return False
    users = map(project.module_at, project.word_index.mentioning(word))
    return all(
        user is not None
        and {name} == {one for one, _ in _imports(user.syntax.tree.body)} & {name}
        and not any(name in text for text in user.strings)
        for user in users
    ) and all(_is_defined(project, one) for one in wanted)


def _is_out_of_reach(project: Project, module: ModuleIndex, name: str, wanted: tuple[str, ...]) -> bool:
    """Return whether the only file of a name has what is imported from it, in a folder that no program which imports
    the module is in, and others import it by way of this folder (``from tools.ema import EMA`` beside ``from ema import
    EMA``)."""
    found = by_stem(project).get(name, ())
    if len(found) != 1 or name in _folder_names(project) or "*" in wanted:
        return False
    libraries = project.models.derived(Libraries)
    if name in sys.stdlib_module_names or name in libraries.gpu or name in libraries.no_gpu:
        return False
    ((path, place),) = found
    if len(place) < 2 or place[-2] in _ROOTS or not all(project.contains(path, one.encode()) for one in wanted):
        return False
    programs = [module.path, *project.fact(GpuPrograms).users(module.path)]
    reached = {folder for one in programs for folder in one.parents}
    if path.parent in reached or _adds_paths(project) or project.exists(project.root / ".gitmodules"):
        return False
    inside = [folder for folder in reached if folder == project.root or project.root in folder.parents]
    if any(_is_on_disk(project, folder, name) for folder in inside):
        return False
    users = project.word_index.importing(frozenset({word_of(place[-2])}))
    return any(path in project.imported(user) and user.parent != path.parent for user in users)


@query
def _adds_paths(project: Project) -> bool:
    """Return whether anything of the tree adds folders from which modules are imported."""
    paths = project.python_files_with(b"sys.path")
    return any(project.matches(path, _ADDS) for path in paths) or any(map(project.files_with, _FOLDERS_ADDED))


def _is_defined(project: Project, name: str) -> bool:
    modules = map(project.module_at, project.word_index.mentioning(word_of(name)))
    return any(module is not None and name in module.classes_by_name for module in modules)


def _imports(statements: list[ast.stmt]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the modules that statements import in any case, with what they take from them."""
    for statement in statements:
        match statement:
            case ast.ImportFrom(module=str(name), level=0, names=names):
                yield name, tuple(alias.name for alias in names)
            case ast.Import(names=names):
                yield from ((alias.name, ()) for alias in names if "." in alias.name)


def _is_moved(project: Project, module: ModuleIndex, name: str, wanted: tuple[str, ...]) -> bool:
    """Return whether no folder of the tree has a module, though one has the name of its package, and the file of that
    name with what is wanted is elsewhere."""
    parts = tuple(name.split("."))
    if parts[0] in sys.stdlib_module_names | project.models.derived(Libraries).gpu:
        return False
    if project.module_path(name, module.path) is not None or parts[0] not in _folder_names(project):
        return False
    found = by_stem(project).get(parts[-1], ())
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
def _stems(project: Project) -> frozenset[str]:
    """Names of files of any kind, without their suffixes."""
    return frozenset(path.stem for path in project.files)


@query
def _folder_names(project: Project) -> frozenset[str]:
    return frozenset(name for place in _folders(project) for name in place)
