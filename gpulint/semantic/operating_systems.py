"""Code for systems that few GPU jobs run on: branches for Windows and macOS, and programs written there.

``platform.system() == "Windows"``, ``os.name == "nt"``, ``sys.platform.startswith("win")``, and names for such a test.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions, rules_out
from gpulint.workspace.module_index import ModuleIndex, dotted

if TYPE_CHECKING:
    from gpulint.project import Project

_MENTIONED = regex.compile(r"\bplatform\b|\bos\.name\b|\bos_name\b")
_ASKED = frozenset({"platform.system", "sys.platform", "os.name", "platform.platform", "platform.uname"})
_HERE = ("linux", "posix")
_SPAWNS = regex.compile(
    r"""['"](/Users/\w|[A-Za-z]:[\\/]|\w+\\{1,2}\w[\w\\]*\.(jpe?g|png|csv|json|txt|npy|pkl|pth?|wav|mp4)['"]|\.{1,2}\\\\\w)"""
    r"""|['"]\.{1,2}\\\w{3,80}\\[\w .-]{3,80}['"]"""
    r"""|\+\s*(r['"]\\|['"]\\\\)\w"""
    r"""|\bos\.name\s*==\s*['"]nt['"]|is_built\(\)|['"]mps['"]\s*(\)\s*)?if\b|device\(\s*['"]mps['"]\s*\)\n\s*elif"""
    r"""|['"]~/Library/|(?:^|\n)(?:import|from) +(?:\w+, *){0,8}(?:winsound|msvcrt|winreg|win32\w+|pythoncom)\b"""
    r"""|\bfreeze_support\(\)"""
    r"""|(root|dir|path|folder|directory)['"]?\b[^\n#]{0,60}=[ \t]*(r['"]\w[\w .-]{0,80}\\|['"]\w[\w .-]{0,80}\\\\)"""
    r"""[^\W\d_][\w -]{2,80}[\w .\\-]*['"]"""
    r"""|(Folder|Dataset|Path|glob|listdir|open|imread|read_csv|load)\(\s*"""
    r"""([rR]['"][\w .-]{1,80}\\|['"][\w .-]{1,80}\\\\)"""
    r"""[^\W\d_][\w -]{2,80}[\w .\\*-]{0,80}['"]"""
)
"""Paths of macOS and Windows, modules and calls that only Windows has or needs, and tests that prefer a Mac's GPU:
processes are spawned there, and import the program again."""
_LINUX = regex.compile(
    r"""['"]/(home|root|data\w*|mnt|scratch\w*|workspace|content|kaggle|srv|opt|nfs|gpfs|lustre|storage|share\w*|export|work)/"""
)
"""Paths of Linux."""
_DRIVES = regex.compile(r"""^[^#\n]{0,200}['"]([A-Za-z]:(\\{1,2}|/)\w|/Users/\w)""", re.MULTILINE)
"""Paths of Windows and macOS that no other system has, outside of comments."""
MAX_FILES = 200
"""Most modules of a tree that are read for the paths that they name."""
MAX_SIBLINGS = 60
"""Most modules of a folder that are read for the paths that they name."""
_MAY_SPAWN = regex.compile(r"\bmps\.is_(available|built)\(\)")
_ELSEWHERE = ("win", "nt", "darwin", "cygwin", "mac")


def is_for_another_system(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether ``node`` only runs on another system than Linux."""
    if not _mentions_systems(module):
        return False
    return any(excludes_linux(module, test, holds) for test, holds in conditions(module, node))


@query
def is_of_another_system(module: ModuleIndex) -> bool:
    """Return whether a module was written on macOS or Windows, and is run there as well."""
    return regex.occurs(_SPAWNS, module.syntax.source.text)


@query
def is_of_another_folder(project: Project, folder: Path) -> bool:
    """Return whether modules of a folder name paths of macOS or Windows, and none names one of Linux."""
    files = [path for path in project.files if path.suffix == ".py" and path.parent == folder]
    if len(files) > MAX_SIBLINGS:
        return False
    texts = [project.python_text(path) for path in files]
    return any(regex.occurs(_SPAWNS, text) for text in texts) and not any(regex.occurs(_LINUX, text) for text in texts)


@query
def is_of_another_tree(project: Project) -> bool:
    """Return whether modules of a tree name folders of Windows or macOS, and none names one of Linux."""
    files = (path for path in project.python_files if not project.is_test(path))
    return not names_linux(project) and any(project.matches(path, _DRIVES) for path in files)


@query
def names_linux(project: Project) -> bool:
    """Return whether a module of a tree names a folder of Linux."""
    files = [path for path in project.python_files if not project.is_test(path)]
    return len(files) > MAX_FILES or any(project.matches(path, _LINUX) for path in files)


def names_drive(project: Project, path: Path) -> bool:
    """Return whether a module names a folder that only Windows or macOS has."""
    return project.matches(path, _DRIVES)


def names_linux_folder(project: Project, path: Path) -> bool:
    """Return whether a module names a folder of Linux."""
    return project.matches(path, _LINUX)


@query
def may_run_on_macos(module: ModuleIndex) -> bool:
    """Return whether a module asks for a Mac's GPU, perhaps after one of NVIDIA: processes are spawned there."""
    return is_of_another_system(module) or regex.occurs(_MAY_SPAWN, module.syntax.source.text)


@query
def _mentions_systems(module: ModuleIndex) -> bool:
    return regex.occurs(_MENTIONED, module.syntax.source.text)


@query
def excludes_linux(module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    """Return whether a test that holds, or does not, leaves Linux out."""
    return _mentions_systems(module) and rules_out(test, holds, partial(_excludes_linux, module))


def _excludes_linux(module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    if isinstance(test, ast.Name):
        kept = module.scope(test).lookup(test.id)
        value = kept[0].value if len(kept) == 1 else None
        return isinstance(value, ast.Compare | ast.Call) and _excludes_linux(module, value, holds)
    return any(
        (named.startswith(_HERE) and holds is not equal) or (named.startswith(_ELSEWHERE) and holds is equal)
        for named, equal in _named(test)
    )


def _named(test: ast.expr) -> Iterator[tuple[str, bool]]:
    """The system that a test names in lower case, and whether it holds there."""
    match test:
        case ast.Compare(
            left=left, ops=[ast.Eq() | ast.NotEq() as operator], comparators=[ast.Constant(value=str(name))]
        ) if _is_asked(left):
            yield name.lower(), isinstance(operator, ast.Eq)
        case ast.Compare(
            left=ast.Constant(value=str(name)), ops=[ast.In() | ast.NotIn() as operator], comparators=[right]
        ) if _is_asked(right):
            yield name.lower(), isinstance(operator, ast.In)
        case ast.Call(func=ast.Attribute(value=left, attr="startswith"), args=[ast.Constant(value=str(name))]) if (
            _is_asked(left)
        ):
            yield name.lower(), True


def _is_asked(node: ast.expr) -> bool:
    """Return whether an expression is the system's name, perhaps in lower case."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("lower", "strip"):
        node = node.func.value
    return dotted(node.func if isinstance(node, ast.Call) else node) in _ASKED
