"""What configuration files pass to the classes and functions that they name: Hydra's ``_target_``, ``class_path`` of
Lightning and jsonargparse."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import with_defaults
from gpulint.finding import Place
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.values.configured import mentioning
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.values.constants import Value

_NAMES = {"_target_": "", "class_path": "init_args."}
"""Keys that name what is called, and where its arguments are."""
_INTERPOLATED = "${"


class Instantiated:
    """Objects of one project that configuration files make."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.db = project.db

    def passed(self, ref: NodeRef) -> list[Value] | None:
        """Return what files pass for a parameter, given it or its default; empty if that is unknown, None if no file
        passes it or the program calls the function itself."""
        from gpulint.values.constants import Value

        found = _parameter(ref)
        if found is None:
            return None
        function, name = found
        owner = ref.module.syntax.parents.get(function)
        called = owner.name if isinstance(owner, ast.ClassDef) and function.name == "__init__" else function.name
        places = self._made(ref.module, called)
        if not places or self._project.fact(Resolver).first_sites(ref.module, function):
            return None
        values: list[Value] = []
        for path, prefix in places:
            given = self._project.fact(Constants).configs.read(path).get(f"{prefix}{name}")
            if given is None and isinstance(ref.node, ast.arg):
                continue  # another file, or the program, passes it
            if given is None:
                assert isinstance(ref.node, ast.Constant)
                values.append(Value(ref.node.value, self._project.fact(Constants).place(ref)))
            elif isinstance(given[0], str) and _INTERPOLATED in given[0]:
                return []
            else:
                values.append(Value(given[0], Place(path, given[1], "set here"), "config"))
        return values or None

    def _made(self, module: ModuleIndex, called: str) -> list[tuple[Path, str]]:
        """The files that name a class or function of a module, with the keys in front of its arguments."""
        stem = module.path.parent.name if module.path.name == "__init__.py" else module.path.stem
        return [place for *folders, place in self._by_name().get(called, []) if folders == [stem]]

    @query
    def _by_name(self) -> dict[str, list[tuple[str, tuple[Path, str]]]]:
        """Name -> (name of its module, (file, keys in front of its arguments))."""
        found: dict[str, list[tuple[str, tuple[Path, str]]]] = {}
        for key, below in _NAMES.items():
            for path in mentioning(self._project, key):
                for dotted, (target, _) in self._project.fact(Constants).configs.read(path).items():
                    head, _, last = dotted.rpartition(".")
                    parts = target.split(".") if last == key and isinstance(target, str) else []
                    if len(parts) > 1:
                        prefix = f"{head}." if head else ""
                        found.setdefault(parts[-1], []).append((parts[-2], (path, f"{prefix}{below}")))
        return found


def _parameter(ref: NodeRef) -> tuple[FunctionNode, str] | None:
    """The function and name of a parameter, given it or its constant default."""
    parents = ref.module.syntax.parents
    arguments = parents.get(ref.node)
    function = parents.get(arguments) if isinstance(arguments, ast.arguments) else None
    if not isinstance(function, FUNCTIONS):
        return None
    if isinstance(ref.node, ast.arg):
        return function, ref.node.arg
    named = next((arg.arg for arg, default in with_defaults(function.args) if default is ref.node), None)
    return (function, named) if named is not None and isinstance(ref.node, ast.Constant) else None
