"""Copies that may not wait only where the device is one of CUDA: on another one the copy may still read the memory of
the batch when the program has freed it, so what arrives is arbitrary (https://github.com/pytorch/pytorch/issues/139550).
"""

from __future__ import annotations

import ast

from gpulint.documents.python import PythonModule
from gpulint.fix import Edit
from gpulint.placement.device_transfers import Transfer
from gpulint.placement.devices import Device
from gpulint.project import Project
from gpulint.semantic.first_bindings import runs_before
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import BindingKind, ModuleIndex, last_name
from gpulint_fixers.edits.calls import set_keyword

MAY_BE_OTHER = "the device may be other than CUDA, where the values of an asynchronous copy may be arbitrary"
_CHOOSE = frozenset({b"accelerate", b"lightning", b"pytorch_lightning", b"lightning_fabric", b"fastai"})
"""Libraries that choose the device by themselves, on a Mac its own GPU."""
_NAMES = (b"TrainingArguments", b"current_accelerator")
"""What does the same."""
_RANKS = frozenset({"get_rank", "get_local_rank", "get_node_local_rank"})
"""Calls that give the index of a process, which is that of its GPU."""


def non_blocking(project: Project, transfer: Transfer) -> str | None:
    """Return what to pass as ``non_blocking``: ``True``, or the test that the device is one of CUDA where the program
    may use another accelerator; None if there is no name for that test."""
    target = _target(transfer.call.module, transfer.node)
    if target is None or not _may_be_other(project, transfer) or _is_cuda_or_cpu(project, transfer, target):
        return "True"
    module = transfer.call.module
    if _is_device(module, target):
        return f'{ast.unparse(target)}.type == "cuda"'
    bound = module.scope(transfer.node).lookup("torch")
    early = runs_before(module, module.syntax.span(transfer.node), "torch")
    if bound and not early and all(binding.target == "torch" for binding in bound):
        return "torch.cuda.is_available()"
    return None


def unblock(syntax: PythonModule, call: ast.Call, value: str) -> Edit:
    """Set ``non_blocking``, also where a plain False is passed by position."""
    for argument in call.args:
        if isinstance(argument, ast.Constant) and argument.value is False:
            return Edit(syntax.path, syntax.span(argument), value)
    return set_keyword(syntax, call, "non_blocking", value)


def _target(module: ModuleIndex, call: ast.Call) -> ast.expr | None:
    """The device that a call names; None for ``.cuda()``, and for one that says itself that it is of CUDA."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "to":
        return None
    named = next((keyword.value for keyword in call.keywords if keyword.arg == "device"), None)
    target = named or (call.args[0] if call.args else None)
    bound = module.scope(target).lookup(target.id) if isinstance(target, ast.Name) else []
    values = [one.value if one.kind is BindingKind.ASSIGN and not one.path else None for one in bound]
    return None if all(map(_is_of_cuda, values or [target])) else target


def _is_of_cuda(value: ast.expr | None) -> bool:
    """``"cuda:0"``, ``f"cuda:{rank}"``, ``0``, and a ``torch.device`` of them."""
    if isinstance(value, ast.Call) and value.args and ast.unparse(value.func) == "torch.device":
        value = value.args[0]
    match value.values[0] if isinstance(value, ast.JoinedStr) and value.values else value:
        case ast.Constant(value=str(text)):
            return text.startswith("cuda")
        case ast.Constant(value=int()):
            return True
    return False


def _is_cuda_or_cpu(project: Project, transfer: Transfer, target: ast.expr) -> bool:
    """Return whether all that a device may be is written out, and is of CUDA or the CPU, on which nothing is copied:
    ``self.device = self.pick()`` with ``return "cuda" if torch.cuda.is_available() else "cpu"``. What the program says
    of Macs is of another device then."""
    if transfer.devices & {Device.OTHER, Device.XPU}:
        return False
    module = transfer.call.module
    made = [ref.node for ref in project.fact(Resolver).points_to(module, target)]
    if made and all(map(_is_index, made)):
        return True
    if Device.UNKNOWN in transfer.devices:
        return False
    known = project.fact(Constants).of(module, target)
    if known.constants:
        return known.every(_names_cuda_or_cpu)
    return bool(made) and all(_is_of_either(node) for node in made)


def _is_index(node: ast.AST) -> bool:
    """Return whether a device is certainly a number, which is the index of a GPU: ``int(os.environ["LOCAL_RANK"])``,
    ``dist.get_rank() % torch.cuda.device_count()``."""
    match node:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int()):
            return True
        case ast.Call(func=func):
            return ast.unparse(func) == "int" or last_name(func) in _RANKS
        case ast.BinOp(left=left, op=ast.Mod() | ast.FloorDiv() | ast.Add() | ast.Sub()):
            return _is_index(left)
        case ast.arg(annotation=ast.Name(id=annotated)):
            return annotated == "int"
    return False


def _is_of_either(node: ast.AST) -> bool:
    """``torch.device("cuda" if torch.cuda.is_available() else "cpu")``"""
    if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) == "torch.device":
        return _is_of_either(node.args[0])
    if isinstance(node, ast.IfExp):
        return _is_of_either(node.body) and _is_of_either(node.orelse)
    if isinstance(node, ast.Constant):
        return _names_cuda_or_cpu(node.value)
    return isinstance(node, ast.expr) and _is_of_cuda(node)


def _names_cuda_or_cpu(value: object) -> bool:
    return isinstance(value, str) and (value == "cpu" or value.partition(":")[0] == "cuda")


def _may_be_other(project: Project, transfer: Transfer) -> bool:
    """Return whether a copy may go to an accelerator of another kind. What the program says of Macs counts wherever it
    is: the analysis of devices leaves branches for them out."""
    words = project.word_index
    if transfer.devices & {Device.OTHER, Device.XPU} or words.mentioning(b"mps"):
        return True
    if Device.UNKNOWN not in transfer.devices:
        return False
    return bool(words.importing(_CHOOSE)) or any(words.mentioning(name) for name in _NAMES)


def _is_device(module: ModuleIndex, target: ast.expr | None) -> bool:
    """Return whether a name is certainly one of a ``torch.device``, not a string."""
    if not isinstance(target, ast.Name):
        return False
    bound = module.scope(target).lookup(target.id)
    values = [binding.value for binding in bound if binding.kind is BindingKind.ASSIGN and not binding.path]
    made = [value for value in values if isinstance(value, ast.Call) and ast.unparse(value.func) == "torch.device"]
    return bool(bound) and len(made) == len(bound)
