"""Constant tensors that a module makes in each call: it can hold them, as buffers that are no part of its state."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu306_tensor_created_on_host import OnHost, check

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.fix import Edit, Fix, Safety
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name
from gpulint_fixers.edits.statements import insert_below

_MAKES = frozenset({"tensor", "as_tensor", "Tensor", "FloatTensor", "LongTensor"})
_SHAPES = frozenset({"view", "reshape", "unsqueeze", "squeeze", "float", "double", "long", "t", "flatten"})
"""Methods that give a constant tensor another shape or type."""
_LITERALS = (ast.Constant, ast.UnaryOp, ast.unaryop, ast.List, ast.Tuple, ast.expr_context)


@query
def as_buffers(project: Project, module: ModuleIndex, function: ast.AST) -> Fix | None:
    """Register the constant tensors of a module's method in its constructor; None if there are none, or more is to be
    done for one of them."""
    owner, document = module.class_of(function), project.document(module.path)
    if owner is None or document is None or not isinstance(function, ast.FunctionDef) or function.name == "__init__":
        return None
    if not any(base.endswith("nn.Module") for base in project.fact(Resolver).base_names(module, owner)):
        return None
    start = _start(owner)
    if start is None:
        return None
    taken = {part.attr for part in walk(owner) if isinstance(part, ast.Attribute)}
    taken |= {getattr(part, "name", "") for part in owner.body}
    lines, edits = list[str](), list[Edit]()
    for finding in check(document, project):
        found = finding.payload
        if not isinstance(found, OnHost) or module.function(found.transfer.node) is not function:
            continue
        name = _name(module, found, function)
        if not name or not _is_constant(found):
            return None
        name = next(one for one in (name, *(f"{name}_{number}" for number in range(2, 99))) if one not in taken)
        taken.add(name)
        made = module.syntax.text(found.transfer.value)
        lines.append(f'self.register_buffer("{name}", {made}, persistent=False)')
        edits.append(Edit(module.path, module.syntax.span(found.transfer.node), f"self.{name}"))
    above = insert_below(module.syntax, start, "\n".join(lines)) if lines else None
    if above is None or any("\n" in line for line in lines):
        return None
    return Fix(
        "register it as a buffer, which moves to the GPU with the module; the whole module has to be moved",
        Safety.UNSAFE,
        (above, *edits),
    )


def _start(owner: ast.ClassDef) -> ast.stmt | None:
    """``super().__init__()``"""
    init = next((part for part in owner.body if getattr(part, "name", "") == "__init__"), None)
    for statement in init.body if isinstance(init, FUNCTIONS) and not isinstance(init, ast.Lambda) else ():
        match statement:
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"))
            ):
                return statement
    return None


def _name(module: ModuleIndex, found: OnHost, function: ast.FunctionDef) -> str:
    """The variable that holds the tensor, and that nothing changes in place; empty if there is none."""
    match module.syntax.parents.get(found.transfer.node):
        case ast.Assign(targets=[ast.Name(id=name)]) if not is_changed(function, name):
            return name
    return ""


def _is_constant(found: OnHost) -> bool:
    """``torch.tensor([0.5, 0.4]).view(1, 2, 1, 1).to(device)``"""
    move, value = found.transfer.node, found.transfer.value
    given = [*move.args, *(keyword.value for keyword in move.keywords if keyword.arg == "device")]
    if len(given) > 1 or keyword_value(move, "dtype") is not None or last_name(move.func) not in ("to", "cuda"):
        return False
    if not all(last_name(one) in ("device", "dev") or isinstance(one, ast.Constant) for one in given):
        return False
    while isinstance(value, ast.Call) and value is not found.made:
        if not isinstance(value.func, ast.Attribute) or value.func.attr not in _SHAPES or not _are_literal(value):
            return False
        value = value.func.value
    return value is found.made and last_name(found.made.func) in _MAKES and _are_literal(found.made)


def _are_literal(call: ast.Call) -> bool:
    return not call.keywords and all(isinstance(part, _LITERALS) for given in call.args for part in walk(given))


def is_changed(region: ast.AST, name: str) -> bool:
    """Return whether a loop or function may change a tensor in place, or keep it."""
    for part in walk(region):
        match part:
            case ast.AugAssign(target=ast.Name(id=own) | ast.Subscript(value=ast.Name(id=own))) if own == name:
                return True
            case ast.Subscript(value=ast.Name(id=own), ctx=ast.Store()) if own == name:
                return True
            case ast.Attribute(value=ast.Name(id=own), attr=attr) if own == name:
                if attr.endswith("_") or attr in ("requires_grad", "grad", "data", "backward"):
                    return True
            case ast.Call(func=ast.Attribute(attr="append" | "add" | "update"), args=args):
                if any(isinstance(arg, ast.Name) and arg.id == name for arg in args):
                    return True
    return False
