"""Loops that do something only about tensors which fail a test: one flag for all decides whether the loop runs."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.placement.sync_points import SyncKind
from gpulint.project import Project
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_fixers.edits.calls import WIDTH
from gpulint_fixers.edits.structural import wrap
from gpulint_fixers.waits.device_reads import torch_of

_NAMES = ("flags", "fails", "failed_tests")
_AGAIN = frozenset({"parameters", "named_parameters", "buffers", "named_buffers", "items", "values"})
"""Methods whose results can be gone through twice."""
_PURE = frozenset({"isinstance", "hasattr", "len", "startswith", "endswith", "is_floating_point"})


def guarded_loop(project: Project, found: HostWait) -> Fix | None:
    """Run ``for p in model.parameters(): if torch.isnan(p.grad).any(): ...`` only if one of the tensors has such a
    value, which one read tells; None if the loop does anything else."""
    module, document = found.module, project.document(found.module.path)
    torch = torch_of(module)
    if document is None or torch is None or [sync.kind for sync in found.syncs] != [SyncKind.TEST]:
        return None
    node = found.syncs[0].node
    loop, tests = _conditions(module, node)
    if loop is None or loop is found.context.loop.node or not _goes_again(loop) or module.syntax.span(loop).cell:
        return None
    *guards, test = tests
    flag = _flag(module, test)
    if flag is None or not {*walk(test)} & {node} or not all(map(_is_pure, guards)):
        return None
    name = next((one for one in _NAMES if one not in module.named), None)
    edits = wrap(document, loop, f"if {name} and {torch}.stack({name}).any():")
    if name is None or isinstance(edits, Declined):
        return None
    header = next((edit for edit in edits if f"{torch}.stack({name})" in edit.text), None)
    if header is None:
        return None
    made = _with_flags(module, header, loop, flag, guards, name)
    others = (edit for edit in edits if edit is not header)
    what = "test all tensors at once and run the loop only if one fails"
    return Fix(f"{what}; they have to be on one GPU", Safety.UNSAFE, (made, *others))


def _conditions(module: ModuleIndex, node: ast.expr) -> tuple[ast.For | None, list[ast.expr]]:
    """The loop that holds nothing but branches without `else`, one in another, down to a test, and their conditions."""
    tests, inner = (
        list[ast.expr](),
        next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None),
    )
    if not isinstance(inner, ast.If) or not {*walk(inner.test)} & {node}:
        return None, []
    while isinstance(inner, ast.If):
        if inner.orelse:
            return None, []
        tests[:0] = _joined(inner.test)
        outer = module.syntax.parents.get(inner)
        if not isinstance(outer, ast.If | ast.For) or outer.body != [inner]:
            return None, []
        if isinstance(outer, ast.For):
            return (None if outer.orelse or outer.type_comment else outer), tests
        inner = outer
    return None, []


def _joined(test: ast.expr) -> list[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def _goes_again(loop: ast.For) -> bool:
    """Return whether what a loop goes through gives the same tensors twice."""
    match loop.iter:
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute(), attr=name), args=[], keywords=[]):
            return name in _AGAIN
    return False


def _is_pure(test: ast.expr) -> bool:
    """Return whether a condition can be asked twice."""
    calls = (part for part in walk(test) if isinstance(part, ast.Call))
    return not any(isinstance(part, ast.NamedExpr | ast.Await) for part in walk(test)) and all(
        last_name(call.func) in _PURE for call in calls
    )


def _flag(module: ModuleIndex, test: ast.expr) -> str | None:
    """``torch.isnan(x).any() | torch.isinf(x).any()``, and ``~torch.isfinite(x).all()`` of ``not``."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]
    flags = list[str]()
    for part in parts:
        match part:
            case ast.Call(func=ast.Attribute(attr="any" | "all", value=ast.Call()), args=[], keywords=[]):
                flags.append(module.syntax.text(part))
            case ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Attribute(attr="any" | "all"), args=[])):
                flags.append(f"~{module.syntax.text(part.operand)}")
            case _:
                return None
    return None if any("\n" in flag or "#" in flag for flag in flags) else " | ".join(flags)


def _with_flags(module: ModuleIndex, header: Edit, loop: ast.For, flag: str, guards: list[ast.expr], name: str) -> Edit:
    syntax = module.syntax
    written = syntax.source.line(loop.lineno)
    lead = written[: len(written) - len(written.lstrip())]
    going = f"for {syntax.text(loop.target)} in {syntax.text(loop.iter)}"
    conditions = [f"if {' and '.join(_operand(module, guard) for guard in guards)}"] if guards else []
    line = f"{lead}{name} = [{' '.join([flag, going, *conditions])}]\n"
    if len(line) > max(WIDTH, syntax.source.width):
        step = "    " if "\t" not in lead else "\t"
        parts = "".join(f"{lead}{step}{part}\n" for part in (flag, going, *conditions))
        line = f"{lead}{name} = [\n{parts}{lead}]\n"
    return replace(header, text=line + header.text)


def _operand(module: ModuleIndex, node: ast.expr) -> str:
    text = module.syntax.text(node)
    return f"({text})" if isinstance(node, ast.BoolOp | ast.IfExp | ast.Lambda) else text
