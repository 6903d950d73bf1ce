"""Names that choose classes and functions at run time: keys of tables, names in registries, texts that name them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query
from gpulint.workspace.module_index import ModuleIndex
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.project import Project

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_OF_SETTINGS = regex.compile(r"^(conf|cfg|arg|option|setting|param|experiment)", re.IGNORECASE)
MAX_SETTINGS = 200
"""Most JSON files that are read for names."""


def is_named_as_text(project: Project, name: str, owner: Definition | None = None) -> bool:
    """Return whether a configuration, command or text of a module names an entry, other than where it is kept, and
    in the body of what it stands for (``NAME = "stsb"``)."""
    whole = re.compile(rb"(?<![\w.-])%b(?![\w-])" % re.escape(name.encode()))
    for path in project.files_with(name.encode()):
        if path.suffix not in (".py", ".pyc", ".md", ".rst", ".ipynb") and project.finds(path, whole):
            return True
    for path in project.word_index.mentioning(word_of(name)) if name.isidentifier() else ():
        other = project.module_at(path)
        if other is not None and any(
            _is_choice(other, text) and not any(up is owner for up in other.syntax.ancestors(text))
            for text in _texts(other, name)
        ):
            return True
    return not name.isidentifier()


def is_named_in_json(project: Project, name: str) -> bool:
    """Return whether a JSON file in a folder of configurations, which is no file of a scan, holds a name as a text."""
    return any(project.contains(path, f'"{name}"'.encode()) for path in _json_settings(project))


@query
def _json_settings(project: Project) -> tuple[Path, ...]:
    """Return the JSON files in the folders of settings at the top of the tree, and in the folders in these."""
    tops = [project.root / name for name in sorted(project.entries(project.root)) if _OF_SETTINGS.search(name)]
    below = [path for top in tops if not top.suffix for name in project.entries(top) if not (path := top / name).suffix]
    folders = (*(top for top in tops if not top.suffix), *sorted(below))
    found = (folder / name for folder in folders for name in sorted(project.entries(folder)))
    return tuple(path for path in found if path.suffix == ".json")[:MAX_SETTINGS]


def registered_names(owner: Definition) -> set[str]:
    """Names under which decorators put a class or function into a registry, if any do."""
    found = [one for one in owner.decorator_list if "regist" in ast.unparse(one).lower()]
    given = {
        part.value
        for one in found
        for part in ast.walk(one)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    }
    return given | {owner.name} if found else set()


def table_key(module: ModuleIndex, node: ast.AST) -> str | None:
    """The key of a table under which a class or function is one of several."""
    parent = module.syntax.parents.get(node)
    if isinstance(parent, ast.Dict) and len(parent.values) > 1 and node in parent.values:
        key = parent.keys[parent.values.index(node)]
        return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
    return None


def _texts(module: ModuleIndex, name: str) -> Iterator[ast.Constant]:
    return (text for text in module.syntax.of(ast.Constant) if text.value == name)


def _is_choice(module: ModuleIndex, text: ast.Constant) -> bool:
    """Return whether a text is a value: no key, no member of a list of what may be chosen, and not compared."""
    parent = module.syntax.parents.get(text)
    if isinstance(parent, ast.Dict):
        return text in parent.values
    registers = isinstance(parent, ast.Call) and "regist" in ast.unparse(parent.func).lower()
    return not registers and not isinstance(parent, ast.Compare | ast.List | ast.Tuple | ast.Set | ast.Expr)
