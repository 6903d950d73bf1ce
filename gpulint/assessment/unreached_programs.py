"""Programs of jobs that import the file of a finding, but not for the function or class that it is in."""

from __future__ import annotations

import ast
from collections.abc import Container
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.query import query
from gpulint.rule import Kind
from gpulint.workspace.module_index import FUNCTIONS, dotted
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.finding import Finding
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
_BY_NAME = ("getattr", "import_module", "__dict__", "globals", "locals", "instantiate", "eval", "exec")
"""What may look functions and classes up by names that no code holds."""
_METHODS = ("import_module", "instantiate")
"""Those that are functions of modules as well."""
MAX_PROGRAMS = 50
"""Most programs of which it is asked."""


def unreached_programs(project: Project, finding: Finding) -> tuple[Path, ...]:
    """Return the programs of jobs that import the file of a finding, where nothing that they run mentions the function
    or class around it."""
    if project.kind(finding.path) is not Kind.PYTHON or not project.fact(JobIndex).jobs():
        return ()
    module = project.module_at(finding.path)
    if module is None:
        return ()
    name = _definition_at(module, finding.span.line)
    return _unreached(project, module, name) if name else ()


def is_for_own_program(project: Project, module: ModuleIndex, line: int) -> bool:
    """Return whether modules import that of a place, but mention nothing that leads to the function or class around it:
    only the main part of its module may."""
    name = _definition_at(module, line)
    names = _mentioning(project, module, name) if name else None
    users = [*islice(project.fact(GpuPrograms).users(module.path), MAX_PROGRAMS)]
    return (
        bool(names and users)
        and any(map(_is_main, module.syntax.tree.body))
        and not any(_uses(project, user, names or frozenset()) for user in users)
        and not _looks_up(project, frozenset(users))
    )


def _definition_at(module: ModuleIndex, line: int) -> str:
    """Return the name of the function or class of a module's top level around a line; empty if there is none."""
    around = [one for one in module.syntax.tree.body if one.lineno <= line <= (one.end_lineno or one.lineno)]
    named = [one for one in around if isinstance(one, _DEFINITIONS)]
    if not named or any(one.decorator_list or one.name.startswith("_") for one in named):
        return ""  # what decorates it may register it
    return named[0].name


@query
def _unreached(project: Project, module: ModuleIndex, name: str) -> tuple[Path, ...]:
    names = _mentioning(project, module, name)
    if names is None or any(not one.isascii() for one in names):
        return ()
    programs = dict.fromkeys(program for job in project.fact(JobIndex).jobs() for program in job.programs)
    users = {path for one in names for path in project.word_index.mentioning(word_of(one))} - {module.path}
    found = list[Path]()
    for program in [*programs][:MAX_PROGRAMS]:
        run = frozenset(project.fact(MultiGpuUse).of(program).paths) | {program}
        if program == module.path or module.path not in run:
            continue
        if not any(_uses(project, path, names) for path in sorted(users & run)) and not _looks_up(project, run):
            found.append(program)
    return tuple(found)


def _mentioning(project: Project, module: ModuleIndex, name: str) -> frozenset[str] | None:
    """Return a definition's name and those of the definitions of its module that lead to it; None if the module itself
    does, whoever imports it."""
    using, names, left = _using(project, module), {name}, [name]
    while left:
        for one in using.get(left.pop(), ()):
            if not isinstance(one, _DEFINITIONS) or one.decorator_list:
                return None
            if one.name not in names:
                names.add(one.name)
                left.append(one.name)
    return frozenset(names)


@query
def _using(_: Project, module: ModuleIndex) -> dict[str, list[ast.stmt]]:
    """Return the statements of a module that use each name, other than a definition its own."""
    using = dict[str, list[ast.stmt]]()
    for one in module.syntax.tree.body:
        if _is_main(one):
            continue
        own = one.name if isinstance(one, _DEFINITIONS) else ""
        for name in dict.fromkeys(map(_name, walk(one))):
            if name != own:
                using.setdefault(name, []).append(one)
    return using


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


def _name(part: ast.AST) -> str:
    """Return the name that a node uses; also a text, by which it may be looked up."""
    match part:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return name
    return ""


@query
def _uses(project: Project, path: Path, names: frozenset[str]) -> bool:
    """Return whether a module uses one of some names, other than to import it."""
    module = project.module_at(path)
    if module is None:
        return True
    if any(binding.target.endswith(".*") for binding in module.imports):
        return True
    renamed = {
        alias.asname
        for node in module.syntax.of(ast.ImportFrom)
        for alias in node.names
        if alias.name in names and alias.asname
    }
    own, known = names & _own_names(module), _imported_names(module)
    for part in walk(module.syntax.tree):
        name = _name(part)
        if name in renamed or (name in names and (name not in own or _is_of_import(part, known))):
            return True
    return False


def _own_names(module: ModuleIndex) -> frozenset[str]:
    """Return the names of a module's own functions, methods and classes that it does not import as well."""
    imported = {alias.name for node in module.syntax.of(ast.ImportFrom) for alias in node.names}
    own = {one.name for one in module.syntax.of(ast.FunctionDef)}
    own |= {one.name for one in module.syntax.of(ast.AsyncFunctionDef)}
    own |= {one.name for one in module.syntax.of(ast.ClassDef)}
    return frozenset(own - imported)


def _imported_names(module: ModuleIndex) -> frozenset[str]:
    """Return the names under which a module knows what it imports."""
    aliases = [alias for node in module.syntax.of(ast.Import) for alias in node.names]
    aliases += (alias for node in module.syntax.of(ast.ImportFrom) for alias in node.names)
    return frozenset((alias.asname or alias.name).split(".")[0] for alias in aliases)


def _is_of_import(part: ast.AST, known: Container[str]) -> bool:
    """``train.main``, where ``main`` is one of the module's own functions or methods, and ``train`` is imported; also a
    text."""
    return isinstance(part, ast.Constant) or (isinstance(part, ast.Attribute) and dotted(part).split(".")[0] in known)


def _looks_up(project: Project, run: frozenset[Path]) -> bool:
    """Return whether something that a program runs takes functions or classes by names."""
    return any(
        path in run and ((module := project.module_at(path)) is None or _takes_by_name(module, word))
        for word in _BY_NAME
        for path in project.word_index.mentioning(word_of(word))
    )


def _takes_by_name(module: ModuleIndex, word: str) -> bool:
    """Return whether a module calls such a function, with a name that is not written there."""
    for call in module.calls_by_name.get(word, ()):
        if word in _METHODS or (isinstance(call.func, ast.Name) and not _is_written(call)):
            return True
    return word == "__dict__" and any(part.attr == word for part in module.syntax.of(ast.Attribute))


def _is_written(call: ast.Call) -> bool:
    """``getattr(args, "size", 8)``"""
    return len(call.args) > 1 and isinstance(call.args[1], ast.Constant)
