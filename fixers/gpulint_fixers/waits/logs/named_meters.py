"""Meters by name that average what they are given, as in torchvision's references: ``logger.update(loss=loss.item())``.

The logger's ``update`` reads tensors, and its meters add up numbers. After the fix the meters hold tensors, and read
them where an average is shown.
"""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name
from gpulint_fixers.waits.double_precision import has_doubles
from gpulint_fixers.waits.logs.log_intervals import logged_seldom

_NO = Declined("what the object does with the number is unknown")
_SUMS = frozenset({"self.deque.append(value)", "self.count += n", "self.total += value * n"})
"""What a meter does with a value."""
_SHOWN = {
    "self.total / self.count": "float({})",
    "self.deque[-1]": "float({})",
    "max(self.deque)": "max(map(float, self.deque))",
}
"""What a meter returns, and the same for tensors."""
_HARMLESS = frozenset({"update", "log_every", "add_meter", "synchronize_between_processes"})
"""Methods of a logger that a step may call."""


def keeps_tensors(project: Project, module: ModuleIndex, loop: ast.AST, name: ast.Name) -> tuple[Edit, ...] | Declined:
    """The edits after which the meters of a logger hold tensors; none if they do already."""
    owners = {
        made
        for ref in project.fact(Resolver).points_to(module, name)
        if isinstance(ref.node, ast.Call)
        for made in project.fact(Resolver).points_to(ref.module, ref.node.func)
    }
    if len(owners) != 1 or not isinstance((owner := owners.pop()).node, ast.ClassDef):
        return _NO
    for node in module.named.get(name.id, []):
        up = module.syntax.parents.get(node)
        plain = isinstance(up, ast.Attribute) and up.attr in _HARMLESS
        if loop in module.syntax.ancestors(node) and not plain and not logged_seldom(project, module, node):
            return Declined(f"`{name.id}` is used in the loop, and not only to average values")
    return edits_of(project, owner.module, owner.node)


@query
def edits_of(project: Project, module: ModuleIndex, owner: ast.AST) -> tuple[Edit, ...] | Declined:
    """The edits of a logger's class and of the class of its meters."""
    if not isinstance(owner, ast.ClassDef) or (update := _method(owner, "update")) is None:
        return _NO
    made = _update(project, module, update)
    meter = _meter(project, module, owner)
    if made is None or meter is None:
        return _NO
    shown = _meter_edits(meter)
    return _NO if shown is None else (*made, *shown)


def _method(owner: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((part for part in owner.body if isinstance(part, ast.FunctionDef) and part.name == name), None)


def _update(project: Project, module: ModuleIndex, update: ast.FunctionDef) -> list[Edit] | None:
    """``for k, v in kwargs.items(): ...``, after which tensors are not read; None for any other update."""
    match update.body[-1]:
        case ast.For(
            target=ast.Tuple(elts=[ast.Name(id=key), ast.Name(id=name)]),
            iter=ast.Call(func=ast.Attribute(value=ast.Name(id=given), attr="items")),
            body=body,
            orelse=[],
        ) if update.args.kwarg is not None and update.args.kwarg.arg == given and len(update.body) <= 2:
            pass
        case _:
            return None
    edits, stored, syntax = list[Edit](), False, module.syntax
    for statement in body:
        match statement:
            case ast.If(test=test, body=[ast.Continue()], orelse=[]) if ast.unparse(test) == f"{name} is None":
                pass
            case ast.If(
                test=ast.Call(func=ast.Name(id="isinstance")), body=[ast.Assign(value=value) as read], orelse=[]
            ) if ast.unparse(read.targets[0]) == name:
                text = ast.unparse(value)
                if text == f"{name}.item()":
                    kept = ".detach().double()" if has_doubles(project, module) else ".detach().clone()"
                    edits.append(Edit(syntax.path, syntax.span(value), f"{name}{kept}"))
                elif not text.startswith(f"{name}.detach()"):
                    return None
            case ast.Assert(test=ast.Call(func=ast.Name(id="isinstance"), args=[_, ast.Tuple(elts=kinds)])):
                if all(last_name(kind) != "Tensor" for kind in kinds):
                    end = syntax.offsets(kinds[-1])[1]
                    edits.append(Edit(syntax.path, syntax.span_at(end, end), ", torch.Tensor"))
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=meter, attr="update"), args=[ast.Name(id=own)])):
                stored = own == name and ast.unparse(meter) == f"self.meters[{key}]"
            case _:
                return None
    return edits if stored and "torch" in module.top.bindings else None


def _meter(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> NodeRef | None:
    """The class of ``self.meters = defaultdict(Meter)``."""
    for part in walk(owner):
        match part:
            case ast.Assign(
                targets=[ast.Attribute(attr="meters")], value=ast.Call(func=func, args=[ast.Name() as made])
            ) if last_name(func) == "defaultdict":
                found = project.fact(Resolver).points_to(module, made)
                return found[0] if len(found) == 1 and isinstance(found[0].node, ast.ClassDef) else None
    return None


def _meter_edits(meter: NodeRef) -> list[Edit] | None:
    """Conversions of what a meter returns; None if it does more with values than to add them up and to keep them."""
    owner, syntax = meter.node, meter.module.syntax
    assert isinstance(owner, ast.ClassDef)
    update = _method(owner, "update")
    if update is None or [arg.arg for arg in update.args.args] != ["self", "value", "n"]:
        return None
    if not {ast.unparse(statement) for statement in update.body} <= _SUMS:
        return None
    edits, known = list[Edit](), set[ast.AST]()
    for part in walk(owner):
        if isinstance(part, ast.Return) and part.value is not None:
            text = ast.unparse(part.value)
            if text in _SHOWN:
                edits.append(Edit(syntax.path, syntax.span(part.value), _SHOWN[text].format(text)))
                known.update(walk(part.value))
            elif any(text == new.format(old) for old, new in _SHOWN.items()):
                known.update(walk(part.value))
        elif isinstance(part, ast.Call) and ast.unparse(part.func) in ("torch.tensor", "torch.as_tensor"):
            known.update(walk(part))
    known.update(part for statement in update.body for part in walk(statement))
    for part in meter.module.syntax.nodes:
        held = isinstance(part, ast.Attribute) and part.attr in ("deque", "total") and isinstance(part.ctx, ast.Load)
        if held and part not in known and ast.unparse(part) != "collections.deque":
            return None
    return edits
