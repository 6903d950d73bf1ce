"""What a model that was wrapped for several GPUs is used for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.facts.scopes import ModuleScopes

if TYPE_CHECKING:
    from gpulint.project import Project

_NO_TRAINING = frozenset({"eval", "cuda", "to", "half"})
"""Methods of a model that say nothing of training."""


def only_infers(project: Project, scopes: ModuleScopes, call: ast.Call) -> bool:
    """Is the wrapped model only called without gradients, or unwrapped, in its function or module (an attribute: its
    class)?"""
    assigned, function = scopes.module.parents.get(_chained(scopes, call)), scopes.function(call)
    if not isinstance(assigned, ast.Assign):
        return False
    target = ast.unparse(assigned.targets[0])
    attribute = isinstance(assigned.targets[0], ast.Attribute)
    home: ast.AST | None = function or scopes.module.tree
    if attribute:
        home = next((up for up in scopes.module.ancestors(call) if isinstance(up, ast.ClassDef)), None)
    elif not isinstance(assigned.targets[0], ast.Name):
        return False
    runs = loads = 0
    for node in ast.walk(home) if home is not None else ():
        if not isinstance(node, ast.Attribute if attribute else ast.Name) or ast.unparse(node) != target:
            continue
        if isinstance(node.ctx, ast.Store) or (not attribute and node.lineno <= (assigned.end_lineno or 0)):
            continue
        if function is None and not attribute and _is_another(scopes, node, assigned):
            continue
        up = scopes.module.parents.get(node)
        if isinstance(up, ast.Call) and up.func is node and project.guards.no_grad(scopes, up):
            runs += 1
        elif isinstance(up, ast.Attribute) and up.attr in ("load_state_dict", "state_dict", "module"):
            # Weights alone are read and written under the names that the wrapper gives them: nothing runs.
            loads += up.attr == "module" or (up.attr == "state_dict" and not attribute and len(assigned.targets) == 1)
        elif not (
            up is call
            or (isinstance(up, ast.Attribute) and up.attr in _NO_TRAINING)
            or (isinstance(up, ast.Call) and project.resolver.call_names(scopes, up) & {"torch.onnx.export"})
        ):
            return False
    return runs + loads > 0


def _is_another(scopes: ModuleScopes, node: ast.AST, assigned: ast.Assign) -> bool:
    """Does a name stand for something of its own function, not for what the module assigned?"""
    assert isinstance(node, ast.Name)
    return not any(binding.value is assigned.value for binding in scopes.scope(node).lookup(node.id))


def _chained(scopes: ModuleScopes, call: ast.Call) -> ast.AST:
    """``DataParallel(model).to(device)`` as a whole."""
    whole: ast.AST = call
    for up in scopes.module.ancestors(call):
        if isinstance(up, ast.Attribute) and up.attr not in _NO_TRAINING:
            break
        if not isinstance(up, ast.Attribute | ast.Call) or (isinstance(up, ast.Call) and whole is not up.func):
            break
        whole = up
    return whole
