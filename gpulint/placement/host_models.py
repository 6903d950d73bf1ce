"""Models that are moved to the CPU where they are made: ``reference = Net().cpu().eval()``."""

from __future__ import annotations

import ast

from gpulint.placement.host_results import copies_to_host
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import Binding, BindingKind, ModuleIndex, last_name

_KEEPS = frozenset({"eval", "train", "requires_grad_", "float", "double"})
"""Methods of a model that return it where it is."""
_MOVES = frozenset({"to", "cuda", "prepare", "setup", "setup_module"})


def is_model_on_host(module: ModuleIndex, func: ast.expr) -> bool:
    """Return whether what is called is a model that is moved to the CPU last."""
    match func:
        case ast.Name(id=name):
            bindings = reaching(module, module.scope(func).lookup(name), func)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            owner = module.class_of(func)
            if owner is None or owner.bases:
                return False  # a module moves what it holds
            bindings = module.attributes.get((owner, name), [])
        case _:
            return False
    return bool(bindings) and all(map(_stays, bindings)) and not _is_moved(module, ast.unparse(func))


def _stays(binding: Binding) -> bool:
    made = binding.value
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in _KEEPS:
        made = made.func.value
    if binding.kind is not BindingKind.ASSIGN or binding.path or not isinstance(made, ast.Call):
        return False
    return (last_name(made.func) == "cpu" and not made.args) or copies_to_host(made)


def _is_moved(module: ModuleIndex, text: str) -> bool:
    """Return whether a call moves a model by its name, or what moves models to GPUs gets it."""
    calls = (call for name in _MOVES for call in module.calls_by_name.get(name, ()))
    return any(
        (isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == text)
        or (last_name(call.func) not in ("to", "cuda") and text in map(ast.unparse, call.args))
        for call in calls
    )
