"""Names that nothing defines: a use of one raises an error."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.exits import is_notebook_like
from gpulint.libraries.gpu_libraries import Libraries
from gpulint.query import cyclic, query
from gpulint.workspace.module_index import FUNCTIONS, BindingKind

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_MAKES_OTHERS = regex.compile(
    rb"__getattr__|\bglobals\(|\blocals\(|\bexec\(|\bsetattr\(|sys\.modules|\bvars\(|__dict__"
)
"""How a module gets names that it does not mention, but for all of another module."""
_MAKES_NAMES = regex.compile(rb"import *\*|" + _MAKES_OTHERS.pattern)
"""How a module gets names that it does not mention."""
_EVALUATES = regex.compile(rb"(?<![.\w])eval\(")
"""Evaluates a text; ``model.eval()`` is another function."""
_RUNS = regex.compile(rb"(?<![.\w])(execfile\(|exec\((?!\s{0,9}[bBfFrRuU]{0,2}[\"']{1,3}\w))|%run -i")
"""Runs a program; a text that is written there, ``exec("from models import " + name)``, is none."""
_GIVEN = frozenset(dir(builtins)) | {
    "__file__", "__builtins__", "__annotations__", "__path__", "__class__", "__module__", "__qualname__",
    "WindowsError",
    "exit", "quit", "copyright", "credits", "license", "get_ipython", "display", "profile", "snakemake", "spark", "sc",
    "dbutils", "reveal_type", "xrange", "unicode", "raw_input", "long", "reduce", "basestring", "execfile", "file",
    "cmp", "reload", "unichr", "buffer", "apply", "intern", "coerce", "bpy", "c", "_", "__", "In", "Out", "Import",
    "Export", "Return", "env", "DefaultEnvironment", "ARGUMENTS",
}  # fmt: skip
"""Names of Python, of Python 2, and of what runs programs in a namespace of its own."""


MIN_DEFINED = 30
"""How many names a module reads for each that nothing defines; a small one with fewer is an excerpt, for which others
stand."""
WHOLE = 45
"""One that reads so many names is a program, if it defines most of them."""
_FEW_DEFINED = 10
"""One with fewer names for each that is missing runs in the namespace of another."""


@query
def undefined_names(project: Project, module: ModuleIndex) -> tuple[ast.Name, ...]:
    """Names that a module reads and that neither it nor Python defines; none if it evaluates texts."""
    return () if project.finds(module.path, _EVALUATES) else undefined_in_text(project, module)


@query
def undefined_in_text(project: Project, module: ModuleIndex) -> tuple[ast.Name, ...]:
    """Return the names that the text of a module reads and that neither it nor Python defines."""
    found = _unbound(project, module)
    missing = {use.id for use in found}
    cut = is_excerpt(project, module, missing) and not all(_is_commented_out(module, name) for name in missing)
    return () if cut else found


def is_excerpt(project: Project, module: ModuleIndex, missing: Collection[str]) -> bool:
    """Return whether a module reads too few names, beside those that are missing, to be a program by itself."""
    count = len(module.uses)
    if len(missing) * MIN_DEFINED <= count:
        return False
    return count < WHOLE or len(missing) * _FEW_DEFINED > count or _runs_texts(project)


@query
def _runs_texts(project: Project) -> bool:
    """Return whether a program or notebook may run others in a namespace of its own: ``exec(path.read_text())``."""
    paths = project.python_files_with(b"exec")
    return any(project.finds(path, _RUNS) for path in paths) or project.is_like_in_other_files(rb"%run -i|exec\(")


@query
def has_gaps(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module reads names that nothing defines, as programs and excerpts do that others complete."""
    return not project.finds(module.path, _EVALUATES) and bool(_unbound(project, module))


@query
def _unbound(project: Project, module: ModuleIndex) -> tuple[ast.Name, ...]:
    """The names that a module reads and that neither it nor Python defines, also in an excerpt."""
    if module.path.suffix != ".py" or is_notebook_like(module.syntax) or project.finds(module.path, _MAKES_NAMES):
        return ()
    names = (name for name in module.uses if name not in _GIVEN and not name.startswith("__"))
    reads = (use for name in names if not _may_be_given(project, module, name) for use in module.uses[name])
    return tuple(use for use in reads if not module.scope(use).lookup(use.id) and not _is_annotation(module, use))


def _is_commented_out(module: ModuleIndex, name: str) -> bool:
    """``# model = Net()``: the line that defines a name is there, and is not run."""
    return (
        re.search(rf"^[ \t]*#[ \t]*{re.escape(name)}[ \t]*=(?!=)", module.syntax.source.text, re.MULTILINE) is not None
    )


def _may_be_given(project: Project, module: ModuleIndex, name: str) -> bool:
    """Return whether the module binds a name at all at its top, or as a global of a function, or another does so for
    all modules."""
    if name in module.top.bindings or any(name in node.names for node in module.syntax.of(ast.Global)):
        return True
    return any(name in users for users in _of_builtins(project))


@query
def _of_builtins(project: Project) -> tuple[frozenset[str], ...]:
    """Attributes and texts of modules that may add names to ``builtins``."""
    modules = (project.module_at(path) for path in project.word_index.mentioning(b"builtins"))
    return tuple(
        frozenset({node.attr for node in module.syntax.of(ast.Attribute)} | set(module.strings))
        for module in modules
        if module is not None
    )


def _is_annotation(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a node is part of an annotation, which may never be evaluated, or of a pattern or ``del``."""
    inner = node
    for up in module.syntax.ancestors(node):
        match up:
            case ast.arg():
                return True
            case ast.AnnAssign(annotation=annotation) if annotation is inner:
                return True
            case ast.FunctionDef(returns=returns) | ast.AsyncFunctionDef(returns=returns) if returns is inner:
                return True
        if isinstance(up, (ast.stmt, *FUNCTIONS)):
            return False
        inner = up
    return False


@query
def absent_attributes(project: Project, module: ModuleIndex) -> tuple[ast.Attribute, ...]:
    """Return what a module reads of modules of the tree that do not have it: ``utils.seed_all(0)``."""
    if module.path.suffix != ".py" or project.finds(module.path, _MAKES_NAMES):
        return ()
    return tuple(
        node
        for node in module.syntax.of(ast.Attribute)
        if isinstance(node.value, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and (path := _imported(project, module, node.value)) is not None
        and lacks(project, path, node.attr)
        and not _is_annotation(module, node)
    )


def _imported(project: Project, module: ModuleIndex, name: ast.Name) -> Path | None:
    """The one module of the tree that a name stands for."""
    bindings = module.scope(name).lookup(name.id)
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.IMPORT:
        return None
    target = project.absolute(bindings[0].target, module.path)
    if any(binding.target.startswith(f"{bindings[0].target}.") for binding in module.imports):
        return None
    path = module_named(project, module, target)
    home = project.module_path(target.rpartition(".")[0], module.path) if "." in target else None
    above = project.module_at(home) if home is not None else None
    if above is not None and target.rpartition(".")[2] in above.top.bindings:
        return None  # a name of a package, which hides its module
    return path


def module_named(project: Project, module: ModuleIndex, name: str) -> Path | None:
    """The module of the tree that an import gets; None if that may be a library, which a package's own file does not
    hide (``from datasets import load_dataset`` beside ``datasets.py``)."""
    first = name.partition(".")[0]
    libraries = project.models.derived(Libraries)
    if first in sys.stdlib_module_names | libraries.gpu | libraries.beside:
        return None
    path = project.module_path(name, module.path)
    if path is None or path.parent != module.path.parent or "." in name:
        return path
    folder = module.path.parent
    is_program = b"__main__" in project.data(module.path) or not project.exists(folder / "__init__.py")
    return path if is_program else None


@query
def lacks(project: Project, path: Path, name: str) -> bool:
    """Return whether neither a module of the tree nor another file of its name has a name, in any way."""
    if name.startswith("__"):
        return False
    if path.name == "__init__.py":
        same = [one for one in project.files if one.name == path.name and one.parent.name == path.parent.name]
        if any(one.stem == name or one.parent.name == name for one in project.files):
            return False  # a module of the package
        same += [one for one in project.files if one.name == f"{path.parent.name}.py"]
    else:
        same = [one for one in project.files if one.name == path.name]
    return not any(_may_define(project, one, name) for one in {path, *same})


@cyclic(False)
def _may_define(project: Project, path: Path, name: str) -> bool:
    """Return whether a module binds a name, also by all of another module that it imports, may get names in other ways,
    or is not written yet."""
    module = project.module_at(path)
    filled = module is not None and (module.classes or module.functions or module.imports)
    if module is None or not filled or project.finds(path, _MAKES_OTHERS):
        return True
    stored = any(isinstance(one.ctx, ast.Store) for one in module.named.get(name, ()))
    if stored or name in module.top.bindings or name in module.strings:
        return True
    starred = (project.absolute(one.target[:-2], path) for one in module.top.bindings.get("*", ()))
    found = [project.module_path(one, path) for one in starred]
    return any(one is None or _may_define(project, one, name) for one in found)
