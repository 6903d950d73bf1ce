"""Use NCCL for GPU tensors."""

from __future__ import annotations

import ast
from pathlib import Path

from gpulint_rules.data.gpu355_cpu_backend_for_gpus import CpuBackend

from gpulint import regex
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards

_COLLECTIVES = regex.compile(
    r"\b(all_reduce|all_gather(_into_tensor)?|reduce|broadcast|gather|scatter|send|recv|isend|irecv|all_to_all)\("
)


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found, document = finding.payload, project.document(finding.path)
    if not isinstance(found, CpuBackend) or document is None or document.python is None:
        return Declined("the code does not show whether this machine needs the setting")
    node = _literal(project, finding.path, found.node)
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return Declined("the backend is not a literal in the call")
    if _is_on_cpu_by_default(project, finding.path):
        return Declined(
            "the program only uses a GPU with an option that is off by default, and NCCL takes no CPU tensors"
        )
    text = document.python.text(node)
    quote = text[-1]
    line = document.python.source.position(document.python.offsets(node)[1])[0]
    new = document.python.source.line(line).replace(text, f"{quote}nccl{quote}").strip()
    around = (document.python.source.line(number).strip().lstrip("# ") for number in (line - 1, line + 1))
    if new in around:
        return Declined("the line beside it, a comment, has the other backend already: choose between them")
    if _exchanges_more(project, finding.path):
        edit = Edit(finding.path, document.python.span(node), f"{quote}cpu:gloo,cuda:nccl{quote}")
        return Fix("use NCCL for tensors on GPUs (PyTorch 2.0 or later)", Safety.UNSAFE, (edit,))
    edit = Edit(finding.path, document.python.span(node), f"{quote}nccl{quote}")
    return Fix("use NCCL, which cannot exchange CPU tensors", Safety.UNSAFE, (edit,))


def _literal(project: Project, path: Path, node: ast.expr | None) -> ast.AST | None:
    """The text that names the backend: in the call, or the only value of a variable or parameter of the module."""
    module = project.module_at(path)
    if module is None or not isinstance(node, ast.Name):
        return node
    named = project.fact(Resolver).points_to(module, node)
    return named[0].node if len(named) == 1 and named[0].module is module else None


def _exchanges_more(project: Project, path: Path) -> bool:
    """Return whether a program calls collectives itself, whose tensors may be on the CPU."""
    return project.fact(MultiGpuUse).of(path).mentions(_COLLECTIVES)


def _is_on_cpu_by_default(project: Project, path: Path) -> bool:
    """Return whether all transfers of a module to a GPU need an option that is off by default."""
    module = project.module_at(path)
    if module is None:
        return False
    moved = [transfer for transfer in project.fact(DeviceTransfers).transfers(module) if transfer.to_gpu]
    guards = project.fact(Guards)
    return bool(moved) and all(guards.is_off_by_default(module, transfer.node) for transfer in moved)


FIXER = Fixer("GPU355", fix)
