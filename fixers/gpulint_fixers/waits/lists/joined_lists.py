"""Lists of an object that a step fills with copies of tensors, and that another method of its class joins:
``self.outputs.append(scores.cpu())`` and then ``torch.cat(self.outputs)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Edit, Fix, Safety
from gpulint.placement.host_results import copies_to_host
from gpulint.placement.sync_points import SyncKind
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import COMPREHENSIONS, ModuleIndex, last_name
from gpulint_fixers.edits.versions import predates_device_argument
from gpulint_fixers.waits.lists.device_lists import may_be_large
from gpulint_fixers.waits.lists.list_reads import counts

_JOINS = frozenset({"torch.cat", "torch.concat", "torch.concatenate", "torch.stack", "torch.vstack", "torch.hstack"})
_FRESH = frozenset({"argmax", "argmin", "mean", "sum", "softmax", "sigmoid", "clone"})
"""Methods that always make a tensor of their own."""


@dataclass(frozen=True, slots=True)
class _Uses:
    """What a class does with a list: the copies that it appends, and the calls that join them."""

    copies: list[ast.Call]
    joins: list[ast.Call]


def joined_later(project: Project, found: HostWait, statement: ast.stmt) -> Fix | None:
    """Keep the tensors on the GPU, and copy what they are joined to; None for other lists."""
    module, owner = found.module, found.module.class_of(statement)
    held = _filled(statement)
    if owner is None or held is None or any(sync.kind is not SyncKind.READ for sync in found.syncs):
        return None
    if predates_device_argument(module) or _is_used_elsewhere(project, module, owner, held.attr):
        return None
    uses = _Uses([], [])
    for use in _uses(owner, held.attr):
        if not _add(project, module, use, uses, follow=True):
            return None
    copied = {part for copy in uses.copies for part in walk(copy)}
    if not uses.joins or any(sync.node not in copied for sync in found.syncs):
        return None
    if any(may_be_large(module, copy, held.attr) for copy in uses.copies):
        return None
    edits = [_kept(module, copy) for copy in uses.copies]
    edits += [edit for join in uses.joins if (edit := _copied(module, join)) is not None]
    what = "keep the tensors on the GPU and copy them once they are joined; it needs memory for all of them"
    return Fix(what, Safety.UNSAFE, tuple(dict.fromkeys(edits)))


def _filled(statement: ast.stmt) -> ast.Attribute | None:
    """``self.outputs`` or ``self.outputs[stage]``, to which a statement appends."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append", value=target), args=[_], keywords=[])):
            held = target.value if isinstance(target, ast.Subscript) else target
            if isinstance(held, ast.Attribute) and isinstance(held.value, ast.Name) and held.value.id == "self":
                return held
    return None


def _uses(owner: ast.ClassDef, name: str) -> Iterator[ast.Attribute]:
    for part in walk(owner):
        if isinstance(part, ast.Attribute) and part.attr == name:
            yield part


def _is_used_elsewhere(project: Project, module: ModuleIndex, owner: ast.ClassDef, name: str) -> bool:
    """Return whether code outside of a class uses something of that name."""
    inside = {*_uses(owner, name)}
    if any(
        isinstance(part, ast.Attribute) and part.attr == name for part in walk(module.syntax.tree) if part not in inside
    ):
        return True
    others = [path for path in project.word_index.mentioning(name.encode()) if path != module.path]
    return any(
        isinstance(part, ast.Attribute) and part.attr == name
        for path in others
        if (other := project.module_at(path)) is not None
        for part in walk(other.syntax.tree)
    )


def _add(project: Project, module: ModuleIndex, use: ast.expr, uses: _Uses, *, follow: bool) -> bool:
    """Add what a use does with a list; False where that is anything else."""
    parents, top = module.syntax.parents, use
    if isinstance(entry := parents.get(use), ast.Subscript) and entry.value is use and follow:
        top = entry
    up = parents.get(top)
    match up:
        case ast.Assign(value=value) if value is not top:
            return _is_empty(value)
        case ast.AnnAssign(value=ast.expr() as value) if value is not top:
            return _is_empty(value)
        case ast.Assign(targets=[ast.Name() as alias]) if follow:
            return _alias(project, module, alias, uses)
        case ast.Attribute(attr="clear"):
            return True
        case ast.Attribute(attr="append"):
            return _appends(module, up, uses)
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.If(test=test) if test is top:
            return True
    return counts(up) or _joins(project, module, top, uses)


def _is_empty(value: ast.expr) -> bool:
    """``[]``, ``{"train": [], "val": []}``, ``defaultdict(list)``"""
    match value:
        case ast.List(elts=[]):
            return True
        case ast.Dict(values=values):
            return all(map(_is_empty, values))
        case ast.Call(func=func, args=[ast.Name(id="list")], keywords=[]):
            return last_name(func) == "defaultdict"
    return False


def _alias(project: Project, module: ModuleIndex, alias: ast.Name, uses: _Uses) -> bool:
    """Add the uses of ``outputs = self.outputs["train"]``, which its function sets once."""
    function = module.function(alias)
    nodes = [node for node in module.named.get(alias.id, []) if module.function(node) is function]
    loads = [node for node in nodes if isinstance(node.ctx, ast.Load)]
    return len(nodes) == len(loads) + 1 and all(_add(project, module, node, uses, follow=False) for node in loads)


def _appends(module: ModuleIndex, append: ast.Attribute, uses: _Uses) -> bool:
    """Add ``self.outputs.append((scores.cpu(), labels.cpu()))``, all of which are copies."""
    call = module.syntax.parents.get(append)
    if not isinstance(call, ast.Call) or call.func is not append or len(call.args) != 1 or call.keywords:
        return False
    match call.args[0]:
        case ast.Tuple(elts=values) | ast.List(elts=values) | ast.Dict(values=values):
            pass
        case value:
            values = [value]
    copies = [value for value in values if isinstance(value, ast.Call) and _copies(value)]
    uses.copies.extend(copies)
    return bool(copies) and len(copies) == len(values)


def _copies(call: ast.Call) -> bool:
    match call:
        case ast.Call(func=ast.Attribute(attr="cpu"), args=[], keywords=[]):
            return True
        case ast.Call(args=[_], keywords=[]):
            return copies_to_host(call)
    return False


def _joins(project: Project, module: ModuleIndex, top: ast.expr, uses: _Uses) -> bool:
    """Add ``torch.cat(self.outputs)`` and ``torch.cat([one[0] for one in self.outputs])``."""
    up, given = module.syntax.parents.get(top), top
    if isinstance(up, ast.comprehension) and up.iter is top:
        inner = module.syntax.parents.get(up)
        match inner:
            case ast.ListComp(elt=elt, generators=[ast.comprehension(target=ast.Name(id=name), ifs=[])]):
                pass
            case _:
                return False
        match elt:
            case ast.Name(id=own) | ast.Subscript(value=ast.Name(id=own), slice=ast.Constant()) if own == name:
                given, up = inner, module.syntax.parents.get(inner)
            case _:
                return False
    if not isinstance(up, ast.Call) or not up.args or up.args[0] is not given:
        return False
    if not project.fact(Resolver).call_names(module, up) & _JOINS:
        return False
    if any(isinstance(around, COMPREHENSIONS) for around in module.syntax.ancestors(up)):
        return False
    uses.joins.append(up)
    return True


def _kept(module: ModuleIndex, copy: ast.Call) -> Edit:
    """Take the copy out; the tensor is cloned where it may be that of the step, which something may change."""
    assert isinstance(copy.func, ast.Attribute)
    base = copy.func.value
    fresh = isinstance(base, ast.Call) and last_name(base.func) in _FRESH
    start, end = module.syntax.offsets(base)[1], module.syntax.offsets(copy)[1]
    return Edit(module.path, module.syntax.span_at(start, end), "" if fresh else ".clone()")


def _copied(module: ModuleIndex, join: ast.Call) -> Edit | None:
    """Copy what is joined, unless the program does."""
    up = module.syntax.parents.get(join)
    if isinstance(up, ast.Attribute) and up.attr == "cpu":
        return None
    end = module.syntax.offsets(join)[1]
    return Edit(module.path, module.syntax.span_at(end, end), ".cpu()")
