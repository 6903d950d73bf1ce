"""Types of values that are written out, or are paths of ``pathlib``."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.workspace.module_index import BindingKind, dotted

if TYPE_CHECKING:
    from gpulint.workspace.module_index import ModuleIndex

_LITERALS: dict[type[ast.expr], type] = {
    ast.JoinedStr: str,
    ast.List: list,
    ast.ListComp: list,
    ast.Dict: dict,
    ast.DictComp: dict,
    ast.Tuple: tuple,
    ast.Set: set,
    ast.SetComp: set,
}
_PATHS = frozenset({"pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath", "pathlib.PurePosixPath"})


def type_of(module: ModuleIndex | None, value: ast.expr | None) -> type | None:
    """Return the type of a literal, or of what is made by ``Path(...)`` in a module and may have a name; None if that
    is unknown."""
    if isinstance(value, ast.Constant):
        return type(value.value) if value.value is not ... else None
    if module is not None and value is not None and _is_path(module, value):
        return Path
    return next((kind for literal, kind in _LITERALS.items() if isinstance(value, literal)), None)


def _is_path(module: ModuleIndex, value: ast.expr) -> bool:
    """``Path(root)``, ``pathlib.Path(root)``, or a variable that nothing else sets."""
    if isinstance(value, ast.Name):
        bindings = module.scope(value).lookup(value.id)
        if len(bindings) != 1 or bindings[0].kind is not BindingKind.ASSIGN or bindings[0].path:
            return False
        made = bindings[0].value
        return isinstance(made, ast.Call) and _is_path(module, made)
    if not isinstance(value, ast.Call):
        return False
    name, _, rest = (dotted(value.func) or "").partition(".")
    bindings = module.scope(value).lookup(name)
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.IMPORT:
        return False
    return ".".join(filter(None, (bindings[0].target, rest))) in _PATHS


def is_text(value: ast.expr) -> bool:
    """Return whether a value is a text that is written out."""
    return isinstance(value, ast.JoinedStr) or (isinstance(value, ast.Constant) and isinstance(value.value, str))
