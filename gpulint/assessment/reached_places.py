"""Whether what programs do by default leads to a place, as far as names tell: calls, instances, entries of tables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gpulint.assessment.choices import is_other_choice
from gpulint.assessment.chosen_names import Definition, is_named_as_text, registered_names, table_key
from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.semantic.importing_modules import files_with_missing_imports, importing_files
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef, last_name
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

MAX_STEPS = 12
"""How many uses of names lead from a program to a place."""
MAX_PLACES = 400
"""How many uses are looked at before a place counts as reached."""
MAX_USES = 40
"""How many uses of one name are looked at."""
_CALLED_BY_LIBRARIES = frozenset({"forward", "backward", "setup_context"})
_TESTS = frozenset({"isinstance", "issubclass", "hasattr", "type"})
_COMMANDS = frozenset({"Fire", "CLI", "auto_cli"})
"""Makers of commands of which somebody chooses one."""
_PLAIN_BASES = frozenset({"object", "ABC", "Generic"})
"""Bases that call no method of a class."""


def is_unreached(subject: Subject) -> bool:
    """Return whether nothing that programs do by default is seen to lead to the place; programs that use no GPU, beside
    those that jobs start, do not count."""
    module, node = subject.module, subject.node
    if module is None or node is None or subject.is_notebook:
        return False
    return not _is_reached(subject.project, module, node)


@query
def _is_reached(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    function = module.function(node)
    text = ast.unparse(function).encode("utf-8", "replace") if function is not None else b""
    needs_gpu = function is None or project.fact(GpuPrograms).words.names_device(text)
    return _Search(project, needs_gpu).reaches(module, node, MAX_STEPS)


@query
def _jobs_hold_gpus(project: Project) -> bool:
    """Return whether a job that holds GPUs starts a program of the tree."""
    jobs = project.fact(JobIndex)
    return any(
        item.job.gpus is not None and item.job.gpus.value != 0
        for path in project.files
        if path.suffix == ".py"
        for item in jobs.launches_of(path)
    )


@query
def _is_beside_jobs(project: Project, module: ModuleIndex) -> bool:
    """Return whether a program names no device, and jobs that hold GPUs start others, but neither it nor what imports
    it."""
    programs = project.fact(GpuPrograms)
    if b"__main__" not in project.data(module.path) or not _jobs_hold_gpus(project):
        return False
    started = project.fact(JobIndex).launches_of
    return not programs.words.names_device(project.data(module.path)) and not any(
        True for path in (module.path, *programs.users(module.path)) for _ in started(path)
    )


class _Search:
    """One search, back from a place; what it looked at already leads to nothing new."""

    def __init__(self, project: Project, needs_gpu: bool) -> None:
        """``needs_gpu`` tells whether the place names a device itself, whatever the program does."""
        self._project, self._needs_gpu = project, needs_gpu
        self._seen = set[ast.AST]()

    def reaches(self, module: ModuleIndex, node: ast.AST, steps: int) -> bool:
        """Return whether a place runs, but for tests around it."""
        owner = _owner(module, node)
        if owner is None:
            beside = not self._needs_gpu and _is_beside_jobs(self._project, module)
            return not self._project.is_test(module.path) and not beside
        if owner in self._seen:
            return False
        self._seen.add(owner)
        if steps <= 0 or len(self._seen) > MAX_PLACES:
            return True
        if isinstance(owner, ast.ClassDef):
            return self._uses(module, owner, steps)
        above = module.class_of(owner)
        if above is None or _outer(module, owner) is not above:
            return self._uses(module, owner, steps)
        return self._method(module, above, owner, steps)

    def _method(self, module: ModuleIndex, above: ast.ClassDef, method: FunctionNode, steps: int) -> bool:
        if method.name.startswith("__") or method.name in _CALLED_BY_LIBRARIES:
            return self._uses(module, above, steps)
        if not self._is_used(module, above):
            return False
        uses = [use for use in self._attributes(method.name) if _owner(use.module, use.node) is not method]
        if uses:
            return any(self._leads(use, steps) for use in uses)
        users = map(self._project.module_at, self._project.word_index.mentioning(word_of(above.name)))
        chosen = any(user is not None and not _COMMANDS.isdisjoint(user.calls_by_name) for user in users)
        return not chosen and any(last_name(base) not in _PLAIN_BASES for base in above.bases)  # a library may call it

    def _is_used(self, module: ModuleIndex, above: ast.ClassDef) -> bool:
        """Return whether anything names a class but its own body, other than to annotate or test: nobody makes
        an instance else."""
        registered = registered_names(above)
        if (above.decorator_list and not registered) or _outer(module, above) is not None:
            return True
        if any(is_named_as_text(self._project, name, above) for name in registered):
            return True
        named = (use for use in self._named(module, above.name) if not _is_idle(use) and self._is_chosen(use, above))
        if any(not any(up is above for up in use.module.syntax.ancestors(use.node)) for use in named):
            return True
        if any(self._holds_text(path, above.name) for path in self._project.word_index.mentioning(word_of(above.name))):
            return True
        whole = re.compile(rb"(?<!\w)%b(?!\w)" % re.escape(above.name.encode()))
        return any(
            path.suffix not in (".py", ".pyc", ".md", ".rst") and self._project.finds(path, whole)
            for path in self._project.files_with(above.name.encode())
        )

    def _holds_text(self, path: Path, name: str) -> bool:
        """Return whether a module has a text that ends in a name: ``"models.nets.Net"``."""
        module = self._project.module_at(path)
        return module is not None and any(text.endswith(name) for text in module.strings)

    def _attributes(self, name: str) -> list[NodeRef]:
        found = (
            NodeRef(module, node)
            for path in self._project.word_index.mentioning(word_of(name))
            if (module := self._project.module_at(path)) is not None
            for node in module.syntax.of(ast.Attribute)
            if node.attr == name and isinstance(node.ctx, ast.Load)
        )
        return list(islice(found, MAX_USES))

    def _uses(self, module: ModuleIndex, owner: Definition, steps: int) -> bool:
        """Return whether a use of a class or function leads there."""
        if registered := registered_names(owner):
            return any(is_named_as_text(self._project, name, owner) for name in registered)
        uses = list(islice(self._named(module, owner.name), MAX_USES))
        outside = [use for use in uses if not any(up is owner for up in use.module.syntax.ancestors(use.node))]
        if any(self._leads(use, steps, owner) for use in outside if not _is_idle(use)):
            return True
        return len(uses) == MAX_USES or is_named_as_text(self._project, owner.name)

    def _named(self, module: ModuleIndex, name: str) -> Iterator[NodeRef]:
        """Uses of a name of the module, there and in modules that import it, also under another name."""
        yield from (NodeRef(module, node) for node in module.uses.get(name, ()))
        for find in (importing_files, files_with_missing_imports):
            for path in sorted(find(self._project, module.path, name)):
                other = self._project.module_at(path)
                if other is None:
                    continue
                for known in {name} | other.aliases.get(name, set()):
                    yield from (NodeRef(other, node) for node in other.uses.get(known, ()))
                yield from (NodeRef(other, node) for node in other.syntax.of(ast.Attribute) if node.attr == name)

    def _is_chosen(self, use: NodeRef, owner: Definition | None) -> bool:
        """Return whether a use is no entry of a table, or one that something names."""
        entry = table_key(use.module, use.node)
        return entry is None or is_named_as_text(self._project, entry, owner)

    def _leads(self, use: NodeRef, steps: int, owner: Definition | None = None) -> bool:
        module, node = use.module, use.node
        if not self._is_chosen(use, owner):
            return False
        if is_other_choice(self._project, module, node, depth=0):
            return False
        return self.reaches(module, node, steps - 1)


def _owner(module: ModuleIndex, node: ast.AST) -> Definition | None:
    """The innermost function or class whose body holds a place. What is inside a function counts as the outer one's."""
    inner = node
    found: Definition | None = None
    for up in module.syntax.ancestors(node):
        if isinstance(up, FUNCTIONS) and inner in up.body:
            found = up
        if isinstance(up, ast.ClassDef) and inner in up.body:
            return found or (None if _outer(module, up) is None else up)
        inner = up
    return found


def _outer(module: ModuleIndex, node: ast.AST) -> Definition | None:
    return next((up for up in module.syntax.ancestors(node) if isinstance(up, (*FUNCTIONS, ast.ClassDef))), None)


def _is_idle(use: NodeRef) -> bool:
    """Return whether a use only tests or annotates."""
    for up in use.module.syntax.ancestors(use.node):
        if isinstance(up, ast.Call) and isinstance(up.func, ast.Name) and up.func.id in _TESTS:
            return True
        if isinstance(up, ast.arg) or (isinstance(up, ast.AnnAssign) and use.node is up.annotation):
            return True
        if isinstance(up, ast.stmt):
            return False
    return False
