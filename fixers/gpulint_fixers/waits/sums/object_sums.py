"""Sums that an object keeps, such as the counts of a metric: on the GPU, until the class uses them as numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.placement.sync_points import SyncKind
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex
from gpulint_fixers.edits.string_places import converted_in_string
from gpulint_fixers.edits.versions import predates_device_argument
from gpulint_fixers.waits.device_reads import reads_of, uses_other_library
from gpulint_fixers.waits.double_precision import has_doubles
from gpulint_fixers.waits.element_types import is_integer
from gpulint_fixers.waits.sums.added_kinds import is_whole
from gpulint_fixers.waits.sums.device_sums import exactness, is_number
from gpulint_fixers.waits.sums.host_rounds import apart
from gpulint_fixers.waits.sums.tensor_sums import stored_in_tensor

_UNKNOWN = Declined("the value is stored in an object or a table in every step")
_CONVERTS = frozenset({"float", "int"})
_REPLACES = ("setattr", "__dict__", "vars(")


@dataclass(frozen=True, slots=True)
class Sum:
    """``self.correct`` of a class, or the entries of ``self.correct``."""

    module: ModuleIndex
    owner: ast.ClassDef
    name: str
    has_entries: bool

    def uses(self) -> Iterator[ast.Attribute]:
        """Yield each ``self.correct`` of the class."""
        for part in walk(self.owner):
            match part:
                case ast.Attribute(value=ast.Name(id="self"), attr=name) if name == self.name:
                    yield part

    def number(self, use: ast.Attribute) -> ast.expr | None:
        """The number that a use is about; None if it is about the list as a whole."""
        if not self.has_entries:
            return use
        up = self.module.syntax.parents.get(use)
        whole = isinstance(up, ast.Subscript) and up.value is use and not isinstance(up.slice, ast.Slice | ast.Tuple)
        return up if whole and isinstance(up, ast.Subscript) else None


def kept_in_object(project: Project, found: HostWait) -> Fix | Declined:
    """``self.correct += (prediction == label).sum().item()``, with ``[i]`` as well, or a tensor that callers pass."""
    statement = found.statement
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, ast.Add):
        return _UNKNOWN
    if any(sync.kind in (SyncKind.TEST, SyncKind.SELECT) for sync in found.syncs):
        return Declined("the value decides what the program does next")
    if predates_device_argument(found.module) or uses_other_library(found.module):
        return Declined("the module does not say whether this is a tensor of PyTorch")
    if isinstance(statement.target, ast.Subscript) and isinstance(statement.target.value, ast.Name):
        return stored_in_tensor(project, found, statement)
    kept = _sum_of(found.module, statement)
    if kept is None:
        return _UNKNOWN
    reads = reads_of(project, found)
    if isinstance(reads, Declined):
        return reads
    if (mixed := apart(project, found.module, reads)) is not None:
        return mixed
    exact = exactness(project, found.module, statement.value, reads)
    if isinstance(exact, Declined):
        return exact
    if _is_seen_elsewhere(project, kept):
        return Declined(f"other code uses `.{kept.name}` as well")
    counts = all(is_integer(found.module, read.tensor) for read in reads) and statement.value is reads[0].whole
    counts = counts and _stays_whole(kept, statement)
    edits = list[Edit]()
    for use in kept.uses():
        made = used(project, kept, use, counts=counts)
        if isinstance(made, Declined):
            return made
        edits += made
    doubles = "" if counts else ".detach()" + ".double()" * has_doubles(project, found.module)
    edits += [read.replaced(found.module, doubles) for read in reads]
    reasons = [f"`self.{kept.name}` is a tensor until then", *exact.reasons]
    return Fix(
        "; ".join(["add up on the GPU, and read the sum where the class uses it", *reasons]),
        Safety.UNSAFE,
        tuple(dict.fromkeys(edits)),
    )


def _sum_of(module: ModuleIndex, statement: ast.AugAssign) -> Sum | None:
    """The sum that a statement adds to, if its class only sets it to numbers and adds to it."""
    owner = module.class_of(statement)
    match statement.target:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            has_entries = False
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            has_entries = True
        case _:
            return None
    if owner is None or any(word in module.syntax.text(owner) for word in _REPLACES):
        return None
    kept = Sum(module, owner, name, has_entries)
    starts = [value for use in kept.uses() if (value := _start(kept, use)) is not None]
    return kept if starts and all(_is_start(value, has_entries) for value in starts) else None


def _stays_whole(kept: Sum, statement: ast.AugAssign) -> bool:
    """Return whether all that the class adds to a sum of integers leaves it one."""
    parents = kept.module.syntax.parents
    around = (parents.get(node) for use in kept.uses() if (node := kept.number(use)) is not None)
    return all(
        isinstance(up.op, ast.Add | ast.Sub) and is_whole(kept.module, up.value)
        for up in around
        if isinstance(up, ast.AugAssign) and up is not statement
    )


def _start(kept: Sum, use: ast.Attribute) -> ast.expr | None:
    """Return what an assignment sets the sum to; None for other uses."""
    if not isinstance(use.ctx, ast.Store):
        return None
    match kept.module.syntax.parents.get(use):
        case ast.Assign(value=value):
            return value
        case ast.AnnAssign(value=ast.expr() as value):
            return value
        case ast.AugAssign():
            return None
    return use  # of a loop or of several variables


def _is_start(value: ast.expr, has_entries: bool) -> bool:
    """``0``, or ``[0] * classes`` and ``[0 for _ in range(classes)]``."""
    if not has_entries:
        return is_number(value)
    match value:
        case ast.BinOp(left=ast.List(elts=[one]), op=ast.Mult()) | ast.ListComp(elt=one):
            return is_number(one)
        case ast.List(elts=elements):
            return bool(elements) and all(map(is_number, elements))
    return False


def used(project: Project, kept: Sum, use: ast.Attribute, *, counts: bool) -> list[Edit] | Declined:
    """Return what one use needs: nothing, or a conversion to a number."""
    syntax = kept.module.syntax
    node, up = kept.number(use), syntax.parents.get(use)
    if isinstance(use.ctx, ast.Store) or (isinstance(up, ast.AugAssign) and up.target is use):
        return []
    if node is None:
        size = isinstance(up, ast.Call) and ast.unparse(up.func) == "len"
        return [] if size else Declined(f"`self.{kept.name}` is used as a whole as well")
    if isinstance(up := syntax.parents.get(node), ast.AugAssign) and up.target is node:
        return []
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return Declined(f"entries of `self.{kept.name}` are set as well")
    step = project.fact(LoopContexts).in_role(kept.module, node, Role.STEP)
    if step is not None and not project.fact(Guards).is_periodic(kept.module, node):
        return Declined(f"`self.{kept.name}` is used in every step")
    if _is_converted(kept.module, node):
        return []
    number = f"{'int' if counts else 'float'}({ast.unparse(node)})"
    if any(isinstance(part, ast.JoinedStr) for part in syntax.ancestors(node)):
        edit = converted_in_string(kept.module, node, number)
        return [edit] if edit is not None else Declined(f"`self.{kept.name}` is part of a string")
    return [Edit(syntax.path, syntax.span(node), number)]


def _is_converted(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether arithmetic around a number ends in ``float(...)``."""
    inner = node
    while isinstance(up := module.syntax.parents.get(inner), ast.BinOp | ast.UnaryOp):
        inner = up
    return isinstance(up, ast.Call) and ast.unparse(up.func) in _CONVERTS and up.args == [inner]


def _is_seen_elsewhere(project: Project, kept: Sum) -> bool:
    """Return whether other code may read the sum: through the object, or in a class that inherits it."""
    inside = set(walk(kept.owner))
    for path in project.word_index.mentioning(kept.name.encode()):
        module = project.module_at(path)
        if module is None:
            continue
        for node in module.syntax.of(ast.Attribute):
            if node.attr != kept.name or node in inside:
                continue
            around = [up for up in module.syntax.ancestors(node) if isinstance(up, ast.ClassDef)]
            own = isinstance(node.value, ast.Name) and node.value.id == "self" and bool(around)
            if not own or any(kept.owner.name in ast.unparse(base) for base in around[0].bases):
                return True
    return any(isinstance(up, FUNCTIONS) for up in kept.module.syntax.ancestors(kept.owner))
